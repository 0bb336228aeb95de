from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import AuthenticationFailed, UsageError
from keys.schedule import EpochKey, SealedCipher, SegmentKeys, chunk_nonce, hkdf_sha256
from keys.secret import RevealToken, SecretBytes
from tests.keys import foreign_hpke as foreign

REVEAL = RevealToken("test")
K_E = bytes(range(32))
CAMERA, STREAM, EPOCH = b"c" * 16, b"s" * 16, b"e" * 16


def _cipher(index: int = 7) -> SealedCipher:
    return EpochKey(SecretBytes(K_E)).segment(CAMERA, STREAM, EPOCH, index).sealed_cipher()


# RFC 5869, appendices A.1 to A.3.
@pytest.mark.parametrize(
    ("ikm", "salt", "info", "okm"),
    [
        pytest.param(
            bytes([0x0B] * 22),
            bytes(range(13)),
            bytes(range(0xF0, 0xFA)),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
            id="A.1",
        ),
        pytest.param(
            bytes(range(0x50)),
            bytes(range(0x60, 0xB0)),
            bytes(range(0xB0, 0x100)),
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
            "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
            id="A.2",
        ),
        pytest.param(
            bytes([0x0B] * 22),
            b"",
            b"",
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
            id="A.3",
        ),
    ],
)
def test_hkdf_gives_the_answers_of_rfc_5869(ikm: bytes, salt: bytes, info: bytes, okm: str) -> None:
    derived = hkdf_sha256(SecretBytes(ikm), info, salt=salt, length=len(okm) // 2)
    assert derived.expose(REVEAL).hex() == okm


# McGrew and Viega, "The Galois/Counter Mode of Operation", submitted to NIST: test cases 13 to 16 (AES-256).
GCM_KEY = bytes.fromhex("feffe9928665731c6d6a8f9467308308" * 2)
GCM_NONCE = bytes.fromhex("cafebabefacedbaddecaf888")
GCM_PLAINTEXT = bytes.fromhex(
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255"
)
GCM_CIPHERTEXT = bytes.fromhex(
    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
    "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad"
)
GCM_AAD = bytes.fromhex("feedfacedeadbeeffeedfacedeadbeefabaddad2")


@pytest.mark.parametrize(
    ("key", "nonce", "plaintext", "aad", "sealed"),
    [
        (bytes(32), bytes(12), b"", b"", bytes.fromhex("530f8afbc74536b9a963b4f1c4cb738b")),
        (
            bytes(32),
            bytes(12),
            bytes(16),
            b"",
            bytes.fromhex("cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"),
        ),
        (
            GCM_KEY,
            GCM_NONCE,
            GCM_PLAINTEXT,
            b"",
            GCM_CIPHERTEXT + bytes.fromhex("b094dac5d93471bdec1a502270e3cc6c"),
        ),
        (
            GCM_KEY,
            GCM_NONCE,
            GCM_PLAINTEXT[:60],
            GCM_AAD,
            GCM_CIPHERTEXT[:60] + bytes.fromhex("76fc6ece0f4e1768cddf8853bb2d551b"),
        ),
    ],
    ids=["13", "14", "15", "16"],
)
def test_the_cipher_gives_the_answers_of_the_gcm_specification(
    key: bytes, nonce: bytes, plaintext: bytes, aad: bytes, sealed: bytes
) -> None:
    cipher = SealedCipher(SecretBytes(key))
    assert cipher.seal(nonce, plaintext, aad) == sealed
    assert cipher.open(nonce, sealed, aad) == plaintext


def test_the_schedule_is_the_documented_one() -> None:
    """Recomputed with the HKDF of the second HPKE and the labels as text."""
    info = b"veilcam segment key v1" + CAMERA + STREAM + EPOCH + (7).to_bytes(8, "big")
    segment_key = foreign.expand(foreign.extract(b"", K_E), info, 32)
    sealed_key = foreign.expand(foreign.extract(b"", segment_key), b"veilcam sealed layer v1", 32)
    assert EpochKey(SecretBytes(K_E)).segment(CAMERA, STREAM, EPOCH, 7).secret == SecretBytes(segment_key)
    assert (
        AESGCM(sealed_key).decrypt(bytes(12), _cipher().seal(bytes(12), b"hello", b"aad"), b"aad") == b"hello"
    )


def test_every_input_of_the_schedule_changes_the_key() -> None:
    key = EpochKey(SecretBytes(K_E))
    other = b"o" * 16
    derived = [
        key.segment(CAMERA, STREAM, EPOCH, 7),
        key.segment(CAMERA, STREAM, EPOCH, 8),
        key.segment(other, STREAM, EPOCH, 7),
        key.segment(CAMERA, other, EPOCH, 7),
        key.segment(CAMERA, STREAM, other, 7),
        EpochKey(SecretBytes(K_E[::-1])).segment(CAMERA, STREAM, EPOCH, 7),
    ]
    assert len({each.secret.expose(REVEAL).hex() for each in derived}) == len(derived)


def test_generated_epoch_keys_differ() -> None:
    assert EpochKey.generate().secret != EpochKey.generate().secret


@pytest.mark.parametrize("index", [-1, 2**64])
def test_a_segment_index_that_does_not_fit_is_refused(index: int) -> None:
    with pytest.raises(UsageError, match="segment index"):
        EpochKey.generate().segment(CAMERA, STREAM, EPOCH, index)


@pytest.mark.parametrize("position", range(3))
def test_an_id_of_another_length_is_refused(position: int) -> None:
    ids = [CAMERA, STREAM, EPOCH]
    ids[position] = b"short"
    with pytest.raises(UsageError, match="expected 16 bytes, got 5"):
        EpochKey.generate().segment(ids[0], ids[1], ids[2], 0)


@pytest.mark.parametrize("holder", [EpochKey, SegmentKeys])
def test_a_key_of_another_length_is_refused(holder: type[EpochKey | SegmentKeys]) -> None:
    with pytest.raises(UsageError, match="expected 32 bytes, got 31"):
        holder(SecretBytes(bytes(31)))


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=300), st.binary(max_size=50), st.data())
def test_any_changed_bit_of_chunk_aad_or_nonce_does_not_open(
    plaintext: bytes, aad: bytes, data: st.DataObject
) -> None:
    nonce = chunk_nonce(3)
    sealed = _cipher().seal(nonce, plaintext, aad)
    assert _cipher().open(nonce, sealed, aad) == plaintext
    parts = [nonce, sealed, aad]
    which = data.draw(st.sampled_from([i for i, part in enumerate(parts) if part]))
    bit = data.draw(st.integers(0, 8 * len(parts[which]) - 1))
    changed = bytearray(parts[which])
    changed[bit // 8] ^= 1 << bit % 8
    parts[which] = bytes(changed)
    with pytest.raises(AuthenticationFailed):
        _cipher().open(*parts)


def test_a_chunk_of_another_segment_does_not_open() -> None:
    with pytest.raises(AuthenticationFailed):
        _cipher(8).open(bytes(12), _cipher(7).seal(bytes(12), b"x", b""), b"")


@pytest.mark.parametrize("sealed", [b"", b"short", bytes(15)])
def test_a_chunk_shorter_than_its_tag_does_not_open(sealed: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        _cipher().open(bytes(12), sealed, b"")


def test_a_nonce_is_used_once() -> None:
    cipher = _cipher()
    cipher.seal(chunk_nonce(5), b"first", b"")
    for index in (5, 4, 0):
        with pytest.raises(UsageError, match="expected one above"):
            cipher.seal(chunk_nonce(index), b"second", b"")
    cipher.seal(chunk_nonce(6), b"third", b"")


def test_of_many_threads_with_one_nonce_only_one_seals() -> None:
    cipher = _cipher()

    def attempt(_: int) -> bool:
        try:
            cipher.seal(bytes(12), b"x", b"")
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(64))) == 1


@pytest.mark.parametrize("length", [0, 11, 13])
def test_a_nonce_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(UsageError, match="expected 12 bytes"):
        _cipher().seal(bytes(length), b"", b"")
    with pytest.raises(UsageError, match="expected 12 bytes"):
        _cipher().open(bytes(length), bytes(16), b"")


def test_chunk_nonces_are_the_big_endian_index() -> None:
    assert chunk_nonce(0) == bytes(12)
    assert chunk_nonce(0x0102) == bytes(10) + b"\x01\x02"
    assert chunk_nonce(2**96 - 1) == b"\xff" * 12
    for index in (-1, 2**96):
        with pytest.raises(UsageError, match="chunk index"):
            chunk_nonce(index)
