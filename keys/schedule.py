"""From the epoch key to the keys of one segment (HKDF-SHA256, RFC 5869), and the cipher that uses them.

    K_e   32 random bytes, one per epoch
    K_s = HKDF(K_e, info = SEGMENT_KEY | camera id | stream id | epoch id | segment index u64)
    key = HKDF(K_s, info = SEALED_LAYER)
    key of region r = HKDF(K_s, info = SEALED_REGION | r u8)
    pixel stream = AES-256-CTR(HKDF(K_s, info = PIXELS_LAYER), counter from 0)

Salts are empty: K_e is uniform already. All ids have 16 bytes.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from typing import final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from base.errors import AuthenticationFailed, KeyUnavailable, UsageError
from keys.labels import Label
from keys.secret import Buffer, RevealToken, SecretBytes, Unshareable

KEY_BYTES = 32
ID_BYTES = 16
NONCE_BYTES = 12
TAG_BYTES = 16
MAX_SEGMENT_INDEX = 2**64 - 1
MAX_REGIONS = 64


def hkdf_sha256(
    secret: SecretBytes, info: bytes, *, salt: bytes = b"", length: int = KEY_BYTES
) -> SecretBytes:
    """Derive ``length`` bytes for the purpose that ``info`` names (RFC 5869, extract and expand)."""
    derivation = HKDF(algorithm=SHA256(), length=length, salt=salt, info=info)
    return SecretBytes(derivation.derive(secret.expose(RevealToken("HKDF input"))))


def checked_id(name: str, value: bytes) -> bytes:
    """Return ``value`` if it has the 16 bytes of an id.

    Raises:
        UsageError: it has not.
    """
    if len(value) != ID_BYTES:
        message = f"{name}: expected {ID_BYTES} bytes, got {len(value)}"
        raise UsageError(message)
    return value


def chunk_nonce(chunk_index: int) -> bytes:
    """Return the 96-bit nonce of a chunk: its index, big-endian.

    Never the same twice under one key: the key belongs to one segment of one stream (the stream id is drawn
    afresh at every process start) and the index counts that segment's chunks.
    """
    if not 0 <= chunk_index < 2 ** (8 * NONCE_BYTES):
        message = f"chunk index: expected 0 to 2^{8 * NONCE_BYTES} - 1, got {chunk_index}"
        raise UsageError(message)
    return chunk_index.to_bytes(NONCE_BYTES, "big")


@final
class SealedCipher(Unshareable):
    """AES-256-GCM under the sealed layer's key of one segment. Safe to share between threads."""

    __slots__ = ("_aead", "_last_nonce", "_lock")

    def __init__(self, key: SecretBytes) -> None:
        self._aead = AESGCM(key.expose(RevealToken("AES-256-GCM key")))
        self._last_nonce = b""
        self._lock = threading.Lock()

    def seal(self, nonce: bytes, plaintext: Buffer, aad: Buffer) -> bytes:
        """Encrypt; returns ciphertext and 16-byte tag.

        Raises:
            UsageError: ``nonce`` has not 12 bytes, or is not above the one of the call before. Nonces only
                grow, so that a caller's mistake cannot use one twice on this object.
        """
        _check_nonce(nonce)
        with self._lock:
            if nonce <= self._last_nonce:
                message = f"nonce {nonce.hex()}: expected one above {self._last_nonce.hex()}"
                raise UsageError(message)
            self._last_nonce = bytes(nonce)
        return self._aead.encrypt(nonce, plaintext, aad)

    def open(self, nonce: bytes, ciphertext: Buffer, aad: Buffer) -> bytes:
        """Decrypt ciphertext and tag.

        Raises:
            AuthenticationFailed: the tag does not fit key, nonce, ciphertext and AAD.
            UsageError: ``nonce`` has not 12 bytes.
        """
        _check_nonce(nonce)
        try:
            return self._aead.decrypt(nonce, ciphertext, aad)
        except InvalidTag:
            message = f"sealed chunk with nonce {nonce.hex()}: the authentication tag does not verify"
            raise AuthenticationFailed(message) from None


@final
class PixelStream(Unshareable):
    """Key stream of the pixel path: AES-256 in counter mode from block 0 (NIST SP 800-38A). One reader."""

    __slots__ = ("_stream",)

    def __init__(self, key: SecretBytes) -> None:
        cipher = Cipher(AES(key.expose(RevealToken("AES-256-CTR key"))), CTR(bytes(16)))
        self._stream = cipher.encryptor()

    def read(self, count: int) -> bytes:
        """Return the next ``count`` bytes."""
        return self._stream.update(bytes(count))


@final
class SegmentKeys(Unshareable):
    """The keys of one segment, by layer."""

    __slots__ = ("_secret",)

    def __init__(self, secret: SecretBytes) -> None:
        _check_key("segment key", secret)
        self._secret = secret

    @property
    def secret(self) -> SecretBytes:
        """K_s, for a grant of this segment alone."""
        return self._secret

    def sealed_cipher(self) -> SealedCipher:
        """Return the cipher of the sealed layer. Seal with one object per segment: it guards its nonces."""
        return SealedCipher(hkdf_sha256(self._secret, Label.SEALED_LAYER.value))

    def pixel_stream(self) -> PixelStream:
        """Return the key stream of the pixel path, from its start."""
        return PixelStream(hkdf_sha256(self._secret, Label.PIXELS_LAYER.value))

    def region_key(self, region: int) -> SecretBytes:
        """Return the key of one region, for a grant of it alone. Nothing else can be derived from it.

        Raises:
            UsageError: ``region`` is not 0 to 63.
        """
        info = Label.SEALED_REGION.value + bytes((checked_region(region),))
        return hkdf_sha256(self._secret, info)

    def region_cipher(self, region: int) -> SealedCipher:
        """Return the cipher of one region. Seal with one object per segment and region."""
        return SealedCipher(self.region_key(region))


@final
class RegionKeys(Unshareable):
    """Keys of some regions of one segment: all that a grant of these regions holds of it."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Mapping[int, SecretBytes]) -> None:
        for region, key in keys.items():
            _check_key(f"key of region {checked_region(region)}", key)
        self._keys = dict(keys)

    @property
    def regions(self) -> frozenset[int]:
        """The regions that open."""
        return frozenset(self._keys)

    def secret(self, region: int) -> SecretBytes:
        """The key of one region, for a grant.

        Raises:
            KeyUnavailable: its key is not here.
        """
        if region not in self._keys:
            message = f"region {region}: its key is not among the keys given"
            raise KeyUnavailable(message)
        return self._keys[region]

    def sealed_cipher(self) -> SealedCipher:
        """Refuse: what belongs to no region (sound) is not among these keys.

        Raises:
            KeyUnavailable: always.
        """
        message = "the key of what belongs to no region is not among the keys given"
        raise KeyUnavailable(message)

    def pixel_stream(self) -> PixelStream:
        """Refuse: the pixel path has no regions, its key opens the whole picture.

        Raises:
            KeyUnavailable: always.
        """
        message = "the key of the pixel path is not among the keys given"
        raise KeyUnavailable(message)

    def region_cipher(self, region: int) -> SealedCipher:
        """Return the cipher of one region.

        Raises:
            KeyUnavailable: its key is not here.
        """
        return SealedCipher(self.secret(region))


@final
class EpochKey(Unshareable):
    """K_e: opens every segment of one epoch of one camera."""

    __slots__ = ("_secret",)

    def __init__(self, secret: SecretBytes) -> None:
        _check_key("epoch key", secret)
        self._secret = secret

    @classmethod
    def generate(cls) -> EpochKey:
        """Draw a fresh key from the operating system."""
        return cls(SecretBytes(secrets.token_bytes(KEY_BYTES)))

    @property
    def secret(self) -> SecretBytes:
        """The key itself, for wrapping."""
        return self._secret

    def segment(self, camera_id: bytes, stream_id: bytes, epoch_id: bytes, segment_index: int) -> SegmentKeys:
        """Derive the keys of one segment; ids of 16 bytes, index from 0 to 2^64 - 1.

        Raises:
            UsageError: an id has another length or the index does not fit.
        """
        if not 0 <= segment_index <= MAX_SEGMENT_INDEX:
            message = f"segment index: expected 0 to 2^64 - 1, got {segment_index}"
            raise UsageError(message)
        info = b"".join(
            (
                Label.SEGMENT_KEY.value,
                checked_id("camera id", camera_id),
                checked_id("stream id", stream_id),
                checked_id("epoch id", epoch_id),
                segment_index.to_bytes(8, "big"),
            )
        )
        return SegmentKeys(hkdf_sha256(self._secret, info))


def checked_region(region: int) -> int:
    """Return ``region`` if it can be the number of one.

    Raises:
        UsageError: it cannot.
    """
    if not 0 <= region < MAX_REGIONS:
        message = f"region: expected 0 to {MAX_REGIONS - 1}, got {region}"
        raise UsageError(message)
    return region


def _check_key(name: str, secret: SecretBytes) -> None:
    if len(secret) != KEY_BYTES:
        message = f"{name}: expected {KEY_BYTES} bytes, got {len(secret)}"
        raise UsageError(message)


def _check_nonce(nonce: bytes) -> None:
    if len(nonce) != NONCE_BYTES:
        message = f"nonce: expected {NONCE_BYTES} bytes, got {len(nonce)}"
        raise UsageError(message)
