"""NAME.HOLDER.share: one person's part of a recipient's private key, under his own passphrase.

    veilcam-share v1
    name: custody
    suite: mlkem768x25519
    id: 32 hex digits                     of the recipient
    set: 32 hex digits                    random; the same in all shares of one split
    threshold: 2
    shares: 3
    index: 0
    holder: dora
    commitments: base64 of 32 bytes per share
    kdf: scrypt log2n=16 r=8 p=1
    salt: base64 of 16 bytes
    nonce: base64 of 12 bytes
    sealed: base64 of 50 bytes

The plaintext of ``sealed`` is the SLIP-0039 identifier (u16) and the share's value (32 bytes); it is
encrypted as in an identity file, with all lines before it as AAD. Commitment i is SHA-256 over
`Label.SHARE_COMMITMENT`, set, i (u8) and the plaintext of share i. Since a value is uniform, a commitment
tells nothing of it; and since every holder's file authenticates all commitments, a wrong share is found, and
named, before anything is joined.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from cryptography.exceptions import InvalidTag

from base.errors import AuthenticationFailed, LimitExceeded, Malformed, UsageError, WrongPassphrase
from keys import identity_file, slip39, textfile
from keys.identity_file import DEFAULT_LOG2_N, passphrase_bytes
from keys.labels import Label
from keys.names import checked_name
from keys.recipient import Identity
from keys.schedule import ID_BYTES, NONCE_BYTES, TAG_BYTES
from keys.secret import RevealToken, SecretBytes, Unshareable
from keys.slip39 import MAX_IDENTIFIER, MAX_SHARES, MIN_THRESHOLD, VALUE_BYTES, ShareValue
from keys.suite import Suite

KIND = "share"
COMMITMENT_BYTES = 32
PLAINTEXT_BYTES = 2 + VALUE_BYTES
_HEAD = ("name", "suite", "id", "set", "threshold", "shares")
_FIELDS = (*_HEAD, "index", "holder", "commitments", "kdf", "salt", "nonce", "sealed")


@final
@dataclass(frozen=True, slots=True)
class ShareSet:
    """What is public about one split, and the same in all its shares.

    Attributes:
        name: of the recipient.
        recipient_id: 16 bytes.
        set_id: 16 random bytes.
        commitments: 32 bytes per share; see above.
    """

    name: str
    suite: Suite
    recipient_id: bytes
    set_id: bytes
    threshold: int
    commitments: tuple[bytes, ...] = field(repr=False)

    def __post_init__(self) -> None:
        if not MIN_THRESHOLD <= self.threshold <= len(self.commitments) <= MAX_SHARES:
            message = f"share set: threshold {self.threshold} of {len(self.commitments)} shares"
            raise Malformed(message)

    def commitment(self, share: ShareValue) -> bytes:
        """Return what ``commitments`` must hold at the share's index."""
        plain = share_plaintext(share).expose(RevealToken("share commitment"))
        digest = hashlib.sha256(Label.SHARE_COMMITMENT.value + self.set_id + bytes([share.index]))
        digest.update(plain)
        return digest.digest()

    def check(self, share: ShareValue, holder: str) -> None:
        """Return if ``share`` is the one that was dealt at its index.

        Raises:
            AuthenticationFailed: it is not.
        """
        fits = share.index < len(self.commitments) and share.threshold == self.threshold
        if not fits or self.commitments[share.index] != self.commitment(share):
            message = f"share of {holder}: not the one that was dealt"
            raise AuthenticationFailed(message)


@final
@dataclass(frozen=True, slots=True)
class OpenShare(Unshareable):
    """A share that its holder has unlocked."""

    share_set: ShareSet
    holder: str
    value: ShareValue

    __repr__ = Unshareable.__repr__


@final
@dataclass(frozen=True, slots=True)
class LockedShare:
    """A share file as parsed: everything but the share, which takes `open`."""

    share_set: ShareSet
    index: int
    holder: str
    log2_n: int
    salt: bytes = field(repr=False)
    nonce: bytes = field(repr=False)
    sealed: bytes = field(repr=False)

    @classmethod
    def seal(
        cls, share: OpenShare, passphrase: str | SecretBytes, *, log2_n: int = DEFAULT_LOG2_N
    ) -> LockedShare:
        """Encrypt a share under its holder's passphrase.

        Raises:
            UsageError: the passphrase is empty or longer than 1024 bytes.
        """
        secret = passphrase_bytes(passphrase)
        del passphrase  # so that no traceback below shows it
        salt, nonce = secrets.token_bytes(identity_file.SALT_BYTES), secrets.token_bytes(NONCE_BYTES)
        head = cls(share.share_set, share.value.index, checked_name(share.holder), log2_n, salt, nonce, b"")
        plain = share_plaintext(share.value).expose(RevealToken("share file plaintext"))
        sealed = identity_file.passphrase_cipher(secret, salt, log2_n).encrypt(nonce, plain, head._aad())
        return cls(share.share_set, share.value.index, share.holder, log2_n, salt, nonce, sealed)

    def open(self, passphrase: str | SecretBytes) -> OpenShare:
        """Decrypt the share and check it against what was dealt.

        Raises:
            WrongPassphrase: it does not open: another passphrase, or the file was changed.
            AuthenticationFailed: it is not the share that was dealt.
        """
        secret = passphrase_bytes(passphrase)
        del passphrase
        aead = identity_file.passphrase_cipher(secret, self.salt, self.log2_n)
        try:
            plain = SecretBytes(aead.decrypt(self.nonce, self.sealed, self._aad()))
        except InvalidTag:
            message = f"share of {self.holder}: wrong passphrase, or the file was changed"
            raise WrongPassphrase(message) from None
        return open_share(self.share_set, self.index, self.holder, plain)

    @classmethod
    def parse(cls, data: bytes, *, where: str = "share file") -> LockedShare:
        """Read a file's bytes.

        Raises:
            FormatError: `textfile.parse` says which.
        """
        fields = textfile.parse(data, KIND, _FIELDS, where=where)

        def binary(name: str, length: int) -> bytes:
            return textfile.parse_bytes(fields[name], length, field=name, where=where)

        count = _number(fields, "shares", MIN_THRESHOLD, MAX_SHARES, where)
        commitments = binary("commitments", COMMITMENT_BYTES * count)
        share_set = ShareSet(
            name=textfile.parse_name(fields["name"], where=where),
            suite=textfile.parse_suite(fields["suite"], where=where),
            recipient_id=identity_file.parse_id(fields["id"], where),
            set_id=identity_file.parse_id(fields["set"], where),
            threshold=_number(fields, "threshold", MIN_THRESHOLD, count, where),
            commitments=tuple(commitments[i * 32 : i * 32 + 32] for i in range(count)),
        )
        return cls(
            share_set,
            index=_number(fields, "index", 0, count - 1, where),
            holder=textfile.parse_name(fields["holder"], where=where),
            log2_n=identity_file.parse_log2_n(fields["kdf"], where),
            salt=binary("salt", identity_file.SALT_BYTES),
            nonce=binary("nonce", NONCE_BYTES),
            sealed=binary("sealed", PLAINTEXT_BYTES + TAG_BYTES),
        )

    def __bytes__(self) -> bytes:
        return textfile.render(KIND, [*self._head(), ("sealed", textfile.render_bytes(self.sealed))])

    def _head(self) -> list[tuple[str, str]]:
        dealt = self.share_set
        return [
            ("name", dealt.name),
            ("suite", dealt.suite.label),
            ("id", dealt.recipient_id.hex()),
            ("set", dealt.set_id.hex()),
            ("threshold", str(dealt.threshold)),
            ("shares", str(len(dealt.commitments))),
            ("index", str(self.index)),
            ("holder", self.holder),
            ("commitments", textfile.render_bytes(b"".join(dealt.commitments))),
            ("kdf", f"scrypt log2n={self.log2_n} r=8 p=1"),
            ("salt", textfile.render_bytes(self.salt)),
            ("nonce", textfile.render_bytes(self.nonce)),
        ]

    def _aad(self) -> bytes:
        return Label.SHARE_FILE.value + textfile.render(KIND, self._head())


def split_identity(identity: Identity, threshold: int, holders: Sequence[str]) -> tuple[OpenShare, ...]:
    """Deal ``identity`` to ``holders``; any ``threshold`` of them can open together.

    Raises:
        UsageError: not 2 <= threshold <= holders <= 16, or a holder named twice.
        MissingDependency: the extra ``custody`` is not installed.
    """
    if len(set(holders)) != len(holders):
        message = "holders: each needs a name of his own"
        raise UsageError(message)
    values = slip39.split(identity.seed, threshold, len(holders))
    recipient = identity.recipient
    blank = ShareSet(
        recipient.name,
        recipient.suite,
        recipient.recipient_id,
        secrets.token_bytes(ID_BYTES),
        threshold,
        tuple(bytes(COMMITMENT_BYTES) for _ in holders),
    )
    commitments = tuple(blank.commitment(value) for value in values)
    dealt = ShareSet(blank.name, blank.suite, blank.recipient_id, blank.set_id, blank.threshold, commitments)
    return tuple(
        OpenShare(dealt, checked_name(holder), value) for holder, value in zip(holders, values, strict=True)
    )


def join_identity(shares: Sequence[OpenShare]) -> Identity:
    """Put a private key together, in memory, from enough shares of one set.

    Raises:
        UsageError: too few shares, or of different sets.
        AuthenticationFailed: what they join to is not the key that they are of.
        MissingDependency: the extra ``custody`` is not installed.
    """
    if not shares:
        message = "shares: none was given"
        raise UsageError(message)
    dealt = shares[0].share_set
    stranger = next((share for share in shares if share.share_set != dealt), None)
    if stranger is not None:
        message = f"share of {stranger.holder}: of another set than that of {shares[0].holder}"
        raise UsageError(message)
    for share in shares:
        dealt.check(share.value, share.holder)
    identity = Identity(dealt.name, dealt.suite, slip39.join([share.value for share in shares]))
    if identity.recipient.recipient_id != dealt.recipient_id:
        message = f"shares of {dealt.name}: they join to another key"
        raise AuthenticationFailed(message)
    return identity


def share_plaintext(share: ShareValue) -> SecretBytes:
    """Identifier (u16) and value (32 bytes)."""
    value = share.value.expose(RevealToken("share plaintext"))
    return SecretBytes(share.identifier.to_bytes(2, "big") + bytes(value))


def open_share(dealt: ShareSet, index: int, holder: str, plain: SecretBytes) -> OpenShare:
    """Make a share of its plaintext and check it against what was dealt.

    Raises:
        AuthenticationFailed: it is not the share that was dealt.
    """
    view = plain.expose(RevealToken("share plaintext"))
    identifier = int.from_bytes(view[:2], "big")
    if len(view) != PLAINTEXT_BYTES or identifier > MAX_IDENTIFIER:
        message = f"share of {holder}: not the one that was dealt"
        raise AuthenticationFailed(message)
    share = ShareValue(identifier, index, dealt.threshold, SecretBytes(view[2:]))
    dealt.check(share, holder)
    return OpenShare(dealt, holder, share)


def _number(fields: dict[str, str], name: str, low: int, high: int, where: str) -> int:
    if re.fullmatch(r"0|[1-9][0-9]{0,2}", fields[name]) is None:
        message = f"{where}: field {name}: expected a number"
        raise Malformed(message)
    if not low <= int(fields[name]) <= high:
        message = f"{where}: field {name}: {fields[name]}, limits are {low} to {high}"
        raise LimitExceeded(message)
    return int(fields[name])
