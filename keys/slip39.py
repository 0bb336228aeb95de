"""Splitting 32 bytes so that any k of n people can join them: SLIP-0039, by its reference library.

One group; the split secret is under an empty passphrase with the least iterations, since it is a random key
(extra ``custody``). The library states that it is not hardened against side channels: join on a machine that
runs nothing of strangers. Its digest finds a wrong share with 32 bits of certainty; `keys.shares` checks
every share by itself before, with 256.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import NoReturn, final

from base.errors import AuthenticationFailed, Malformed, MissingDependency, UsageError
from keys.secret import RevealToken, SecretBytes, Unshareable
from keys.suite import SEED_BYTES

MAX_SHARES = 16
MIN_THRESHOLD = 2
VALUE_BYTES = SEED_BYTES
MAX_IDENTIFIER = 2**15 - 1
MAX_WORDS_CHARACTERS = 400


@final
@dataclass(frozen=True, slots=True)
class ShareValue(Unshareable):
    """One person's share.

    Attributes:
        identifier: of the set, 15 bits, the same in all its shares.
        index: from 0.
        value: 32 bytes, uniform for whoever has fewer than ``threshold`` of them.
    """

    identifier: int
    index: int
    threshold: int
    value: SecretBytes = field(repr=False)

    __repr__ = Unshareable.__repr__

    def words(self) -> str:
        """Return the share as 33 words, for paper; any SLIP-0039 program reads them. Nothing clears them."""
        share = _library().Share(
            identifier=self.identifier,
            extendable=True,
            iteration_exponent=0,
            group_index=0,
            group_threshold=1,
            group_count=1,
            index=self.index,
            member_threshold=self.threshold,
            value=bytes(self.value.expose(RevealToken("SLIP-0039 share"))),
        )
        return str(share.mnemonic())


def split(seed: SecretBytes, threshold: int, count: int) -> tuple[ShareValue, ...]:
    """Split ``seed`` (32 bytes) into ``count`` shares, any ``threshold`` of which join to it.

    Raises:
        UsageError: not 2 <= threshold <= count <= 16.
        MissingDependency: the extra ``custody`` is not installed.
    """
    if not MIN_THRESHOLD <= threshold <= count <= MAX_SHARES:
        message = f"shares: expected 2 <= threshold <= shares <= {MAX_SHARES}, got {threshold} of {count}"
        raise UsageError(message)
    library = _library()
    identifier = secrets.randbits(15)
    encrypted = library.EncryptedMasterSecret.from_master_secret(
        bytes(seed.expose(RevealToken("SLIP-0039 split"))), b"", identifier, True, 0
    )
    shares = library.split_ems(1, [(threshold, count)], encrypted)[0]
    return tuple(ShareValue(identifier, s.index, threshold, SecretBytes(s.value)) for s in shares)


def join(shares: Sequence[ShareValue]) -> SecretBytes:
    """Join at least ``threshold`` shares of one set.

    Raises:
        UsageError: too few, or of different sets.
        AuthenticationFailed: they do not fit one another.
        MissingDependency: the extra ``custody`` is not installed.
    """
    distinct = {share.index: share for share in shares}
    if len({(share.identifier, share.threshold) for share in shares}) != 1:
        message = "shares: they are not of one set"
        raise UsageError(message)
    threshold = shares[0].threshold
    if len(distinct) < threshold:
        message = f"shares: {len(distinct)} of the {threshold} that are needed"
        raise UsageError(message)
    library = _library()
    words = [share.words() for share in list(distinct.values())[:threshold]]
    try:
        return SecretBytes(library.combine_mnemonics(words, b""))
    except library.MnemonicError:
        _do_not_fit()


def from_words(text: str) -> ShareValue:
    """Read a share from paper.

    Raises:
        Malformed: a word is wrong (the checksum finds up to three), or it is a share of another kind.
        MissingDependency: the extra ``custody`` is not installed.
    """
    library = _library()
    failure = "share: these are not the 33 words of a share"
    if len(text) > MAX_WORDS_CHARACTERS:
        raise Malformed(failure)
    try:
        share = library.Share.from_mnemonic(" ".join(text.lower().split()))
    except library.MnemonicError:
        raise Malformed(failure) from None  # not the library's message: it quotes words
    kind = (share.extendable, share.iteration_exponent, share.group_index, share.group_count)
    if kind != (True, 0, 0, 1) or len(share.value) != VALUE_BYTES or share.member_threshold < MIN_THRESHOLD:
        message = "share: a SLIP-0039 share, but not one of a veilcam key"
        raise Malformed(message)
    return ShareValue(share.identifier, share.index, share.member_threshold, SecretBytes(share.value))


def _do_not_fit() -> NoReturn:
    message = "shares: they do not fit one another"
    raise AuthenticationFailed(message) from None


def _library() -> ModuleType:
    try:
        import shamir_mnemonic  # noqa: PLC0415  # an extra
    except ImportError as error:
        message = "shares of a key need the extra custody: pip install 'veilcam[custody]'"
        raise MissingDependency(message) from error
    return shamir_mnemonic  # type: ignore[no-any-return,unused-ignore]  # untyped where it is installed
