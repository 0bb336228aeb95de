from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from base.errors import AuthenticationFailed, Malformed
from keys import suite as hpke_suite
from keys.secret import RevealToken, SecretBytes
from keys.suite import Suite
from tests.keys import foreign_hpke as foreign

REVEAL = RevealToken("test")
INFO = b"what it is for"
SECRET = SecretBytes(bytes(range(32)))

# RFC 9180, appendix A.2.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305, base mode.
A21_INFO = bytes.fromhex("4f6465206f6e2061204772656369616e2055726e")
A21_SK_EPHEMERAL = bytes.fromhex("f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600")
A21_PK_EPHEMERAL = bytes.fromhex("1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a")
A21_SK_RECIPIENT = bytes.fromhex("8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb")
A21_PK_RECIPIENT = bytes.fromhex("4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a")
A21_SHARED = bytes.fromhex("0bbe78490412b4bbea4812666f7916932b828bba79942424abb65244930d69a7")
A21_KEY = bytes.fromhex("ad2744de8e17f4ebba575b3f5f5a8fa1f69c2a07f6e7500bc60ca6e3e3ec1c91")
A21_NONCE = bytes.fromhex("5c4d98150661b848853b547f")
A21_EXPORTER = bytes.fromhex("a3b010d4994890e2c6968a36f64470d3c824c8f5029942feb11e7a74b2921922")
A21_PLAINTEXT = bytes.fromhex("4265617574792069732074727574682c20747275746820626561757479")
A21_CIPHERTEXT = bytes.fromhex(
    "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b51a28"
)

XWING = json.loads((Path(__file__).parent / "vectors" / "xwing.json").read_text())


def _seed_and_public(suite: Suite) -> tuple[SecretBytes, bytes]:
    seed = SecretBytes(bytes(range(100, 132)))
    return seed, hpke_suite.public_key_of(suite, seed)


def test_the_foreign_implementation_gives_the_answers_of_rfc_9180() -> None:
    shared, enc = foreign.dhkem_encapsulate(A21_SK_EPHEMERAL, A21_PK_RECIPIENT)
    assert (shared, enc) == (A21_SHARED, A21_PK_EPHEMERAL)
    assert foreign.dhkem_decapsulate(A21_SK_RECIPIENT, enc) == A21_SHARED
    schedule = foreign.key_schedule(foreign.KEM_X25519, foreign.AEAD_CHACHA20_POLY1305, shared, A21_INFO)
    assert schedule == foreign.Schedule(A21_KEY, A21_NONCE, A21_EXPORTER)
    sealed = ChaCha20Poly1305(schedule.key).encrypt(schedule.base_nonce, A21_PLAINTEXT, b"Count-0")
    assert sealed == A21_CIPHERTEXT


def test_the_foreign_implementation_gives_the_answer_of_the_xwing_draft() -> None:
    shared = foreign.xwing_decapsulate(bytes.fromhex(XWING["seed"]), bytes.fromhex(XWING["encapsulation"]))
    assert shared.hex() == XWING["shared_secret"]


def test_x25519_public_key_is_that_of_rfc_9180() -> None:
    assert hpke_suite.public_key_of(Suite.X25519, SecretBytes(A21_SK_RECIPIENT)) == A21_PK_RECIPIENT


def test_hybrid_public_key_is_that_of_the_xwing_draft() -> None:
    seed = SecretBytes(bytes.fromhex(XWING["seed"]))
    assert hpke_suite.public_key_of(Suite.MLKEM768_X25519, seed).hex() == XWING["public_key"]


@pytest.mark.parametrize("suite", Suite)
def test_the_foreign_implementation_opens_what_we_wrap(suite: Suite) -> None:
    seed, public = _seed_and_public(suite)
    wrapped = hpke_suite.wrap(suite, public, SECRET, INFO)
    private = bytes(seed.expose(REVEAL))
    enc, ciphertext = wrapped[:-48], wrapped[-48:]
    if suite is Suite.X25519:
        kem_id, shared = foreign.KEM_X25519, foreign.dhkem_decapsulate(private, enc)
    elif suite is Suite.P256:
        kem_id, shared = foreign.KEM_P256, foreign.dhkem_p256_decapsulate(private, enc)
    else:
        kem_id, shared = foreign.KEM_XWING, foreign.xwing_decapsulate(private, enc)
    schedule = foreign.key_schedule(kem_id, foreign.AEAD_AES_256_GCM, shared, INFO)
    opened = AESGCM(schedule.key).decrypt(schedule.base_nonce, ciphertext, b"")
    assert opened == bytes(range(32))


def test_we_open_what_the_foreign_implementation_wraps() -> None:
    shared, enc = foreign.dhkem_encapsulate(A21_SK_EPHEMERAL, A21_PK_RECIPIENT)
    schedule = foreign.key_schedule(foreign.KEM_X25519, foreign.AEAD_AES_256_GCM, shared, INFO)
    wrapped = enc + AESGCM(schedule.key).encrypt(schedule.base_nonce, bytes(range(32)), b"")
    assert hpke_suite.unwrap(Suite.X25519, SecretBytes(A21_SK_RECIPIENT), wrapped, INFO) == SECRET


def test_we_open_a_foreign_message_to_the_key_of_the_xwing_draft() -> None:
    schedule = foreign.key_schedule(
        foreign.KEM_XWING, foreign.AEAD_AES_256_GCM, bytes.fromhex(XWING["shared_secret"]), INFO
    )
    ciphertext = AESGCM(schedule.key).encrypt(schedule.base_nonce, bytes(range(32)), b"")
    wrapped = bytes.fromhex(XWING["encapsulation"]) + ciphertext
    seed = SecretBytes(bytes.fromhex(XWING["seed"]))
    assert hpke_suite.unwrap(Suite.MLKEM768_X25519, seed, wrapped, INFO) == SECRET


@pytest.mark.parametrize("suite", Suite)
def test_wrapping_twice_gives_different_bytes_of_the_stated_length(suite: Suite) -> None:
    _, public = _seed_and_public(suite)
    first, second = (hpke_suite.wrap(suite, public, SECRET, INFO) for _ in range(2))
    assert first != second
    assert len(first) == len(second) == suite.wrapped_bytes == {1: 80, 2: 1168, 3: 113}[suite]


@pytest.mark.parametrize("suite", Suite)
def test_other_info_another_key_or_a_shorter_blob_does_not_open(suite: Suite) -> None:
    seed, public = _seed_and_public(suite)
    wrapped = hpke_suite.wrap(suite, public, SECRET, INFO)
    other = SecretBytes(bytes(range(1, 33)))
    for attempt in ((seed, wrapped, INFO + b"x"), (other, wrapped, INFO), (seed, wrapped[:40], INFO)):
        with pytest.raises(AuthenticationFailed):
            hpke_suite.unwrap(suite, *attempt)


# RFC 7748, section 6.1, asks to refuse these: the shared secret would be zero whatever the other key.
@pytest.mark.parametrize("point", [bytes(32), b"\x01" + bytes(31), b"\xed" + b"\xff" * 30 + b"\x7f"])
def test_a_public_key_of_low_order_is_refused(point: bytes) -> None:
    _, hybrid = _seed_and_public(Suite.MLKEM768_X25519)
    for suite, public in ((Suite.X25519, point), (Suite.MLKEM768_X25519, hybrid[:-32] + point)):
        with pytest.raises(Malformed, match="nothing can be encrypted"):
            hpke_suite.check_public_key(suite, public)


def test_an_mlkem_key_with_coefficients_out_of_range_is_refused() -> None:
    _, hybrid = _seed_and_public(Suite.MLKEM768_X25519)
    with pytest.raises(Malformed, match="out of range"):
        hpke_suite.check_public_key(Suite.MLKEM768_X25519, b"\xff" * 1184 + hybrid[1184:])


@pytest.mark.parametrize("point", [b"\x04" + bytes(64), b"\x04" + b"\x01" * 64, b"\x00" * 65])
def test_a_p256_key_that_is_no_point_of_the_curve_is_refused(point: bytes) -> None:
    with pytest.raises(Malformed, match="point of the curve"):
        hpke_suite.check_public_key(Suite.P256, point)


# FIPS 186-5, 3.1: a private key is from 1 to n - 1.
@pytest.mark.parametrize("scalar", [bytes(32), b"\xff" * 32])
def test_a_p256_scalar_out_of_range_is_refused(scalar: bytes) -> None:
    with pytest.raises(Malformed, match="out of range"):
        hpke_suite.public_key_of(Suite.P256, SecretBytes(scalar))


def test_labels_lead_back_to_suites() -> None:
    assert [Suite.from_label(suite.label) for suite in Suite] == list(Suite)
    assert Suite.from_label("rot13") is None
