"""Reading the fields of canonical JSON documents: typed, bounded, with errors that name the field."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from base.canonical import JsonObject, JsonValue, parse_canonical
from base.errors import LimitExceeded, Malformed, UnknownVersion

_UNSAFE = frozenset({"Cc", "Cs", "Zl", "Zp"})
_DIRECTION = frozenset(map(chr, (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))))
_HEX = re.compile(r"(?:[0-9a-f]{2})*")


@dataclass(frozen=True, slots=True)
class Fields:
    """One object of a document and its name for messages."""

    values: Mapping[str, JsonValue]
    where: str

    @classmethod
    def of(cls, value: JsonValue, where: str, names: frozenset[str]) -> Fields:
        """Take ``value``, which must be an object with exactly the fields ``names``.

        Raises:
            Malformed: it is not.
        """
        if not isinstance(value, Mapping):
            message = f"{where}: expected an object"
            raise Malformed(message)
        if value.keys() != names:
            odd = sorted(value.keys() ^ names)[0]
            message = f"{where}: field {odd!r:.60} is missing or unknown"
            raise Malformed(message)
        return cls(value, where)

    def integer(self, name: str, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``.

        Raises:
            Malformed: it is something else.
        """
        value = self.values[name]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            message = f"{self.where}: field {name}: expected an integer from {low} to {high}"
            raise Malformed(message)
        return value

    def text(self, name: str, max_chars: int) -> str:
        """Return a text of at most ``max_chars`` characters without control characters.

        Raises:
            Malformed: it is something else.
            LimitExceeded: it is longer.
        """
        value = self.values[name]
        if not isinstance(value, str) or not is_plain_text(value):
            message = f"{self.where}: field {name}: expected a text without control characters"
            raise Malformed(message)
        if len(value) > max_chars:
            message = f"{self.where}: field {name}: {len(value)} characters, limit is {max_chars}"
            raise LimitExceeded(message)
        return value

    def octets(self, name: str, num_bytes: int) -> bytes:
        """Return ``num_bytes`` bytes from lower-case hexadecimal.

        Raises:
            Malformed: it is something else.
        """
        value = self.values[name]
        if not isinstance(value, str) or len(value) != 2 * num_bytes or _HEX.fullmatch(value) is None:
            message = f"{self.where}: field {name}: expected {num_bytes} bytes in hexadecimal"
            raise Malformed(message)
        return bytes.fromhex(value)

    def items(self, name: str, low: int, high: int) -> Sequence[JsonValue]:
        """Return a list of ``low`` to ``high`` items.

        Raises:
            Malformed: it is something else.
        """
        value = self.values[name]
        if isinstance(value, str) or not isinstance(value, Sequence) or not low <= len(value) <= high:
            message = f"{self.where}: field {name}: expected a list of {low} to {high}"
            raise Malformed(message)
        return value

    def part(self, name: str, names: frozenset[str]) -> Fields:
        """Return an object with exactly the fields ``names``; raises as `of`."""
        return Fields.of(self.values[name], f"{self.where}: {name}", names)


def parse_document(data: bytes, kind: str, names: frozenset[str], *, max_bytes: int, where: str) -> Fields:
    """Read a document that states its type (``type``) and version (``v``: 1) beside the fields ``names``.

    Raises:
        LimitExceeded: longer than ``max_bytes``.
        UnknownVersion: of another version.
        Malformed: of another type, or not of that form.
    """
    if len(data) > max_bytes:
        message = f"{where}: {len(data)} bytes, limit is {max_bytes}"
        raise LimitExceeded(message)
    value = parse_canonical(data)
    if not isinstance(value, dict) or value.get("type") != kind:
        message = f"{where}: expected a {kind}"
        raise Malformed(message)
    document = cast("JsonObject", value)
    if document.get("v") != 1 or isinstance(document.get("v"), bool):
        message = f"{where}: version {document.get('v')!r:.20}, this release knows 1"
        raise UnknownVersion(message)
    return Fields.of(document, where, names | {"type", "v"})


def is_plain_text(text: str) -> bool:
    """Whether ``text`` is safe on a terminal: no control characters, no marks that turn the direction."""
    return not any(unicodedata.category(char) in _UNSAFE or char in _DIRECTION for char in text)
