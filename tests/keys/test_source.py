from __future__ import annotations

from dataclasses import dataclass

import pytest

from base.errors import NoMatchingIdentity
from keys import EpochKey, Identity, Recipient, SecretBytes, Stanza, wrap_epoch_key
from keys.source import IdentityKeys, KeySource, as_key_source
from keys.suite import Suite

CAMERA, STREAM, EPOCH = b"c" * 16, b"s" * 16, b"e" * 16


@dataclass(frozen=True, slots=True)
class Segment:
    camera_id: bytes
    stream_id: bytes
    epoch_id: bytes
    segment_index: int
    start_us: int
    stanzas: tuple[Stanza, ...]


def _identity(seed: int) -> Identity:
    return Identity(f"who-{seed}", Suite.X25519, SecretBytes(bytes([seed]) * 32))


def _segment(key: EpochKey, *recipients: Recipient, index: int = 7) -> Segment:
    return Segment(CAMERA, STREAM, EPOCH, index, 0, wrap_epoch_key(key, recipients, CAMERA, EPOCH))


def test_an_identity_gives_the_key_that_the_schedule_derives() -> None:
    key, ours = EpochKey.generate(), _identity(1)
    source = IdentityKeys([_identity(2), ours])
    segment = _segment(key, ours.recipient)
    assert source.covers(segment)
    assert source.segment_keys(segment).secret == key.segment(CAMERA, STREAM, EPOCH, 7).secret
    assert source.used_ids == (ours.recipient.recipient_id.hex(),)
    assert len(source.key_ids) == 2


def test_what_is_sealed_to_others_is_neither_covered_nor_opened() -> None:
    segment = _segment(EpochKey.generate(), _identity(1).recipient)
    source = IdentityKeys([_identity(2)])
    assert not source.covers(segment)
    with pytest.raises(NoMatchingIdentity):
        source.segment_keys(segment)
    assert source.used_ids == ()


def test_identities_and_sources_are_both_sources() -> None:
    source = as_key_source([_identity(1)])
    assert isinstance(source, KeySource)
    assert as_key_source(source) is source
    source.authorize(0, 10**9)  # an identity needs no grant
