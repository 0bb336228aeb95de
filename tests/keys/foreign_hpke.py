"""A second HPKE (RFC 9180, base mode, one message), written from the RFC, to check ours against.

Shares with the product only the primitives X25519, P-256, ML-KEM-768 and AEADs of the cryptography package.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

KEM_P256 = 0x0010
KEM_X25519 = 0x0020
KEM_XWING = 0x647A
KDF_SHA256 = 0x0001
AEAD_AES_256_GCM = 0x0002
AEAD_CHACHA20_POLY1305 = 0x0003


def extract(salt: bytes, ikm: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), ikm, "sha256")


def expand(prk: bytes, info: bytes, length: int) -> bytes:
    out = block = b""
    for counter in range(1, -(-length // 32) + 1):
        block = hmac.digest(prk, block + info + bytes([counter]), "sha256")
        out += block
    return out[:length]


def labeled_extract(suite_id: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
    return extract(salt, b"HPKE-v1" + suite_id + label + ikm)


def labeled_expand(suite_id: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
    return expand(prk, length.to_bytes(2, "big") + b"HPKE-v1" + suite_id + label + info, length)


def dhkem(dh: bytes, enc: bytes, recipient_public: bytes, kem_id: int = KEM_X25519) -> bytes:
    """Shared secret of DHKEM(X25519 or P-256, HKDF-SHA256), section 4.1."""
    suite_id = b"KEM" + kem_id.to_bytes(2, "big")
    prk = labeled_extract(suite_id, b"", b"eae_prk", dh)
    return labeled_expand(suite_id, prk, b"shared_secret", enc + recipient_public, 32)


def dhkem_decapsulate(private: bytes, enc: bytes) -> bytes:
    key = X25519PrivateKey.from_private_bytes(private)
    dh = key.exchange(X25519PublicKey.from_public_bytes(enc))
    return dhkem(dh, enc, key.public_key().public_bytes_raw())


def dhkem_p256_decapsulate(private: bytes, enc: bytes) -> bytes:
    curve = ec.SECP256R1()
    key = ec.derive_private_key(int.from_bytes(private), curve)
    dh = key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(curve, enc))
    public = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return dhkem(dh, enc, public, KEM_P256)


def dhkem_encapsulate(ephemeral: bytes, recipient_public: bytes) -> tuple[bytes, bytes]:
    key = X25519PrivateKey.from_private_bytes(ephemeral)
    enc = key.public_key().public_bytes_raw()
    return dhkem(
        key.exchange(X25519PublicKey.from_public_bytes(recipient_public)), enc, recipient_public
    ), enc


def xwing_decapsulate(seed: bytes, enc: bytes) -> bytes:
    """Shared secret of X-Wing, draft-connolly-cfrg-xwing-kem sections 5.2 to 5.5."""
    expanded = hashlib.shake_256(seed).digest(96)
    x25519 = X25519PrivateKey.from_private_bytes(expanded[64:])
    ss_m = MLKEM768PrivateKey.from_seed_bytes(expanded[:64]).decapsulate(enc[:1088])
    ss_x = x25519.exchange(X25519PublicKey.from_public_bytes(enc[1088:]))
    public_x = x25519.public_key().public_bytes_raw()
    return hashlib.sha3_256(ss_m + ss_x + enc[1088:] + public_x + b"\\.//^\\").digest()


@dataclass(frozen=True)
class Schedule:
    key: bytes
    base_nonce: bytes
    exporter_secret: bytes


def key_schedule(kem_id: int, aead_id: int, shared_secret: bytes, info: bytes) -> Schedule:
    """Base mode, section 5.1; both AEADs here have keys of 32 bytes."""
    suite_id = b"HPKE" + b"".join(each.to_bytes(2, "big") for each in (kem_id, KDF_SHA256, aead_id))
    psk_id_hash = labeled_extract(suite_id, b"", b"psk_id_hash", b"")
    info_hash = labeled_extract(suite_id, b"", b"info_hash", info)
    context = b"\0" + psk_id_hash + info_hash
    secret = labeled_extract(suite_id, shared_secret, b"secret", b"")
    return Schedule(
        key=labeled_expand(suite_id, secret, b"key", context, 32),
        base_nonce=labeled_expand(suite_id, secret, b"base_nonce", context, 12),
        exporter_secret=labeled_expand(suite_id, secret, b"exp", context, 32),
    )
