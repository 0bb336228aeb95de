"""One wrapped epoch key, as every segment header carries it.

recipient id   16 bytes
suite          u8 (1 X25519, 2 ML-KEM-768+X25519)
length         u16, big-endian, at most 4096
blob           HPKE encapsulation, ciphertext, tag
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from base.errors import LimitExceeded, Malformed, Truncated
from keys.schedule import ID_BYTES
from keys.suite import Suite

MAX_BLOB_BYTES = 4096
_HEAD_BYTES = ID_BYTES + 1 + 2


@final
@dataclass(frozen=True, slots=True)
class Stanza:
    """An epoch key, encrypted to one recipient. Nothing in it is secret.

    ``suite`` is the plain byte: a reader keeps and skips stanzas of suites that it does not know, so that a
    later release can add one.
    """

    recipient_id: bytes
    suite: int
    blob: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.recipient_id) != ID_BYTES:
            message = f"stanza: expected a recipient id of {ID_BYTES} bytes, got {len(self.recipient_id)}"
            raise Malformed(message)
        if not 0 <= self.suite <= 255:
            message = f"stanza: expected a suite of 0 to 255, got {self.suite}"
            raise Malformed(message)
        if len(self.blob) > MAX_BLOB_BYTES:
            message = f"stanza: blob of {len(self.blob)} bytes, limit is {MAX_BLOB_BYTES}"
            raise LimitExceeded(message)
        if self.suite in _WRAPPED_BYTES and len(self.blob) != _WRAPPED_BYTES[self.suite]:
            expected = _WRAPPED_BYTES[self.suite]
            message = (
                f"stanza of suite {self.suite}: expected a blob of {expected} bytes, got {len(self.blob)}"
            )
            raise Malformed(message)

    @classmethod
    def parse(cls, data: bytes) -> tuple[Stanza, bytes]:
        """Read one stanza from the start of ``data``; returns it and the rest.

        Raises:
            Truncated: ``data`` ends early.
            LimitExceeded: the blob is longer than 4096 bytes.
            Malformed: the blob has not the length of its suite.
        """
        if len(data) < _HEAD_BYTES:
            message = f"stanza: expected at least {_HEAD_BYTES} bytes, got {len(data)}"
            raise Truncated(message)
        length = int.from_bytes(data[ID_BYTES + 1 : _HEAD_BYTES], "big")
        if length > MAX_BLOB_BYTES:
            message = f"stanza: blob of {length} bytes, limit is {MAX_BLOB_BYTES}"
            raise LimitExceeded(message)
        end = _HEAD_BYTES + length
        if len(data) < end:
            message = f"stanza: expected {end} bytes, got {len(data)}"
            raise Truncated(message)
        stanza = cls(bytes(data[:ID_BYTES]), data[ID_BYTES], bytes(data[_HEAD_BYTES:end]))
        return stanza, data[end:]

    def __bytes__(self) -> bytes:
        return self.recipient_id + bytes([self.suite]) + len(self.blob).to_bytes(2, "big") + self.blob


_WRAPPED_BYTES = {int(suite): suite.wrapped_bytes for suite in Suite}
