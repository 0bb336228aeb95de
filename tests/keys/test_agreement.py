from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from base.errors import AuthenticationFailed, UsageError
from keys import Recipient, SecretBytes
from keys.agreement import AgreedIdentity, dhkem_secret, key_schedule
from keys.recipient import Identity
from keys.secret import RevealToken
from keys.suite import Suite
from tests.keys.test_suite import (
    A21_CIPHERTEXT,
    A21_INFO,
    A21_KEY,
    A21_NONCE,
    A21_PK_EPHEMERAL,
    A21_PK_RECIPIENT,
    A21_PLAINTEXT,
    A21_SHARED,
    A21_SK_RECIPIENT,
)

REVEAL = RevealToken("test")
SECRET = SecretBytes(bytes(range(32)))

# RFC 9180, appendix A.3.1: DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode.
A31_SK_RECIPIENT = bytes.fromhex("f3ce7fdae57e1a310d87f1ebbde6f328be0a99cdbcadf4d6589cf29de4b8ffd2")
A31_PK_RECIPIENT = bytes.fromhex(
    "04fe8c19ce0905191ebc298a9245792531f26f0cece2460639e8bc39cb7f706a826a779b4cf969b8a0e539c7f62fb3d30ad6aa8f8"
    "0e30f1d128aafd68a2ce72ea0"
)
A31_ENC = bytes.fromhex(
    "04a92719c6195d5085104f469a8b9814d5838ff72b60501e2c4466e5e67b325ac98536d7b61a1af4b78e5b7f951c0900be863c40"
    "3ce65c9bfcb9382657222d18c4"
)
A31_SHARED = "c0d26aeab536609a572b07695d933b589dcf363ff9d93c93adea537aeabb8cb8"
A31_KEY = "868c066ef58aae6dc589b6cfdd18f97e"
A31_NONCE = "4e0bc5018beba4bf004cca59"


def software(identity: Identity) -> AgreedIdentity:
    """The same key, as if a token held it."""
    seed = bytes(identity.seed.expose(REVEAL))

    def agree(peer: bytes) -> SecretBytes:
        if identity.recipient.suite is Suite.X25519:
            private = X25519PrivateKey.from_private_bytes(seed)
            return SecretBytes(private.exchange(X25519PublicKey.from_public_bytes(peer)))
        curve = ec.SECP256R1()
        point = ec.EllipticCurvePublicKey.from_encoded_point(curve, peer)
        return SecretBytes(ec.derive_private_key(int.from_bytes(seed), curve).exchange(ec.ECDH(), point))

    return AgreedIdentity(identity.recipient, agree)


def test_the_key_schedule_gives_the_answers_of_rfc_9180_for_x25519() -> None:
    private = X25519PrivateKey.from_private_bytes(A21_SK_RECIPIENT)
    dh = SecretBytes(private.exchange(X25519PublicKey.from_public_bytes(A21_PK_EPHEMERAL)))
    shared = dhkem_secret(0x0020, dh, A21_PK_EPHEMERAL + A21_PK_RECIPIENT)
    assert bytes(shared.expose(REVEAL)) == A21_SHARED
    key, nonce = key_schedule(0x0020, 0x0003, shared, A21_INFO, 32)
    assert (bytes(key.expose(REVEAL)), nonce) == (A21_KEY, A21_NONCE)
    assert ChaCha20Poly1305(A21_KEY).decrypt(nonce, A21_CIPHERTEXT, b"Count-0") == A21_PLAINTEXT


def test_the_key_schedule_gives_the_answers_of_rfc_9180_for_p256() -> None:
    private = ec.derive_private_key(int.from_bytes(A31_SK_RECIPIENT), ec.SECP256R1())
    point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), A31_ENC)
    shared = dhkem_secret(0x0010, SecretBytes(private.exchange(ec.ECDH(), point)), A31_ENC + A31_PK_RECIPIENT)
    assert shared.expose(REVEAL).hex() == A31_SHARED
    key, nonce = key_schedule(0x0010, 0x0001, shared, A21_INFO, 16)
    assert (key.expose(REVEAL).hex(), nonce.hex()) == (A31_KEY, A31_NONCE)


@pytest.mark.parametrize("suite", [Suite.X25519, Suite.P256])
def test_what_cryptography_seals_opens_by_agreement(suite: Suite) -> None:
    recipient, identity = Recipient.generate("alice", suite)
    wrapped = recipient.wrap(SECRET, b"info")
    assert software(identity).unwrap(wrapped, b"info") == SECRET == identity.unwrap(wrapped, b"info")


@pytest.mark.parametrize("suite", [Suite.X25519, Suite.P256])
def test_other_info_another_key_a_changed_or_shorter_blob_does_not_open(suite: Suite) -> None:
    recipient, identity = Recipient.generate("alice", suite)
    wrapped = recipient.wrap(SECRET, b"info")
    other = software(Recipient.generate("bob", suite)[1])
    changed = wrapped[:-1] + bytes([wrapped[-1] ^ 1])
    for who, blob, info in (
        (software(identity), wrapped, b"other"),
        (other, wrapped, b"info"),
        (software(identity), changed, b"info"),
        (software(identity), wrapped[:40], b"info"),
    ):
        with pytest.raises(AuthenticationFailed):
            who.unwrap(blob, info)


def test_a_shared_secret_of_zeros_is_refused() -> None:
    recipient, _ = Recipient.generate("alice", Suite.X25519)
    everybody = AgreedIdentity(recipient, lambda _: SecretBytes(bytes(32)))
    with pytest.raises(AuthenticationFailed):
        everybody.unwrap(recipient.wrap(SECRET, b""), b"")


def test_the_hybrid_is_refused_where_only_agreement_is_at_hand() -> None:
    recipient, _ = Recipient.generate("alice")
    with pytest.raises(UsageError, match="no plain Diffie-Hellman"):
        AgreedIdentity(recipient, lambda _: SecretBytes(bytes(32)))
