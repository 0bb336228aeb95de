"""Checkpoints: a ledger's size and Merkle root in five lines, signed, to keep somewhere else.

The form is C2SP's tlog-checkpoint in a signed note, as transparency logs use it, so that their tools read it:

    veilcam.ledger/<first 16 hex digits of the first entry's hash>
    <number of entries>
    <base64 of the RFC 6962 root over all lines>

    — <first line> <base64 of key hash (4 bytes) and Ed25519 signature over the three lines>
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field

from base.errors import AuthenticationFailed, Malformed
from keys.ed25519 import PUBLIC_BYTES, SIGNATURE_BYTES
from keys.signer import SignerKey, SignerPublic

MAX_NOTE_BYTES = 4096
_ED25519 = b"\x01"
_KEY_HASH_BYTES = 4
_NOTE = re.compile(
    r"(veilcam\.ledger/[0-9a-f]{16})\n(0|[1-9][0-9]{0,15})\n([A-Za-z0-9+/]{43}=)\n"
    r"\n\u2014 \1 ([A-Za-z0-9+/]{91}=)\n"
)
_VERIFIER = re.compile(r"(veilcam\.ledger/[0-9a-f]{16})\+([0-9a-f]{8})\+([A-Za-z0-9+/]{44})")


def origin_of(first_hash: str) -> str:
    """Return the name of the ledger whose first entry has this hash (hexadecimal)."""
    return f"veilcam.ledger/{first_hash[:16]}"


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """Which ledger, and whose signature to expect: what an auditor keeps. Text as C2SP has it."""

    origin: str
    public_key: bytes

    @property
    def key_hash(self) -> bytes:
        """Four bytes that a note's signature begins with."""
        text = self.origin.encode() + b"\n" + _ED25519 + self.public_key
        return hashlib.sha256(text).digest()[:_KEY_HASH_BYTES]

    def __str__(self) -> str:
        key = base64.b64encode(_ED25519 + self.public_key).decode("ascii")
        return f"{self.origin}+{self.key_hash.hex()}+{key}"

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """Read what `str` gives.

        Raises:
            Malformed: it is something else.
        """
        match = _VERIFIER.fullmatch(text)
        if match is not None:
            data = base64.b64decode(match[3])
            key = cls(match[1], data[1:])
            if len(data) == PUBLIC_BYTES + 1 and str(key) == text:
                return key
        message = "ledger key: expected veilcam.ledger/NAME+HASH+KEY"
        raise Malformed(message)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a ledger held at one time."""

    origin: str
    size: int
    root: bytes
    key_hash: bytes
    signature: bytes = field(repr=False)

    @classmethod
    def sign(cls, origin: str, size: int, root: bytes, key: SignerKey) -> Checkpoint:
        """Make a checkpoint."""
        key_hash = VerifierKey(origin, key.public.public_key).key_hash
        unsigned = cls(origin, size, root, key_hash, b"")
        return cls(origin, size, root, key_hash, key.sign_note(unsigned.text))

    @property
    def text(self) -> bytes:
        """What is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode('ascii')}\n".encode()

    def verify(self, key: VerifierKey) -> None:
        """Return if ``key`` signed this.

        Raises:
            AuthenticationFailed: it did not, or this is of another ledger.
        """
        if (self.origin, self.key_hash) != (key.origin, key.key_hash):
            message = f"checkpoint: it is of {self.origin}, not of {key.origin}, or under another key"
            raise AuthenticationFailed(message)
        SignerPublic("ledger", key.public_key).verify_note(self.signature, self.text)

    def __bytes__(self) -> bytes:
        signed = base64.b64encode(self.key_hash + self.signature).decode("ascii")
        return self.text + f"\n\u2014 {self.origin} {signed}\n".encode()

    @classmethod
    def parse(cls, data: bytes) -> Checkpoint:
        """Read a checkpoint. `verify` says whether it is genuine.

        Raises:
            Malformed: it is something else.
        """
        try:
            match = _NOTE.fullmatch(data[: MAX_NOTE_BYTES + 1].decode("utf-8"))
        except UnicodeDecodeError:
            match = None
        if match is not None:
            signed = base64.b64decode(match[4])
            checkpoint = cls(
                match[1],
                int(match[2]),
                base64.b64decode(match[3]),
                signed[:_KEY_HASH_BYTES],
                signed[_KEY_HASH_BYTES:],
            )
            if len(checkpoint.signature) == SIGNATURE_BYTES and bytes(checkpoint) == data:
                return checkpoint
        message = "checkpoint: expected a signed note with name, size and root of a veilcam ledger"
        raise Malformed(message)
