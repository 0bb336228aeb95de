"""The camera's identity: an Ed25519 key (RFC 8032) that signs its segments."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from base.errors import AuthenticationFailed, Malformed, UsageError
from keys.labels import Label
from keys.names import checked_name
from keys.schedule import ID_BYTES
from keys.secret import Buffer, RevealToken, SecretBytes, Unshareable

PUBLIC_BYTES = 32
SEED_BYTES = 32
SIGNATURE_BYTES = 64


@final
@dataclass(frozen=True, slots=True)
class CameraPublic:
    """The public half: verifies what the camera signed."""

    name: str
    public_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        checked_name(self.name)
        if len(self.public_key) != PUBLIC_BYTES:
            message = f"Ed25519 public key: expected {PUBLIC_BYTES} bytes, got {len(self.public_key)}"
            raise Malformed(message)

    @property
    def camera_id(self) -> bytes:
        """Id of 16 bytes: start of SHA-256 over label and public key."""
        return hashlib.sha256(Label.CAMERA_ID.value + self.public_key).digest()[:ID_BYTES]

    def verify(self, signature: bytes, message: Buffer) -> None:
        """Return if ``signature`` (64 bytes) is this camera's over ``message``.

        Raises:
            AuthenticationFailed: it is not.
        """
        try:
            Ed25519PublicKey.from_public_bytes(self.public_key).verify(signature, message)
        except (InvalidSignature, ValueError):
            failure = f"camera {self.camera_id.hex()}: the signature does not verify"
            raise AuthenticationFailed(failure) from None


@final
class CameraKey(Unshareable):
    """The private half. Signs; opens nothing."""

    __slots__ = ("_public", "_seed", "_signer")

    def __init__(self, name: str, seed: SecretBytes) -> None:
        if len(seed) != SEED_BYTES:
            message = f"camera seed: expected {SEED_BYTES} bytes, got {len(seed)}"
            raise UsageError(message)
        self._seed = seed
        self._signer = Ed25519PrivateKey.from_private_bytes(seed.expose(RevealToken("Ed25519 private key")))
        self._public = CameraPublic(name, self._signer.public_key().public_bytes_raw())

    @classmethod
    def generate(cls, name: str) -> CameraKey:
        """Draw a fresh key.

        Raises:
            UsageError: ``name`` cannot name a key.
        """
        return cls(name, SecretBytes(secrets.token_bytes(SEED_BYTES)))

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

    @property
    def seed(self) -> SecretBytes:
        """The private key, for the camera file."""
        return self._seed

    def sign(self, message: Buffer) -> bytes:
        """Sign; 64 bytes. The caller starts ``message`` with a label of `keys.labels.Label`."""
        return self._signer.sign(message)
