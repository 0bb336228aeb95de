"""HPKE's receiving side (RFC 9180, base mode) for a private key that does not come here.

A token or key service computes the Diffie-Hellman value alone; the rest of HPKE needs no private key and
happens here. `keys.suite` does the same with keys in memory; tests hold the two against each other and
against the RFC's own vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from base.errors import AuthenticationFailed, UsageError
from keys.recipient import Recipient
from keys.schedule import KEY_BYTES, NONCE_BYTES
from keys.secret import RevealToken, SecretBytes, Unshareable
from keys.suite import P256_BYTES, X25519_BYTES, Suite

Agree = Callable[[bytes], SecretBytes]
"""From the other side's public key (32 bytes of X25519, 65 of P-256) to the shared secret of 32 bytes: the
u-coordinate, or the x-coordinate. Raises `KeyUnavailable` if the token refuses, `AuthenticationFailed` if the
public key is none."""

_KEM_IDS = {Suite.X25519: 0x0020, Suite.P256: 0x0010}
_KDF_ID = 0x0001
_AEAD_ID = 0x0002
_VERSION = b"HPKE-v1"
_DH_BYTES = 32


@final
class AgreedIdentity(Unshareable):
    """An opener whose key agreement happens elsewhere.

    Args:
        recipient: of suite x25519 or p256.
        agree: see `Agree`; called once per key that is unwrapped.
    """

    __slots__ = ("_agree", "_recipient")

    def __init__(self, recipient: Recipient, agree: Agree) -> None:
        if recipient.suite not in _KEM_IDS:
            message = f"suite {recipient.suite.label}: its private key is no plain Diffie-Hellman key"
            raise UsageError(message)
        self._recipient = recipient
        self._agree = agree

    def __repr__(self) -> str:
        return f"<AgreedIdentity {self._recipient.name} {self._recipient.suite.label}>"

    @property
    def recipient(self) -> Recipient:
        """The public half."""
        return self._recipient

    def unwrap(self, wrapped: bytes, info: bytes) -> SecretBytes:
        """Decrypt what `Recipient.wrap` made.

        Raises:
            AuthenticationFailed: it was made for another key or ``info``, or was changed.
            KeyUnavailable: whoever holds the private key refuses.
        """
        suite = self._recipient.suite
        split = P256_BYTES if suite is Suite.P256 else X25519_BYTES
        peer, sealed = wrapped[:split], wrapped[split:]
        failure = f"wrapped key of suite {suite.label}: it does not open"
        if len(wrapped) != suite.wrapped_bytes:
            raise AuthenticationFailed(failure)
        dh = self._agree(peer)
        if len(dh) != _DH_BYTES or dh == SecretBytes(bytes(_DH_BYTES)):
            raise AuthenticationFailed(failure)
        shared = dhkem_secret(_KEM_IDS[suite], dh, peer + self._recipient.public_key)
        key, nonce = key_schedule(_KEM_IDS[suite], _AEAD_ID, shared, info, KEY_BYTES)
        try:
            aead = AESGCM(key.expose(RevealToken("AES-256-GCM key")))
            return SecretBytes(aead.decrypt(nonce, sealed, b""))
        except InvalidTag:
            raise AuthenticationFailed(failure) from None


def dhkem_secret(kem_id: int, dh: SecretBytes, context: bytes) -> SecretBytes:
    """RFC 9180, 4.1: ExtractAndExpand; ``context`` is enc, then the recipient's public key."""
    suite_id = b"KEM" + kem_id.to_bytes(2, "big")
    prk = _extract(suite_id, b"", b"eae_prk", dh)
    return _expand(suite_id, prk, b"shared_secret", context, KEY_BYTES)


def key_schedule(
    kem_id: int, aead_id: int, shared: SecretBytes, info: bytes, key_bytes: int
) -> tuple[SecretBytes, bytes]:
    """RFC 9180, 5.1: the key and base nonce of base mode with HKDF-SHA256."""
    suite_id = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (kem_id, _KDF_ID, aead_id))
    empty = SecretBytes(b"")
    psk_id_hash = _extract(suite_id, b"", b"psk_id_hash", empty)
    info_hash = _extract(suite_id, b"", b"info_hash", SecretBytes(info))
    public = RevealToken("hash of public values")
    context = b"\x00" + bytes(psk_id_hash.expose(public)) + bytes(info_hash.expose(public))
    secret = _extract(suite_id, shared.expose(RevealToken("HKDF salt")), b"secret", empty)
    key = _expand(suite_id, secret, b"key", context, key_bytes)
    nonce = _expand(suite_id, secret, b"base_nonce", context, NONCE_BYTES)
    return key, bytes(nonce.expose(RevealToken("HPKE base nonce")))


def _extract(suite_id: bytes, salt: bytes | memoryview, label: bytes, ikm: SecretBytes) -> SecretBytes:
    labeled = SecretBytes(b"".join((_VERSION, suite_id, label, ikm.expose(RevealToken("HKDF input")))))
    prk = HKDF.extract(SHA256(), bytes(salt), labeled.expose(RevealToken("HKDF input")))
    return SecretBytes(prk)


def _expand(suite_id: bytes, prk: SecretBytes, label: bytes, info: bytes, length: int) -> SecretBytes:
    labeled = length.to_bytes(2, "big") + _VERSION + suite_id + label + info
    expansion = HKDFExpand(SHA256(), length, labeled)
    return SecretBytes(expansion.derive(prk.expose(RevealToken("HKDF input"))))
