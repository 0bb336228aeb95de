"""The HPKE suites that wrap epoch keys (RFC 9180, base mode, HKDF-SHA256, AES-256-GCM).

X25519, and by default X-Wing: the hybrid of ML-KEM-768 and X25519 that stays safe while either of the two
holds. A private key is a seed of 32 bytes in both: the X25519 scalar, or X-Wing's seed, which SHAKE256
expands (draft-connolly-cfrg-xwing-kem, section 5.2). X-Wing's public key is the ML-KEM-768 key, then the
X25519 key.
"""

from __future__ import annotations

import enum
import hashlib

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from base.errors import AuthenticationFailed, Malformed
from keys.schedule import KEY_BYTES, TAG_BYTES
from keys.secret import RevealToken, SecretBytes

SEED_BYTES = 32
X25519_BYTES = 32
MLKEM768_PUBLIC_BYTES = 1184
MLKEM768_SEED_BYTES = 64

_PublicKey = X25519PublicKey | hpke.MLKEM768X25519PublicKey
_PrivateKey = X25519PrivateKey | hpke.MLKEM768X25519PrivateKey


class Suite(enum.IntEnum):
    """How an epoch key is wrapped; the value is the suite byte of a stanza."""

    X25519 = 1
    MLKEM768_X25519 = 2

    @property
    def label(self) -> str:
        """Name in key files and on the command line."""
        return "x25519" if self is Suite.X25519 else "mlkem768x25519"

    @property
    def public_bytes(self) -> int:
        """Length of a public key."""
        return X25519_BYTES if self is Suite.X25519 else MLKEM768_PUBLIC_BYTES + X25519_BYTES

    @property
    def wrapped_bytes(self) -> int:
        """Length of a wrapped epoch key: encapsulation, ciphertext, tag."""
        return _kem(self).enc_length() + KEY_BYTES + TAG_BYTES

    @classmethod
    def from_label(cls, label: str) -> Suite | None:
        """Return the suite of that name, or None."""
        return next((suite for suite in cls if suite.label == label), None)


DEFAULT_SUITE = Suite.MLKEM768_X25519


def check_public_key(suite: Suite, public_key: bytes) -> None:
    """Refuse what is not a public key of ``suite``.

    Raises:
        Malformed: wrong length, an ML-KEM key out of range, or an X25519 point of low order, on which the
            shared secret would be the same for everybody (RFC 7748, section 6.1).
    """
    public = _load_public(suite, public_key)
    try:
        _hpke(suite).encrypt(b"", public)
    except ValueError as error:
        message = f"{suite.label} public key: nothing can be encrypted to it"
        raise Malformed(message) from error


def public_key_of(suite: Suite, seed: SecretBytes) -> bytes:
    """Compute the public key of a private seed of 32 bytes."""
    view = seed.expose(RevealToken("public key derivation"))
    if suite is Suite.X25519:
        return X25519PrivateKey.from_private_bytes(view).public_key().public_bytes_raw()
    mlkem, x25519 = _expand(view)
    return mlkem.public_key().public_bytes_raw() + x25519.public_key().public_bytes_raw()


def wrap(suite: Suite, public_key: bytes, secret: SecretBytes, info: bytes) -> bytes:
    """Encrypt ``secret``: encapsulation, ciphertext, tag. It opens only under the same ``info``."""
    public = _load_public(suite, public_key)
    return _hpke(suite).encrypt(secret.expose(RevealToken("HPKE plaintext")), public, info)


def unwrap(suite: Suite, seed: SecretBytes, wrapped: bytes, info: bytes) -> SecretBytes:
    """Decrypt what `wrap` made.

    Raises:
        AuthenticationFailed: it was made for another key or ``info``, or was changed.
    """
    view = seed.expose(RevealToken("HPKE private key"))
    private: _PrivateKey
    if suite is Suite.X25519:
        private = X25519PrivateKey.from_private_bytes(view)
    else:
        private = hpke.MLKEM768X25519PrivateKey(*_expand(view))
    try:
        return SecretBytes(_hpke(suite).decrypt(wrapped, private, info))
    except InvalidTag:
        message = f"wrapped key of suite {suite.label}: it does not open"
        raise AuthenticationFailed(message) from None


def _kem(suite: Suite) -> hpke.KEM:
    return hpke.KEM.X25519 if suite is Suite.X25519 else hpke.KEM.MLKEM768_X25519


def _hpke(suite: Suite) -> hpke.Suite:
    return hpke.Suite(_kem(suite), hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)


def _load_public(suite: Suite, public_key: bytes) -> _PublicKey:
    if len(public_key) != suite.public_bytes:
        message = f"{suite.label} public key: expected {suite.public_bytes} bytes, got {len(public_key)}"
        raise Malformed(message)
    x25519 = X25519PublicKey.from_public_bytes(public_key[-X25519_BYTES:])
    if suite is Suite.X25519:
        return x25519
    try:
        mlkem = MLKEM768PublicKey.from_public_bytes(public_key[:MLKEM768_PUBLIC_BYTES])
    except ValueError as error:
        message = f"{suite.label} public key: its ML-KEM-768 part is out of range"
        raise Malformed(message) from error
    return hpke.MLKEM768X25519PublicKey(mlkem, x25519)


def _expand(seed: memoryview) -> tuple[MLKEM768PrivateKey, X25519PrivateKey]:
    expanded = SecretBytes(hashlib.shake_256(seed).digest(MLKEM768_SEED_BYTES + X25519_BYTES))
    view = expanded.expose(RevealToken("X-Wing key expansion"))
    return (
        MLKEM768PrivateKey.from_seed_bytes(view[:MLKEM768_SEED_BYTES]),
        X25519PrivateKey.from_private_bytes(view[MLKEM768_SEED_BYTES:]),
    )
