"""What every Ed25519 key of ours (RFC 8032) has in common, whoever holds it."""

from __future__ import annotations

import secrets

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from base.errors import AuthenticationFailed, Malformed, UsageError
from keys.secret import Buffer, RevealToken, SecretBytes, Unshareable

PUBLIC_BYTES = 32
SEED_BYTES = 32
SIGNATURE_BYTES = 64


def check_public_key(public_key: bytes) -> None:
    """Return if ``public_key`` has 32 bytes.

    Raises:
        Malformed: it has not.
    """
    if len(public_key) != PUBLIC_BYTES:
        message = f"Ed25519 public key: expected {PUBLIC_BYTES} bytes, got {len(public_key)}"
        raise Malformed(message)


def check_signature(public_key: bytes, signature: bytes, message: Buffer, *, whose: str) -> None:
    """Return if ``signature`` over ``message`` verifies; ``whose`` is for the error.

    Raises:
        AuthenticationFailed: it does not.
    """
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        failure = f"{whose}: the signature does not verify"
        raise AuthenticationFailed(failure) from None


def draw_seed() -> SecretBytes:
    """A fresh private key."""
    return SecretBytes(secrets.token_bytes(SEED_BYTES))


class SigningKey(Unshareable):
    """A private half. What it signs is for its kinds to say."""

    __slots__ = ("_seed", "_signer")

    def __init__(self, seed: SecretBytes, *, whose: str) -> None:
        """Take over ``seed``; ``whose`` is for the error.

        Raises:
            UsageError: it has not 32 bytes.
        """
        if len(seed) != SEED_BYTES:
            message = f"{whose} seed: expected {SEED_BYTES} bytes, got {len(seed)}"
            raise UsageError(message)
        self._seed = seed
        self._signer = Ed25519PrivateKey.from_private_bytes(seed.expose(RevealToken("Ed25519 private key")))

    @property
    def seed(self) -> SecretBytes:
        """The private key, for its file."""
        return self._seed

    @property
    def _public_key(self) -> bytes:
        return self._signer.public_key().public_bytes_raw()
