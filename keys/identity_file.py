"""NAME.identity: a private identity under a passphrase.

    veilcam-identity v1
    name: alice
    suite: mlkem768x25519
    id: 32 hex digits
    kdf: scrypt log2n=16 r=8 p=1
    salt: base64 of 16 bytes
    nonce: base64 of 12 bytes
    sealed: base64 of 48 bytes

``sealed`` is AES-256-GCM over the seed of 32 bytes. Its key is scrypt (RFC 7914) of the passphrase in Unicode
NFC as UTF-8; its AAD is `Label.IDENTITY_FILE` and every byte of the file before the line ``sealed``. So
nobody can change the name, the suite or the cost without being noticed. r and p are fixed and log2n is from
10 to 18: a hostile file can ask for 256 MiB and about two seconds, no more.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from dataclasses import dataclass, field
from typing import final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from base.errors import LimitExceeded, Malformed, UsageError, WrongPassphrase
from keys import textfile
from keys.labels import Label
from keys.recipient import Identity
from keys.schedule import ID_BYTES, KEY_BYTES, NONCE_BYTES, TAG_BYTES
from keys.secret import RevealToken, SecretBytes
from keys.suite import SEED_BYTES, Suite

KIND = "identity"
DEFAULT_LOG2_N = 16
"""64 MiB and about 0.35 s on a 2 GHz core."""
MIN_LOG2_N = 10
MAX_LOG2_N = 18
MAX_PASSPHRASE_BYTES = 1024
SALT_BYTES = 16
_FIELDS = ("name", "suite", "id", "kdf", "salt", "nonce", "sealed")
_KDF = re.compile(r"scrypt log2n=([1-9][0-9]{0,8}) r=8 p=1")


@final
@dataclass(frozen=True, slots=True)
class LockedIdentity:
    """An identity file as parsed: everything but the key, which takes `open`."""

    name: str
    suite: Suite
    recipient_id: bytes
    log2_n: int
    salt: bytes = field(repr=False)
    nonce: bytes = field(repr=False)
    sealed: bytes = field(repr=False)

    @classmethod
    def seal(
        cls, identity: Identity, passphrase: str | SecretBytes, *, log2_n: int = DEFAULT_LOG2_N
    ) -> LockedIdentity:
        """Encrypt ``identity``; scrypt costs 2^log2_n KiB of memory.

        Raises:
            UsageError: the passphrase is empty or longer than 1024 bytes, or ``log2_n`` is not from 10 to 18.
        """
        secret = passphrase_bytes(passphrase)
        del passphrase  # so that no traceback below shows it
        if not MIN_LOG2_N <= log2_n <= MAX_LOG2_N:
            message = f"scrypt log2n: expected {MIN_LOG2_N} to {MAX_LOG2_N}, got {log2_n}"
            raise UsageError(message)
        recipient = identity.recipient
        salt, nonce = secrets.token_bytes(SALT_BYTES), secrets.token_bytes(NONCE_BYTES)
        head = cls(recipient.name, recipient.suite, recipient.recipient_id, log2_n, salt, nonce, b"")
        seed = identity.seed.expose(RevealToken("identity file plaintext"))
        sealed = passphrase_cipher(secret, salt, log2_n).encrypt(nonce, seed, head._aad())
        return cls(recipient.name, recipient.suite, recipient.recipient_id, log2_n, salt, nonce, sealed)

    def open(self, passphrase: str | SecretBytes) -> Identity:
        """Decrypt the identity.

        Raises:
            WrongPassphrase: it does not open: another passphrase, or the file was changed.
            Malformed: it opens, and holds another key than it says.
            UsageError: the passphrase is empty or longer than 1024 bytes.
        """
        secret = passphrase_bytes(passphrase)
        del passphrase
        aead = passphrase_cipher(secret, self.salt, self.log2_n)
        try:
            seed = SecretBytes(aead.decrypt(self.nonce, self.sealed, self._aad()))
        except InvalidTag:
            message = f"identity {self.name}: wrong passphrase, or the file was changed"
            raise WrongPassphrase(message) from None
        identity = Identity(self.name, self.suite, seed)
        if identity.recipient.recipient_id != self.recipient_id:
            message = f"identity {self.name}: the key in the file is not the one that its id names"
            raise Malformed(message)
        return identity

    @classmethod
    def parse(cls, data: bytes, *, where: str = "identity file") -> LockedIdentity:
        """Read a file's bytes.

        Raises:
            FormatError: `textfile.parse` says which; LimitExceeded also for a scrypt cost out of bounds.
        """
        fields = textfile.parse(data, KIND, _FIELDS, where=where)

        def binary(name: str, length: int) -> bytes:
            return textfile.parse_bytes(fields[name], length, field=name, where=where)

        return cls(
            name=textfile.parse_name(fields["name"], where=where),
            suite=textfile.parse_suite(fields["suite"], where=where),
            recipient_id=parse_id(fields["id"], where),
            log2_n=parse_log2_n(fields["kdf"], where),
            salt=binary("salt", SALT_BYTES),
            nonce=binary("nonce", NONCE_BYTES),
            sealed=binary("sealed", SEED_BYTES + TAG_BYTES),
        )

    def __bytes__(self) -> bytes:
        sealed = ("sealed", textfile.render_bytes(self.sealed))
        return textfile.render(KIND, [*self._head(), sealed])

    def _head(self) -> list[tuple[str, str]]:
        return [
            ("name", self.name),
            ("suite", self.suite.label),
            ("id", self.recipient_id.hex()),
            ("kdf", f"scrypt log2n={self.log2_n} r=8 p=1"),
            ("salt", textfile.render_bytes(self.salt)),
            ("nonce", textfile.render_bytes(self.nonce)),
        ]

    def _aad(self) -> bytes:
        return Label.IDENTITY_FILE.value + textfile.render(KIND, self._head())


def passphrase_bytes(passphrase: str | SecretBytes) -> SecretBytes:
    """Normalise a passphrase, so that the same letters typed on another system give the same bytes.

    Takes any text, lone surrogates (undecodable bytes of the environment) too: an error raised here would
    leave the text in the frames of its traceback. Length is checked where it is used.
    """
    if isinstance(passphrase, SecretBytes):
        return passphrase
    return SecretBytes(unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass"))


def passphrase_cipher(passphrase: SecretBytes, salt: bytes, log2_n: int) -> AESGCM:
    """Return the cipher of a private file.

    Raises:
        UsageError: the passphrase is empty or longer than 1024 bytes.
    """
    if not 1 <= len(passphrase) <= MAX_PASSPHRASE_BYTES:
        message = f"passphrase: expected 1 to {MAX_PASSPHRASE_BYTES} bytes, got {len(passphrase)}"
        raise UsageError(message)
    kdf = Scrypt(salt=salt, length=KEY_BYTES, n=1 << log2_n, r=8, p=1)
    key = SecretBytes(kdf.derive(passphrase.expose(RevealToken("scrypt input"))))
    return AESGCM(key.expose(RevealToken("AES-256-GCM key")))


def parse_log2_n(value: str, where: str) -> int:
    """Read a field ``kdf``.

    Raises:
        FormatError: another function, or a cost out of bounds.
    """
    match = _KDF.fullmatch(value)
    if match is None:
        message = f"{where}: field kdf: expected 'scrypt log2n=N r=8 p=1'"
        raise Malformed(message)
    log2_n = int(match[1])
    if not MIN_LOG2_N <= log2_n <= MAX_LOG2_N:
        message = f"{where}: scrypt log2n of {log2_n}, limits are {MIN_LOG2_N} to {MAX_LOG2_N}"
        raise LimitExceeded(message)
    return log2_n


def parse_id(value: str, where: str) -> bytes:
    """Read a field ``id``.

    Raises:
        Malformed: it is no id.
    """
    if re.fullmatch(r"[0-9a-f]{32}", value) is None:
        message = f"{where}: field id: expected {2 * ID_BYTES} lower-case hex digits"
        raise Malformed(message)
    return bytes.fromhex(value)
