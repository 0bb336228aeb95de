from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import pickle
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from base.canonical import canonical_json
from base.errors import AuthenticationFailed, FormatError, GrantRefused, OutsideGrant, UsageError
from keys import EpochKey, Identity, Recipient, SecretBytes
from keys.approval import Approval, CustodyPolicy
from keys.grant import Grant, OpenedGrant
from keys.grant_payload import GrantPayload
from keys.grant_revocation import Revocation
from keys.grant_terms import GrantRequest, RegionBox, TimeSpan
from keys.labels import Label
from keys.schedule import RegionKeys, SegmentKeys
from keys.secret import RevealToken
from keys.signer import SignerKey
from keys.source import KeySource
from keys.suite import Suite
from tests.keys.foreign_hpke import AEAD_AES_256_GCM, KEM_X25519, dhkem_decapsulate, key_schedule
from tests.keys.test_source import Segment

CAMERA, STREAM, EPOCH = b"c" * 16, b"s" * 16, b"e" * 16
NOW_US = 1_700_000_000_000_000
DAY_US = 86_400_000_000
EPOCH_KEY = EpochKey(SecretBytes(b"\x11" * 32))
INVESTIGATOR = Identity("iris", Suite.X25519, SecretBytes(b"\x22" * 32))
STRANGER = Identity("otto", Suite.X25519, SecretBytes(b"\x23" * 32))
DORA, DAN, EVE = (
    SignerKey(name, SecretBytes(bytes([n]) * 32)) for n, name in enumerate(("dora", "dan", "eve"))
)


def _foreign_open(private: bytes, blob: bytes, info: bytes) -> bytes:
    schedule = key_schedule(KEM_X25519, AEAD_AES_256_GCM, dhkem_decapsulate(private, blob[:32]), info)
    return AESGCM(schedule.key).decrypt(schedule.base_nonce, blob[32:], b"")


def _request(**changes: Any) -> GrantRequest:
    made: dict[str, Any] = {
        "case": "2026-117",
        "reason": "theft at the gate",
        "made_us": NOW_US,
        "expires_us": NOW_US + DAY_US,
        "uses": 2,
        **changes,
    }
    spans = made.pop("ranges", [TimeSpan(0, 10**7)])
    return GrantRequest.new(CAMERA, spans, made.pop("investigator", INVESTIGATOR.recipient), **made)


def _segment(index: int, camera_id: bytes = CAMERA) -> Segment:
    return Segment(camera_id, STREAM, EPOCH, index, index * 2_000_000, ())


def _keys_of(index: int) -> SegmentKeys:
    return EPOCH_KEY.segment(CAMERA, STREAM, EPOCH, index)


def _payload(indices: range = range(3, 6), regions: tuple[int, ...] = ()) -> GrantPayload:
    payload = GrantPayload()
    for index in indices:
        payload.add((STREAM, EPOCH, index), _keys_of(index), index * 10, index * 10 + 9, regions)
    return payload


def _grant(request: GrantRequest | None = None, **rest: Any) -> Grant:
    return Grant.issue(request or _request(), rest.pop("payload", _payload()), DORA, issued_us=NOW_US, **rest)


def _opened(grant: Grant) -> OpenedGrant:
    return Grant.parse(bytes(grant)).open([INVESTIGATOR])


def test_a_grant_gives_the_keys_of_its_segments() -> None:
    opened = _opened(_grant())
    assert isinstance(opened, KeySource)
    for index in (3, 4, 5):
        assert opened.covers(_segment(index))
        keys = opened.segment_keys(_segment(index))
        assert isinstance(keys, SegmentKeys)
        assert keys.secret == _keys_of(index).secret
    assert opened.used_ids == (INVESTIGATOR.recipient.recipient_id.hex(),)


def test_a_segment_outside_has_no_key() -> None:
    opened = _opened(_grant())
    other_stream = dataclasses.replace(_segment(4), stream_id=b"t" * 16)
    other_epoch = dataclasses.replace(_segment(4), epoch_id=b"f" * 16)
    for segment in (_segment(2), _segment(6), _segment(4, b"d" * 16), other_stream, other_epoch):
        assert not opened.covers(segment)
        with pytest.raises(OutsideGrant):
            opened.segment_keys(segment)


def test_the_contents_are_segment_keys_and_nothing_else() -> None:
    """Everything that the investigator's key decrypts, byte for byte, opened by another HPKE."""
    grant = _grant()
    head = json.loads(bytes(grant).split(b"\n", 1)[0])
    terms = hashlib.sha256(canonical_json(head["terms"])).digest()
    blob = base64.b64decode(head["key"]["blob"])
    key = _foreign_open(b"\x22" * 32, blob, b"veilcam grant wrap v1" + terms)
    plain = AESGCM(key).decrypt(bytes(12), grant.payload, b"veilcam grant payload v1" + terms)
    expected = (1).to_bytes(4, "big") + STREAM + EPOCH + (3).to_bytes(4, "big")
    for index in (3, 4, 5):
        times = (index * 10).to_bytes(8, "big") + (index * 10 + 9).to_bytes(8, "big")
        secret = bytes(_keys_of(index).secret.expose(RevealToken("test")))
        expected += index.to_bytes(8, "big") + times + b"\x01\xff" + secret
    assert plain == expected
    assert b"\x11" * 32 not in plain


def test_a_grant_of_regions_holds_their_keys_and_not_the_segments() -> None:
    grant = _grant(_request(regions=[RegionBox(0, 0, 64, 64)]), payload=_payload(regions=(2, 7)))
    keys = _opened(grant).segment_keys(_segment(4))
    assert isinstance(keys, RegionKeys)
    assert keys.regions == {2, 7}
    for region in (2, 7):
        assert keys.secret(region) == _keys_of(4).region_key(region)


def test_only_the_investigator_opens_it() -> None:
    with pytest.raises(GrantRefused, match="iris"):
        _grant().open([STRANGER])


def test_a_hybrid_recipient_works_too() -> None:
    recipient, identity = Recipient.generate("ida")
    grant = _grant(_request(investigator=recipient))
    assert Grant.parse(bytes(grant)).open([STRANGER, identity]).covers(_segment(3))


def _changed(grant: Grant, change: Any) -> bytes:
    head, payload = bytes(grant).split(b"\n", 1)
    document = json.loads(head)
    change(document)
    return canonical_json(document) + b"\n" + payload


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["terms"]["request"].update(uses=None),
        lambda d: d["terms"]["request"].update(expires_us=NOW_US + 99 * DAY_US),
        lambda d: d["terms"]["request"].update(ranges=[[0, 10**8]]),
        lambda d: d["terms"]["request"].update(case="another"),
        lambda d: d["terms"].update(issued_us=NOW_US + 1),
        lambda d: d["issuer"].update(name="dorothy"),
        lambda d: d.update(sig="00" * 64),
    ],
)
def test_changed_terms_do_not_verify(change: Any) -> None:
    changed = Grant.parse(_changed(_grant(), change))
    with pytest.raises(AuthenticationFailed):
        changed.verify()
    with pytest.raises(AuthenticationFailed):
        changed.open([INVESTIGATOR])


def test_keys_do_not_open_under_terms_that_were_signed_anew() -> None:
    """A second custodian cannot move the sealed keys to other terms either."""
    grant = _grant()
    terms = dataclasses.replace(grant.terms, request=_request(uses=None))
    moved = dataclasses.replace(grant, terms=terms)
    signature = DORA.sign(Label.GRANT_ISSUE, canonical_json(moved.unsigned()))
    with pytest.raises(AuthenticationFailed):
        dataclasses.replace(moved, signature=signature).open([INVESTIGATOR])


def test_time_uses_and_revocation_end_a_grant() -> None:
    opened = _opened(_grant())
    opened.authorize(NOW_US + DAY_US - 1, 1)
    for now_us, used, why in ((NOW_US + DAY_US, 0, "over"), (NOW_US, 2, "2 times")):
        with pytest.raises(GrantRefused, match=why):
            opened.authorize(now_us, used)
    opened.revoke("case closed")
    with pytest.raises(GrantRefused, match="case closed"):
        opened.authorize(NOW_US, 0)


def test_a_grant_without_a_bound_on_its_uses_is_never_used_up() -> None:
    _opened(_grant(_request(uses=None))).authorize(NOW_US, 10**9)


def test_two_of_three_custodians_must_approve() -> None:
    request = _request()
    policy = CustodyPolicy(2, (DORA.public, DAN.public, EVE.public))
    dora, dan = (Approval.sign(request, key, NOW_US) for key in (DORA, DAN))
    stranger = Approval.sign(request, SignerKey.generate("mallory"), NOW_US)
    for too_few in ([], [dora], [dora, dora], [dora, stranger]):
        with pytest.raises(GrantRefused, match="2 must"):
            _grant(request, approvals=too_few, policy=policy)
    grant = _grant(request, approvals=[dora, dan], policy=policy)
    Grant.parse(bytes(grant)).verify(policy)
    assert grant.terms.policy_digest == policy.digest


def test_an_approval_counts_for_its_own_request_alone() -> None:
    approval = Approval.sign(_request(), DORA, NOW_US)
    with pytest.raises(GrantRefused, match="another request"):
        _grant(_request(), approvals=[approval])


def test_an_approval_cannot_be_put_in_anothers_name() -> None:
    request = _request()
    forged = dataclasses.replace(Approval.sign(request, EVE, NOW_US), by=DAN.public)
    with pytest.raises(AuthenticationFailed):
        forged.verify(request)


def test_a_grant_that_bypassed_the_policy_is_refused_by_who_knows_it() -> None:
    policy = CustodyPolicy(1, (DAN.public,))
    grant = _grant()  # issued by Dora without any policy
    grant.verify()
    with pytest.raises(GrantRefused, match="no custodian"):
        grant.open([INVESTIGATOR], policy)


def test_a_request_that_is_over_is_not_granted() -> None:
    with pytest.raises(GrantRefused, match="expired"):
        Grant.issue(_request(), _payload(), DORA, issued_us=NOW_US + DAY_US)
    with pytest.raises(UsageError, match="none of the segments"):
        _grant(payload=GrantPayload())


def test_nothing_secret_is_shown_or_pickled() -> None:
    opened = _opened(_grant())
    secret = bytes(_keys_of(4).secret.expose(RevealToken("test")))
    assert secret.hex() not in repr(opened) + repr(opened.grant)
    for value in (opened, _payload()):
        with pytest.raises(TypeError):
            pickle.dumps(value)


spans = st.lists(
    st.tuples(st.integers(-(2**52), 2**52), st.integers(1, 2**40)).map(lambda p: TimeSpan(p[0], p[0] + p[1])),
    min_size=1,
    max_size=5,
)
pixels = st.integers(1, 65_536)
boxes = st.builds(RegionBox, pixels, pixels, pixels, pixels, st.none() | st.integers(-9, 9), st.none())
plain = st.text(st.characters(categories=["L", "N", "Pd", "Zs"]), min_size=1, max_size=40)


@settings(deadline=None)
@given(spans, plain, plain, st.none() | st.integers(1, 9), st.lists(boxes, max_size=5))
def test_requests_read_back_as_written(
    ranges: list[TimeSpan], case: str, reason: str, uses: int | None, regions: list[RegionBox]
) -> None:
    request = _request(ranges=ranges, case=case, reason=reason, uses=uses, regions=regions)
    assert GrantRequest.parse(bytes(request) + b"\n") == request
    assert GrantRequest.parse(bytes(request)).digest == hashlib.sha256(bytes(request)).digest()


@settings(deadline=None, max_examples=30)
@given(st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=20), st.sets(st.integers(0, 63), max_size=3))
def test_contents_read_back_as_written(indices: set[int], regions: set[int]) -> None:
    payload = GrantPayload()
    for index in indices:
        payload.add((STREAM, EPOCH, index), _keys_of(index), -5, 5, tuple(regions))
    again = GrantPayload.unpack(payload.pack())
    assert set(again.names()) == set(payload.names())
    assert again.pack() == payload.pack()


@given(st.binary(max_size=200))
def test_random_bytes_raise_only_format_errors(data: bytes) -> None:
    for parse in (Grant.parse, GrantRequest.parse, Approval.parse, CustodyPolicy.parse):
        with pytest.raises(FormatError):
            parse(data)
    with pytest.raises(FormatError):
        GrantPayload.unpack(SecretBytes(data + b"\xff"))


SMALL = bytes(_grant())


@settings(deadline=None, max_examples=100)
@given(st.integers(0, len(SMALL) - 1), st.integers(1, 255))
def test_a_changed_byte_anywhere_is_refused(place: int, change: int) -> None:
    data = bytearray(SMALL)
    data[place] ^= change
    with pytest.raises((FormatError, AuthenticationFailed)):
        Grant.parse(bytes(data)).open([INVESTIGATOR])


@pytest.mark.parametrize("cut", [*range(0, len(SMALL), 101), len(SMALL) - 1])
def test_a_grant_cut_off_anywhere_is_refused(cut: int) -> None:
    with pytest.raises(FormatError):
        Grant.parse(SMALL[:cut])


@pytest.mark.parametrize("reason", ["", "x" * 2001, "closed\x1b[2J", "\u202e"])
def test_a_revocation_that_nobody_could_read_is_not_made(reason: str) -> None:
    with pytest.raises(UsageError, match="reason"):
        Revocation.sign(bytes(16), reason, DORA, NOW_US)
    longest = Revocation.sign(bytes(16), '"' * 2000, DORA, NOW_US)
    assert Revocation.parse(bytes(longest)) == longest
