from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from base.errors import GrantRefused, NoMatchingIdentity, OutsideGrant, UsageError, VeilError
from codec.access_unit import AccessUnit
from codec.chunks import each_sealed_body
from codec.container import read_access_units
from codec.digests import unit_digest
from codec.segments import SegmentView, read_segments
from codec.unseal import open_segment
from forensics.audit import verify_ledger
from forensics.decode import DecodeOptions, decode
from forensics.decode_report import Outcome
from forensics.grants import Consent, IssuedGrant, issue_grant, write_grant
from forensics.ledger import Ledger
from forensics.opening import Purpose, Request, open_recorded
from forensics.selection import parse_range
from keys import EpochKey, Identity, IdentityKeys, Recipient, RegionKeys, SecretBytes, SegmentKeys
from keys.approval import Approval, CustodyPolicy
from keys.grant import Grant, OpenedGrant
from keys.grant_terms import GrantRequest, RegionBox, TimeSpan
from keys.secret import RevealToken
from keys.signer import SignerKey
from keys.suite import Suite
from tests.forensics import region_recording
from tests.forensics.recordings import START_US, Recording, authority, camera_key, payloads, write_units
from tests.keys.grant_reader import WHOLE, read_grant

SECOND_US = 1_000_000
INVESTIGATOR = Identity("iris", Suite.X25519, SecretBytes(b"\x22" * 32))
DORA, DAN = (SignerKey(name, SecretBytes(bytes([n]) * 32)) for n, name in enumerate(("dora", "dan"), 1))
DAY_US = 86_400 * SECOND_US


def _request(start_s: float, end_s: float, **changes: Any) -> GrantRequest:
    span = TimeSpan(START_US + round(start_s * SECOND_US), START_US + round(end_s * SECOND_US))
    made: dict[str, Any] = {"case": "2026-117", "reason": "theft", "uses": 2, **changes}
    made_us = made.pop("made_us", 1)
    made.setdefault("expires_us", 2**52)
    return GrantRequest.new(camera_key().camera_id, [span], INVESTIGATOR.recipient, made_us=made_us, **made)


def _issue(recording: Recording, ledger: Ledger, request: GrantRequest, **rest: Any) -> IssuedGrant:
    given: dict[str, Any] = {
        "camera": recording.camera,
        "identities": [recording.identity],
        "issuer": DORA,
        "ledger": ledger,
        **rest,
    }
    return issue_grant(request, [given.pop("path", recording.path)], **given)


def _opened(issued: IssuedGrant) -> OpenedGrant:
    return Grant.parse(bytes(issued.grant)).open([INVESTIGATOR])


def _kinds(ledger: Ledger) -> list[str]:
    return [json.loads(line)["kind"] for line in ledger.path.read_text().splitlines()]


def _views(recording: Recording) -> list[SegmentView]:
    return list(read_segments(recording.units()))


def test_the_investigator_opens_the_granted_seconds_without_the_custodians_key(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    issued = _issue(recording, ledger, _request(2, 4))
    write_grant(issued, tmp_path / "a.grant", ledger)
    assert (tmp_path / "a.grant").stat().st_mode & 0o777 == 0o600
    opened = Grant.parse((tmp_path / "a.grant").read_bytes()).open([INVESTIGATOR])
    out = tmp_path / "out.mp4"
    report = decode(recording.path, out, opened, camera=recording.camera, ledger=ledger)
    assert (report.exit_code, report.grant_id) == (0, issued.grant.grant_id.hex())
    assert report.delivered_us == (START_US + 2 * SECOND_US, START_US + 4 * SECOND_US - 100_000)
    assert "4 segments lie outside the grant and stay closed" in report.notes
    # The same packets as the custodian gets for the same range.
    options = DecodeOptions(parse_range("2", "4"))
    whole = tmp_path / "custodian.mp4"
    decode(recording.path, whole, [recording.identity], ledger=ledger, options=options)
    assert payloads(out) == payloads(whole)
    assert _kinds(ledger)[:4] == ["grant-issuing", "grant-issued", "open", "end"]


def test_a_segment_that_the_range_cuts_into_stays_closed(recording: Recording, ledger: Ledger) -> None:
    issued = _issue(recording, ledger, _request(1.5, 4.85))
    assert [each.segment_index for each in _granted(issued, recording)] == [2, 3]
    assert len(issued.notes) == 2
    assert issued.num_outside == 2


def _granted(issued: IssuedGrant, recording: Recording) -> list[Any]:
    opened = _opened(issued)
    headers = [view.header() for view in _views(recording)]
    return [header for header in headers if header is not None and opened.covers(header)]


def test_a_second_outside_stays_closed_to_a_client_that_tries_everything_in_the_grant(
    recording: Recording, ledger: Ledger
) -> None:
    """Not our program but its raw contents: every 32 bytes of them, as segment key and as epoch key."""
    payload = _opened(_issue(recording, ledger, _request(2, 3)))._payload
    raw = bytes(payload.pack().expose(RevealToken("test")))
    inside, outside = _views(recording)[2], [_views(recording)[1], _views(recording)[3]]
    opened_inside = 0
    for place in range(len(raw) - 31):
        secret = SecretBytes(raw[place : place + 32])
        for key in (SegmentKeys(secret), EpochKey(secret)):
            opened_inside += open_segment(inside, key).is_complete
            for view in outside:
                opened = open_segment(view, key)
                assert (opened.packets, opened.streams) == ((), ())
    assert opened_inside == 1  # the same attack does open what was granted


def test_decode_says_what_the_grant_does_not_hold(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    opened = _opened(_issue(recording, ledger, _request(2, 4, uses=None)))
    partly = DecodeOptions(parse_range("3", "5"))
    report = decode(recording.path, tmp_path / "a.mp4", opened, ledger=ledger, options=partly)
    assert [(row.ordinal, row.outcome) for row in report.opened] == [
        (3, Outcome.DELIVERED),
        (4, Outcome.NOT_OPENED),
    ]
    assert (report.opened[1].problems, report.exit_code) == (("outside the grant",), 3)
    outside = DecodeOptions(parse_range("4", "6"))
    with pytest.raises(OutsideGrant):
        decode(recording.path, tmp_path / "b.mp4", opened, ledger=ledger, options=outside)
    assert _kinds(ledger)[-1] == "refused"


def test_uses_are_counted_by_the_ledger(recording: Recording, tmp_path: Path, ledger: Ledger) -> None:
    issued = _issue(recording, ledger, _request(2, 4))
    for number in range(2):
        decode(recording.path, tmp_path / f"{number}.mp4", _opened(issued), ledger=ledger)
    with pytest.raises(GrantRefused, match="2 times"):
        decode(recording.path, tmp_path / "2.mp4", _opened(issued), ledger=ledger)
    assert not (tmp_path / "2.mp4").exists()
    assert _kinds(ledger)[-1] == "refused"


def test_an_expired_grant_is_refused_also_when_the_clock_is_set_back(
    recording: Recording, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.jsonl"
    now = [10 * SECOND_US]
    ledger = Ledger(path, clock=lambda: now[0])
    issued = _issue(recording, ledger, _request(2, 4, expires_us=20 * SECOND_US))
    now[0] = 20 * SECOND_US
    with pytest.raises(GrantRefused, match="over"):
        decode(recording.path, tmp_path / "a.mp4", _opened(issued), ledger=ledger)
    now[0] = 11 * SECOND_US
    for _ in range(3):  # the first refusal is an entry that bears the time of the clock that was set back
        with pytest.raises(GrantRefused, match=r"over.*the clock shows .*:11.* an entry of .*:20"):
            decode(recording.path, tmp_path / "a.mp4", _opened(issued), ledger=ledger)
    with pytest.raises(GrantRefused, match="expired"):
        _issue(recording, ledger, _request(2, 4, expires_us=20 * SECOND_US))


def test_a_revocation_in_the_ledger_ends_a_grant(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    issued = _issue(recording, ledger, _request(2, 4))
    ledger.append("grant-revoked", {"grant": issued.grant.grant_id.hex()})
    with pytest.raises(GrantRefused, match="revoked"):
        decode(recording.path, tmp_path / "a.mp4", _opened(issued), ledger=ledger)


def test_of_two_processes_with_one_use_left_one_opens(recording: Recording, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    issued = _issue(recording, ledger, _request(2, 4, uses=1))
    write_grant(issued, tmp_path / "a.grant", ledger)
    program = f"""
import sys
from pathlib import Path
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from base.errors import GrantRefused
from forensics.decode import decode
from forensics.ledger import Ledger
from keys import Identity, SecretBytes
from keys.grant import Grant
from keys.suite import Suite
opened = Grant.parse(Path({str(tmp_path / "a.grant")!r}).read_bytes()).open(
    [Identity("iris", Suite.X25519, SecretBytes(b"\\x22" * 32))])
try:
    ledger = Ledger(Path({str(ledger.path)!r}))
    decode(Path({str(recording.path)!r}), Path(sys.argv[1]), opened, ledger=ledger)
except GrantRefused:
    print("refused")
else:
    print("opened")
"""
    command = [sys.executable, "-c", program]
    children = [
        subprocess.Popen([*command, str(tmp_path / f"{n}.mp4")], stdout=subprocess.PIPE, text=True)
        for n in range(2)
    ]
    assert sorted(child.communicate(timeout=120)[0].strip() for child in children) == ["opened", "refused"]
    assert verify_ledger(ledger.path).is_intact


class _Watched:
    """The custodian's identity, asking the ledger each time it is used."""

    def __init__(self, identity: Identity, ask: Callable[[], list[str]]) -> None:
        self._identity = identity
        self._ask = ask
        self.seen: list[list[str]] = []

    @property
    def recipient(self) -> Recipient:
        return self._identity.recipient

    def unwrap(self, wrapped: bytes, info: bytes) -> SecretBytes:
        self.seen.append(self._ask())
        return self._identity.unwrap(wrapped, info)


def test_the_ledger_learns_of_a_grant_before_the_identity_is_used(
    recording: Recording, ledger: Ledger
) -> None:
    watched = _Watched(recording.identity, lambda: _kinds(ledger))
    _issue(recording, ledger, _request(0, 6), identities=[watched])
    assert watched.seen == [["grant-issuing"]]  # one epoch, unwrapped once


def test_without_a_ledger_no_grant_is_issued_and_no_key_given(recording: Recording, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    blocked = Ledger(tmp_path / "file" / "ledger.jsonl")
    watched = _Watched(recording.identity, list)
    with pytest.raises(VeilError, match="cannot be written"):
        _issue(recording, blocked, _request(0, 6), identities=[watched])
    assert watched.seen == []


def test_what_the_camera_did_not_sign_is_not_granted(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    """A changed picture, and a segment that lost its last picture, so that nobody knows when it ended."""
    units = recording.units()
    slice_nal = units[12].nals[-1]
    changed = bytes([*slice_nal[:-3], slice_nal[-3] ^ 1, *slice_nal[-2:]])
    units[12] = AccessUnit((*units[12].nals[:-1], changed), units[12].pts_us, units[12].is_keyframe)
    del units[25]
    path = write_units(tmp_path / "damaged.mp4", units)
    issued = _issue(recording, ledger, _request(0, 6), path=path)
    assert [header.segment_index for header in _granted(issued, recording)] == [0, 3, 4, 5]
    assert len(issued.notes) == 2


def test_two_must_approve_where_the_policy_says_so(recording: Recording, ledger: Ledger) -> None:
    request = _request(2, 4)
    policy = CustodyPolicy(2, (DORA.public, DAN.public))
    dora, dan = (Approval.sign(request, key, 1) for key in (DORA, DAN))
    watched = _Watched(recording.identity, list)
    with pytest.raises(GrantRefused, match="2 must"):
        _issue(recording, ledger, request, consent=Consent((dora,), policy), identities=[watched])
    assert (watched.seen, _kinds(ledger)) == ([], ["refused"])
    issued = _issue(recording, ledger, request, consent=Consent((dora, dan), policy))
    Grant.parse(bytes(issued.grant)).verify(policy)


@pytest.mark.parametrize(
    ("changes", "error", "why"),
    [
        ({"camera": camera_key(2).public}, UsageError, "about camera"),
        ({"identities": [authority(2)[1]]}, NoMatchingIdentity, "none of the identities"),
        ({"request": _request(100, 200)}, UsageError, "none of the segments"),
        ({"request": _request(2, 4, expires_us=2)}, GrantRefused, "expired"),
        ({"request": _request(2, 4, regions=[RegionBox(0, 0, 9, 9)])}, UsageError, "none of the segments"),
    ],
)
def test_attempts_that_fail_are_in_the_ledger(
    changes: dict[str, Any], error: type[Exception], why: str, recording: Recording, ledger: Ledger
) -> None:
    request = changes.pop("request", _request(2, 4))
    with pytest.raises(error, match=why):
        _issue(recording, ledger, request, **changes)
    last = json.loads(ledger.path.read_text().splitlines()[-1])
    assert (last["kind"], last["body"]["action"]) == ("refused", "grant")
    assert why in last["body"]["result"]


def test_an_opening_gives_no_keys_once_it_is_over(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    opened = _opened(_issue(recording, ledger, _request(2, 4)))
    header = _views(recording)[2].header()
    assert header is not None
    request = Request(None, "live", (), opened.key_ids, (None, None), "", Purpose(), grant_id=opened.grant_id)
    with open_recorded(ledger, request, opened) as opening:
        opening.segment_keys(header)
        opening.finish("lifted", {})
    with pytest.raises(UsageError, match="over"):
        opening.segment_keys(header)
    with pytest.raises(RuntimeError), open_recorded(ledger, request, opened):
        raise RuntimeError
    assert _kinds(ledger)[-4:] == ["open", "end", "open", "end"]
    assert json.loads(ledger.path.read_text().splitlines()[-1])["body"]["result"] == "failed"


def test_a_stolen_grant_file_opens_nothing(recording: Recording, ledger: Ledger) -> None:
    grant = _issue(recording, ledger, _request(2, 4)).grant
    for identity in (authority(2)[1], recording.identity):
        with pytest.raises(GrantRefused):
            grant.open([identity])
    other = dataclasses.replace(grant.stanza, recipient_id=authority(2)[0].recipient_id)
    with pytest.raises(VeilError):
        dataclasses.replace(grant, stanza=other).open([authority(2)[1]])


def test_a_reader_made_from_the_document_opens_the_grant_and_the_footage(
    recording: Recording, ledger: Ledger
) -> None:
    """Second readers of both: the grant's keys open the sealed chunks, with no code of the product."""
    request = _request(2, 4)
    approvals = tuple(Approval.sign(request, key, 1) for key in (DORA, DAN))
    grant = _issue(recording, ledger, request, consent=Consent(approvals)).grant
    head, segments = read_grant(bytes(grant), b"\x22" * 32)
    assert head["terms"]["request"]["case"] == "2026-117"
    assert [segment.index for segment in segments] == [2, 3]
    custodian = IdentityKeys([recording.identity])
    for segment, view in zip(segments, _views(recording)[2:4], strict=True):
        header = view.header()
        assert header is not None
        secret = custodian.segment_keys(header).secret.expose(RevealToken("test"))
        assert segment.keys == {WHOLE: bytes(secret)}
        assert (segment.stream_id, segment.epoch_id) == (header.stream_id, header.epoch_id)
        key = HKDF(SHA256(), 32, b"", b"veilcam sealed layer v1").derive(segment.keys[WHOLE])
        frame, viewed = next((f, v) for f, v in view.own_units() if any(each_sealed_body(v.unit)))
        body = next(iter(each_sealed_body(viewed.unit)))
        assert isinstance(body, bytes)
        picture = unit_digest(bytes(frame), viewed.unit)
        aad = (
            b"veilcam sealed chunk v1"
            + hashlib.sha256(bytes(view.header_body or b"")).digest()
            + header.camera_id
            + body[:12]
            + picture
        )
        assert AESGCM(key).decrypt(body[8:12].rjust(12, b"\0"), body[12:], aad)


def test_a_grant_of_a_box_holds_the_regions_that_it_touches_and_nothing_else(
    tmp_path: Path, ledger: Ledger
) -> None:
    path = region_recording.write(tmp_path / "regions.mp4", region_recording.units())
    with read_access_units(path) as reader:
        header = next(read_segments(reader)).header()
    assert header is not None
    grid = header.regions
    assert grid is not None
    tile = grid.tile(grid.num_regions - 1)
    inside = RegionBox(tile.x + 1, tile.y + 1, 2, 2, START_US, START_US + 100_000)
    recorded = Recording(path, None, camera_key().public, authority()[1])
    opened = _opened(_issue(recorded, ledger, _request(0, 3, regions=[inside])))
    keys = opened.segment_keys(header)
    assert isinstance(keys, RegionKeys)
    assert keys.regions == {grid.num_regions - 1}
    assert opened.grant.terms.num_segments == 1  # the box is in force in the first segment only
