from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import AuthenticationFailed, Malformed, NoMatchingIdentity, UsageError
from keys import EpochKey, Identity, Recipient, SecretBytes, Stanza, unwrap_epoch_key, wrap_epoch_key
from keys.suite import Suite

CAMERA, EPOCH = b"c" * 16, b"e" * 16
KEY = EpochKey(SecretBytes(bytes(range(32))))
ALICE, ALICE_IDENTITY = Recipient.generate("alice", Suite.MLKEM768_X25519)
BOB, BOB_IDENTITY = Recipient.generate("bob", Suite.X25519)
_, EVE_IDENTITY = Recipient.generate("eve", Suite.X25519)
STANZAS = wrap_epoch_key(KEY, [ALICE, BOB], CAMERA, EPOCH)


@pytest.mark.parametrize("identity", [ALICE_IDENTITY, BOB_IDENTITY], ids=["hybrid", "x25519"])
def test_every_recipient_opens(identity: Identity) -> None:
    assert unwrap_epoch_key(STANZAS, [identity], CAMERA, EPOCH).secret == KEY.secret


def test_one_fitting_identity_among_others_is_enough() -> None:
    opened = unwrap_epoch_key(STANZAS, [EVE_IDENTITY, BOB_IDENTITY], CAMERA, EPOCH)
    assert opened.secret == KEY.secret


@pytest.mark.parametrize("identities", [[], [EVE_IDENTITY]], ids=["none", "another"])
def test_who_is_no_recipient_gets_no_matching_identity(identities: list[Identity]) -> None:
    with pytest.raises(NoMatchingIdentity, match="none of its 2 recipients"):
        unwrap_epoch_key(STANZAS, identities, CAMERA, EPOCH)


def test_without_stanzas_there_is_no_matching_identity() -> None:
    with pytest.raises(NoMatchingIdentity):
        unwrap_epoch_key([], [ALICE_IDENTITY], CAMERA, EPOCH)


def test_stanzas_come_in_the_order_given_and_once_per_key() -> None:
    stanzas = wrap_epoch_key(KEY, [BOB, ALICE, BOB], CAMERA, EPOCH)
    assert [each.recipient_id for each in stanzas] == [BOB.recipient_id, ALICE.recipient_id]
    assert [each.suite for each in stanzas] == [1, 2]


@pytest.mark.parametrize("ids", [(b"x" * 16, EPOCH), (CAMERA, b"x" * 16)], ids=["camera", "epoch"])
def test_a_stanza_of_another_camera_or_epoch_does_not_open(ids: tuple[bytes, bytes]) -> None:
    with pytest.raises(AuthenticationFailed, match="1 of 2 stanzas"):
        unwrap_epoch_key(STANZAS, [BOB_IDENTITY], *ids)


@settings(deadline=None, max_examples=100)
@given(which=st.sampled_from([0, 1]), data=st.data())
def test_a_stanza_with_one_changed_bit_never_opens(which: int, data: st.DataObject) -> None:
    identity = (ALICE_IDENTITY, BOB_IDENTITY)[which]
    stanza = STANZAS[which]
    blob = bytearray(stanza.blob)
    bit = data.draw(st.integers(0, 8 * len(blob) - 1))
    blob[bit // 8] ^= 1 << bit % 8
    changed = dataclasses.replace(stanza, blob=bytes(blob))
    with pytest.raises(AuthenticationFailed):
        unwrap_epoch_key([changed], [identity], CAMERA, EPOCH)


def test_a_changed_recipient_id_or_suite_is_not_ours() -> None:
    stanza = STANZAS[1]
    flipped = bytes([stanza.recipient_id[0] ^ 1]) + stanza.recipient_id[1:]
    for changed in (
        dataclasses.replace(stanza, recipient_id=flipped),
        Stanza(stanza.recipient_id, 77, stanza.blob),
    ):
        with pytest.raises(NoMatchingIdentity):
            unwrap_epoch_key([changed], [BOB_IDENTITY], CAMERA, EPOCH)


def test_a_broken_stanza_with_our_id_does_not_hide_the_good_one() -> None:
    bogus = dataclasses.replace(STANZAS[1], blob=bytes(80))
    opened = unwrap_epoch_key([bogus, *STANZAS], [BOB_IDENTITY], CAMERA, EPOCH)
    assert opened.secret == KEY.secret


def test_stanzas_of_unknown_suites_are_skipped() -> None:
    future = Stanza(BOB.recipient_id, 200, b"something new")
    assert unwrap_epoch_key([future, *STANZAS], [BOB_IDENTITY], CAMERA, EPOCH).secret == KEY.secret


def test_a_wrapped_key_of_another_length_is_malformed() -> None:
    """Suite 1 fixes the blob's length; only a stanza that skipped the parser can hold a shorter key."""
    blob = BOB.wrap(SecretBytes(bytes(31)), b"veilcam epoch wrap v1" + CAMERA + EPOCH)
    stanza = Stanza(BOB.recipient_id, 1, bytes(80))
    object.__setattr__(stanza, "blob", blob)
    with pytest.raises(Malformed, match="expected 32 bytes, got 31"):
        unwrap_epoch_key([stanza], [BOB_IDENTITY], CAMERA, EPOCH)


def test_no_recipient_and_too_many_are_refused() -> None:
    with pytest.raises(UsageError, match="1 to 64, got 0"):
        wrap_epoch_key(KEY, [], CAMERA, EPOCH)
    crowd = [Recipient.generate("r", Suite.X25519)[0] for _ in range(65)]
    with pytest.raises(UsageError, match="1 to 64, got 65"):
        wrap_epoch_key(KEY, crowd, CAMERA, EPOCH)
    assert len(wrap_epoch_key(KEY, crowd[:64], CAMERA, EPOCH)) == 64


def test_ids_of_another_length_are_refused() -> None:
    with pytest.raises(UsageError, match="camera id"):
        wrap_epoch_key(KEY, [BOB], b"short", EPOCH)
    with pytest.raises(UsageError, match="epoch id"):
        unwrap_epoch_key(STANZAS, [BOB_IDENTITY], CAMERA, b"short")
