"""Where a private key lives, as one string: ``file:``, ``pkcs11:``, ``exec:``, ``shares:``, ``quorum:``.

A string without a scheme is a path. Percent-encoding as RFC 3986 has it; a URI never holds a passphrase or a
PIN, since it ends up in shell histories, process lists and configuration.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final
from urllib.parse import unquote_to_bytes

from base.errors import LimitExceeded, Malformed, UsageError

MAX_URI_CHARACTERS = 4096
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{1,15}):(.*)", re.DOTALL)
PERCENT = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*", re.DOTALL)


class Scheme(enum.Enum):
    """Kinds of key back ends."""

    FILE = "file"
    PKCS11 = "pkcs11"
    EXEC = "exec"
    SHARES = "shares"
    QUORUM = "quorum"


@final
@dataclass(frozen=True, slots=True)
class KeyUri:
    """A scheme and what follows its colon, still encoded."""

    scheme: Scheme
    rest: str

    @classmethod
    def parse(cls, text: str) -> KeyUri:
        """Read a URI, or a plain path.

        Raises:
            LimitExceeded: more than 4096 characters.
            Malformed: empty, or with control characters.
            UsageError: a scheme that there is not.
        """
        if len(text) > MAX_URI_CHARACTERS:
            message = f"key URI: {len(text)} characters, limit is {MAX_URI_CHARACTERS}"
            raise LimitExceeded(message)
        if not text or any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in text):
            message = "key URI: expected printable characters"
            raise Malformed(message)
        match = _SCHEME.fullmatch(text)
        if match is None:
            return cls(Scheme.FILE, text.replace("%", "%25"))
        known = {scheme.value: scheme for scheme in Scheme}
        if match[1] not in known:
            names = ", ".join(f"{name}:" for name in known)
            message = f"key URI: expected {names} or a path, got {match[1]}: (a file? file:...)"
            raise UsageError(message)
        if not match[2]:
            message = f"key URI: nothing behind {match[1]}:"
            raise Malformed(message)
        return cls(known[match[1]], match[2])

    def split_query(self) -> tuple[str, list[tuple[str, str]]]:
        """Return what stands before ``?``, still encoded, and the decoded pairs behind it.

        Raises:
            Malformed: bad percent-encoding, or a pair without ``=``.
        """
        path, _, query = self.rest.partition("?")
        return path, [_pair(part, self.scheme) for part in query.split("&")] if query else []


def decode(text: str, *, what: str) -> str:
    """Undo percent-encoding.

    Raises:
        Malformed: it is damaged, not UTF-8, or hides a control character.
    """
    if PERCENT.fullmatch(text) is None:
        message = f"{what}: damaged percent-encoding"
        raise Malformed(message)
    try:
        plain = unquote_to_bytes(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
    except UnicodeError:
        message = f"{what}: not UTF-8"
        raise Malformed(message) from None
    if any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in plain):
        message = f"{what}: control characters"
        raise Malformed(message)
    return plain


def only(pairs: Sequence[tuple[str, str]], *names: str, what: str) -> dict[str, str]:
    """Return the pairs as a mapping, each of ``names`` at most once.

    Raises:
        Malformed: a name twice, or one that is not among ``names``.
    """
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in names:
            message = f"{what}: unknown attribute {name!r:.40}, expected {', '.join(names)}"
            raise Malformed(message)
        if name in found:
            message = f"{what}: attribute {name} comes twice"
            raise Malformed(message)
        found[name] = value
    return found


def _pair(part: str, scheme: Scheme) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals or not name:
        message = f"{scheme.value}: URI: expected name=value behind the question mark"
        raise Malformed(message)
    return decode(name, what="key URI"), decode(value, what="key URI")
