"""The HPKE suites that wrap epoch keys (RFC 9180, base mode, HKDF-SHA256, AES-256-GCM).

By default X-Wing, the hybrid of ML-KEM-768 and X25519 that stays safe while either of the two holds. X25519
alone, and P-256 for tokens that know no other curve. A private key has 32 bytes in all: the scalar (P-256's
big-endian), or X-Wing's seed, which SHAKE256 expands (draft-connolly-cfrg-xwing-kem, section 5.2). X-Wing's
public key is the ML-KEM-768 key, then the X25519 key; P-256's is the uncompressed point.
"""

from __future__ import annotations

import enum
import hashlib
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from base.errors import AuthenticationFailed, Malformed
from keys.schedule import KEY_BYTES, TAG_BYTES
from keys.secret import RevealToken, SecretBytes

SEED_BYTES = 32
X25519_BYTES = 32
MLKEM768_PUBLIC_BYTES = 1184
MLKEM768_SEED_BYTES = 64
P256_BYTES = 65
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

_PublicKey = X25519PublicKey | hpke.MLKEM768X25519PublicKey | ec.EllipticCurvePublicKey
_PrivateKey = X25519PrivateKey | hpke.MLKEM768X25519PrivateKey | ec.EllipticCurvePrivateKey


class Suite(enum.IntEnum):
    """How an epoch key is wrapped; the value is the suite byte of a stanza."""

    X25519 = 1
    MLKEM768_X25519 = 2
    P256 = 3

    @property
    def label(self) -> str:
        """Name in key files and on the command line."""
        return _LABELS[self]

    @property
    def public_bytes(self) -> int:
        """Length of a public key."""
        return _PUBLIC_BYTES[self]

    @property
    def wrapped_bytes(self) -> int:
        """Length of a wrapped epoch key: encapsulation, ciphertext, tag."""
        return _KEMS[self].enc_length() + KEY_BYTES + TAG_BYTES

    @classmethod
    def from_label(cls, label: str) -> Suite | None:
        """Return the suite of that name, or None."""
        return next((suite for suite in cls if suite.label == label), None)


DEFAULT_SUITE = Suite.MLKEM768_X25519
_LABELS = {Suite.X25519: "x25519", Suite.MLKEM768_X25519: "mlkem768x25519", Suite.P256: "p256"}
_PUBLIC_BYTES = {
    Suite.X25519: X25519_BYTES,
    Suite.MLKEM768_X25519: MLKEM768_PUBLIC_BYTES + X25519_BYTES,
    Suite.P256: P256_BYTES,
}
_KEMS = {
    Suite.X25519: hpke.KEM.X25519,
    Suite.MLKEM768_X25519: hpke.KEM.MLKEM768_X25519,
    Suite.P256: hpke.KEM.P256,
}


def check_public_key(suite: Suite, public_key: bytes) -> None:
    """Refuse what is not a public key of ``suite``.

    Raises:
        Malformed: wrong length, an ML-KEM key out of range, or an X25519 point of low order, on which the
            shared secret would be the same for everybody (RFC 7748, section 6.1), or one not on the curve.
    """
    public = _load_public(suite, public_key)
    try:
        _hpke(suite).encrypt(b"", public)
    except ValueError as error:
        message = f"{suite.label} public key: nothing can be encrypted to it"
        raise Malformed(message) from error


def public_key_of(suite: Suite, seed: SecretBytes) -> bytes:
    """Compute the public key of a private seed of 32 bytes.

    Raises:
        Malformed: a P-256 scalar that is zero or not below the group's order.
    """
    view = seed.expose(RevealToken("public key derivation"))
    if suite is Suite.X25519:
        return X25519PrivateKey.from_private_bytes(view).public_key().public_bytes_raw()
    if suite is Suite.P256:
        public = _p256(view).public_key()
        return public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
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
    elif suite is Suite.P256:
        private = _p256(view)
    else:
        private = hpke.MLKEM768X25519PrivateKey(*_expand(view))
    try:
        return SecretBytes(_hpke(suite).decrypt(wrapped, private, info))
    except (InvalidTag, ValueError):  # ValueError: an encapsulated key that is no point of the curve
        message = f"wrapped key of suite {suite.label}: it does not open"
        raise AuthenticationFailed(message) from None


def draw_seed(suite: Suite) -> SecretBytes:
    """Draw a private key of 32 bytes."""
    while True:
        seed = SecretBytes(secrets.token_bytes(SEED_BYTES))
        if suite is not Suite.P256 or 0 < _number(seed.expose(RevealToken("range check"))) < _P256_ORDER:
            return seed


def _number(view: memoryview) -> int:
    return int.from_bytes(view, "big")


def _p256(view: memoryview) -> ec.EllipticCurvePrivateKey:
    if not 0 < _number(view) < _P256_ORDER:
        message = "p256 private key: out of range"
        raise Malformed(message)
    return ec.derive_private_key(_number(view), ec.SECP256R1())


def _hpke(suite: Suite) -> hpke.Suite:
    return hpke.Suite(_KEMS[suite], hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)


def _load_public(suite: Suite, public_key: bytes) -> _PublicKey:
    if len(public_key) != suite.public_bytes:
        message = f"{suite.label} public key: expected {suite.public_bytes} bytes, got {len(public_key)}"
        raise Malformed(message)
    if suite is Suite.P256:
        return _load_p256(public_key)
    x25519 = X25519PublicKey.from_public_bytes(public_key[-X25519_BYTES:])
    if suite is Suite.X25519:
        return x25519
    try:
        mlkem = MLKEM768PublicKey.from_public_bytes(public_key[:MLKEM768_PUBLIC_BYTES])
    except ValueError as error:
        message = f"{suite.label} public key: its ML-KEM-768 part is out of range"
        raise Malformed(message) from error
    return hpke.MLKEM768X25519PublicKey(mlkem, x25519)


def _load_p256(public_key: bytes) -> ec.EllipticCurvePublicKey:
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), public_key)
    except ValueError as error:
        message = "p256 public key: expected an uncompressed point of the curve"
        raise Malformed(message) from error


def _expand(seed: memoryview) -> tuple[MLKEM768PrivateKey, X25519PrivateKey]:
    expanded = SecretBytes(hashlib.shake_256(seed).digest(MLKEM768_SEED_BYTES + X25519_BYTES))
    view = expanded.expose(RevealToken("X-Wing key expansion"))
    return (
        MLKEM768PrivateKey.from_seed_bytes(view[:MLKEM768_SEED_BYTES]),
        X25519PrivateKey.from_private_bytes(view[MLKEM768_SEED_BYTES:]),
    )
