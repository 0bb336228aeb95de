"""Where the keys of segments come from: an identity, or a grant.

Whatever opens segments (decode, lift) takes a `KeySource` and asks it for one segment at a time, so that it
works the same for the custodian, who can open everything sealed to him, and for the investigator, who holds
the keys of one grant and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol, final, runtime_checkable

from base.errors import AuthenticationFailed, FormatError, NoMatchingIdentity, VeilError
from keys.schedule import EpochKey, RegionKeys, SegmentKeys
from keys.secret import Unshareable
from keys.stanza import Stanza
from keys.wrap import Unwrapper, unwrap_epoch_key

MAX_EPOCH_KEYS = 64


class SegmentRef(Protocol):
    """What names a segment and its wrapped keys; `codec.records.SegmentHeader` is one."""

    @property
    def camera_id(self) -> bytes:
        """16 bytes."""

    @property
    def stream_id(self) -> bytes:
        """16 bytes, fresh at every start of the camera."""

    @property
    def epoch_id(self) -> bytes:
        """16 bytes."""

    @property
    def segment_index(self) -> int:
        """From 0, within the stream."""

    @property
    def start_us(self) -> int:
        """Capture time of the first picture, Unix microseconds."""

    @property
    def stanzas(self) -> tuple[Stanza, ...]:
        """The epoch key, wrapped to every recipient."""


@runtime_checkable
class KeySource(Protocol):
    """Gives the keys of single segments, or says why not. Not safe to share between threads."""

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Recipient ids in hexadecimal, for the ledger."""

    @property
    def used_ids(self) -> tuple[str, ...]:
        """Those of `key_ids` that have opened something so far."""

    @property
    def grant_id(self) -> str | None:
        """The grant, in hexadecimal, or None: an identity needs none."""

    def covers(self, segment: SegmentRef) -> bool:
        """Whether this may open ``segment``: it is addressed to us. Uses no private key, promises nothing."""

    def authorize(self, now_us: int, num_used: int) -> None:
        """Return if an opening may begin.

        Args:
            now_us: Unix microseconds.
            num_used: openings that the ledger holds for this grant.

        Raises:
            GrantRefused: the grant is over, used up or revoked.
        """

    def segment_keys(self, segment: SegmentRef) -> SegmentKeys | RegionKeys:
        """Return the keys of one segment.

        Raises:
            NoMatchingIdentity: it is sealed to others.
            OutsideGrant: the grant does not hold it.
            AuthenticationFailed: its wrapped key was changed.
            FormatError: what was wrapped is no key.
        """


@final
class IdentityKeys(Unshareable):
    """The keys of everything that is sealed to some identities. Unwraps each epoch once, keeps 64."""

    def __init__(self, identities: Iterable[Unwrapper]) -> None:
        self._identities = tuple(identities)
        self._epochs: dict[bytes, EpochKey] = {}
        self._used: dict[str, None] = {}

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Recipient ids in hexadecimal."""
        return tuple(identity.recipient.recipient_id.hex() for identity in self._identities)

    @property
    def used_ids(self) -> tuple[str, ...]:
        """Identities that have opened something."""
        return tuple(self._used)

    @property
    def grant_id(self) -> str | None:
        """None."""
        return None

    def covers(self, segment: SegmentRef) -> bool:
        """Whether one of the identities is a recipient."""
        ours = {identity.recipient.recipient_id for identity in self._identities}
        return any(stanza.recipient_id in ours for stanza in segment.stanzas)

    def authorize(self, now_us: int, num_used: int) -> None:
        """Return: whoever holds the identity needs no grant."""

    def segment_keys(self, segment: SegmentRef) -> SegmentKeys:
        """Derive the keys of one segment; raises as `KeySource.segment_keys`."""
        key = self.epoch_key(segment)
        return key.segment(segment.camera_id, segment.stream_id, segment.epoch_id, segment.segment_index)

    def epoch_key(self, segment: SegmentRef) -> EpochKey:
        """Unwrap the key of a segment's whole epoch; raises as `KeySource.segment_keys`."""
        ref = epoch_ref(segment)
        if ref not in self._epochs:
            key = self._unwrap(segment)
            if len(self._epochs) >= MAX_EPOCH_KEYS:
                del self._epochs[next(iter(self._epochs))]
            self._epochs[ref] = key
        return self._epochs[ref]

    def _unwrap(self, segment: SegmentRef) -> EpochKey:
        failure: VeilError = NoMatchingIdentity("none of the identities given is a recipient")
        for identity in self._identities:
            try:
                key = unwrap_epoch_key(segment.stanzas, (identity,), segment.camera_id, segment.epoch_id)
            except NoMatchingIdentity:
                continue
            except (AuthenticationFailed, FormatError) as error:
                failure = error
                continue
            self._used[identity.recipient.recipient_id.hex()] = None
            return key
        raise failure


def epoch_ref(segment: SegmentRef) -> bytes:
    """Return a name for the epoch key that a header carries: two equal names mean the same wraps."""
    digest = hashlib.sha256(segment.camera_id + segment.epoch_id)
    for stanza in segment.stanzas:
        part = bytes((stanza.suite,)) + stanza.recipient_id + stanza.blob
        digest.update(len(part).to_bytes(4, "big") + part)
    return digest.digest()


def as_key_source(keys: KeySource | Sequence[Unwrapper]) -> KeySource:
    """Return ``keys`` as a source: identities become one."""
    return keys if isinstance(keys, KeySource) else IdentityKeys(keys)
