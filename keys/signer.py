"""A person who signs: custodians sign approvals, grants and revocations with an Ed25519 key (RFC 8032).

It opens nothing. The same kind of key signs a ledger, where it belongs to a machine.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import final

from base.errors import AuthenticationFailed, UsageError
from keys.ed25519 import SigningKey, check_public_key, check_signature, draw_seed
from keys.labels import Label
from keys.names import checked_name
from keys.schedule import ID_BYTES
from keys.secret import SecretBytes

_LABEL_START = b"veilcam "


@final
@dataclass(frozen=True, slots=True)
class SignerPublic:
    """The public half: verifies what the person signed."""

    name: str
    public_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        checked_name(self.name)
        check_public_key(self.public_key)

    @property
    def signer_id(self) -> bytes:
        """Id of 16 bytes: start of SHA-256 over label and public key."""
        return hashlib.sha256(Label.SIGNER_ID.value + self.public_key).digest()[:ID_BYTES]

    def verify_note(self, signature: bytes, text: bytes) -> None:
        """Return if ``signature`` is this key's over the text of a note.

        Raises:
            AuthenticationFailed: it is not.
        """
        if text.startswith(_LABEL_START):
            failure = "note: it begins as a label does"
            raise AuthenticationFailed(failure)
        self._verify(signature, text)

    def verify(self, label: Label, signature: bytes, message: bytes) -> None:
        """Return if ``signature`` is this person's over ``label`` and ``message``.

        Raises:
            AuthenticationFailed: it is not.
        """
        self._verify(signature, label.value + message)

    def _verify(self, signature: bytes, data: bytes) -> None:
        whose = f"signer {self.name} ({self.signer_id.hex()})"
        check_signature(self.public_key, signature, data, whose=whose)


@final
class SignerKey(SigningKey):
    """The private half. Signs; opens nothing."""

    __slots__ = ("_public",)

    def __init__(self, name: str, seed: SecretBytes) -> None:
        super().__init__(seed, whose="signer")
        self._public = SignerPublic(name, self._public_key)

    @classmethod
    def generate(cls, name: str) -> SignerKey:
        """Draw a fresh key.

        Raises:
            UsageError: ``name`` cannot name a key.
        """
        return cls(name, draw_seed())

    def __repr__(self) -> str:
        return f"<SignerKey {self._public.name} {self._public.signer_id.hex()}>"

    @property
    def public(self) -> SignerPublic:
        """The public half."""
        return self._public

    def sign(self, label: Label, message: bytes) -> bytes:
        """Sign ``label`` and ``message``; 64 bytes."""
        return self._signer.sign(label.value + message)

    def sign_note(self, text: bytes) -> bytes:
        """Sign the text of a signed note (C2SP), which has no room for a label; 64 bytes.

        Raises:
            UsageError: it begins as all our labels do, so that it could be taken for something else.
        """
        if text.startswith(_LABEL_START):
            message = "note: it may not begin as a label does"
            raise UsageError(message)
        return self._signer.sign(text)
