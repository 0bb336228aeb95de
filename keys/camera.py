"""The camera's identity: an Ed25519 key (RFC 8032) that signs its segments."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import final

from keys.ed25519 import SigningKey, check_public_key, check_signature, draw_seed
from keys.labels import Label
from keys.names import checked_name
from keys.schedule import ID_BYTES
from keys.secret import Buffer, SecretBytes


@final
@dataclass(frozen=True, slots=True)
class CameraPublic:
    """The public half: verifies what the camera signed."""

    name: str
    public_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        checked_name(self.name)
        check_public_key(self.public_key)

    @property
    def camera_id(self) -> bytes:
        """Id of 16 bytes: start of SHA-256 over label and public key."""
        return hashlib.sha256(Label.CAMERA_ID.value + self.public_key).digest()[:ID_BYTES]

    def verify(self, signature: bytes, message: Buffer) -> None:
        """Return if ``signature`` (64 bytes) is this camera's over ``message``.

        Raises:
            AuthenticationFailed: it is not.
        """
        check_signature(self.public_key, signature, message, whose=f"camera {self.camera_id.hex()}")


@final
class CameraKey(SigningKey):
    """The private half. Signs; opens nothing."""

    __slots__ = ("_public",)

    def __init__(self, name: str, seed: SecretBytes) -> None:
        super().__init__(seed, whose="camera")
        self._public = CameraPublic(name, self._public_key)

    @classmethod
    def generate(cls, name: str) -> CameraKey:
        """Draw a fresh key.

        Raises:
            UsageError: ``name`` cannot name a key.
        """
        return cls(name, draw_seed())

    def __repr__(self) -> str:
        return f"<CameraKey {self._public.name} {self.camera_id.hex()}>"

    @property
    def public(self) -> CameraPublic:
        """The public half."""
        return self._public

    @property
    def camera_id(self) -> bytes:
        """Id of 16 bytes, as `CameraPublic.camera_id`."""
        return self._public.camera_id

    def sign(self, message: Buffer) -> bytes:
        """Sign; 64 bytes. The caller starts ``message`` with a label of `keys.labels.Label`."""
        return self._signer.sign(message)
