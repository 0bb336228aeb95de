"""The text form that all key files share: a first line with kind and version, then one field a line.

    veilcam-recipient v1
    name: alice
    ...

Strict on purpose, so that every key has exactly one spelling: ASCII, lines end in LF, fields in the order of
the format, one space after the colon, no empty values, no comments. Messages of errors name fields and
lengths, never values: the file at hand may be a private one.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

from base.errors import LimitExceeded, Malformed, Truncated, UnknownVersion
from keys.names import is_valid_name
from keys.suite import Suite

MAX_FILE_BYTES = 8192
_KINDS = (
    "recipient",
    "identity",
    "camera",
    "camera-public",
    "sealed-camera",
    "signer",
    "signer-public",
    "ledger-key",
    "share",
    "scoped-recipient",
)
_FIRST_LINE = re.compile(r"veilcam-([a-z-]{1,32}) v([0-9]{1,9})")


def render(kind: str, fields: Sequence[tuple[str, str]]) -> bytes:
    """Write the fields of a key file of ``kind``, version 1."""
    lines = [f"veilcam-{kind} v1", *(f"{name}: {value}" for name, value in fields)]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def parse(data: bytes, kind: str, names: Sequence[str], *, where: str) -> dict[str, str]:
    """Read the fields ``names``, in that order, of a key file of ``kind``; ``where`` is for messages.

    Raises:
        Truncated: the text ends before the last field, or without a line end.
        UnknownVersion: a version other than 1.
        LimitExceeded: more than 8192 bytes.
        Malformed: another kind of file, or not of the form above.
    """
    lines = _lines(data, where)
    kind_of(data, where=where, expected=kind)
    if len(lines) - 1 < len(names):
        message = f"{where}: expected {len(names)} fields, got {len(lines) - 1}"
        raise Truncated(message)
    if len(lines) - 1 > len(names):
        message = f"{where}: expected {len(names)} fields, got {len(lines) - 1}"
        raise Malformed(message)
    return dict(_field(line, name, where) for line, name in zip(lines[1:], names, strict=True))


def kind_of(data: bytes, *, where: str, expected: str | None = None) -> str:
    """Return the kind that the first line of a key file states.

    Raises:
        Truncated, UnknownVersion, LimitExceeded, Malformed: as `parse`.
    """
    match = _FIRST_LINE.fullmatch(_lines(data, where)[0])
    if match is None or match[1] not in _KINDS or (expected is not None and match[1] != expected):
        wanted = f"veilcam {expected or 'key'} file"
        got = f"veilcam {match[1]} file" if match is not None and match[1] in _KINDS else "something else"
        message = f"{where}: expected a {wanted}, got {got}"
        raise Malformed(message)
    if match[2] != "1":
        message = f"{where}: expected version 1, got {match[2]}"
        raise UnknownVersion(message)
    return match[1]


def parse_bytes(value: str, length: int, *, field: str, where: str) -> bytes:
    """Decode a base64 field of exactly ``length`` bytes, in its one canonical spelling.

    Raises:
        Malformed: it is something else.
    """
    try:
        data = base64.b64decode(value, validate=True)
    except ValueError:  # binascii.Error is one
        data = b""
    if len(data) != length or render_bytes(data) != value:
        message = f"{where}: field {field}: expected base64 of {length} bytes"
        raise Malformed(message)
    return data


def render_bytes(data: bytes | memoryview) -> str:
    """Encode a base64 field."""
    return base64.b64encode(data).decode("ascii")


def parse_name(value: str, *, where: str) -> str:
    """Check the name of a key.

    Raises:
        Malformed: it is not one.
    """
    if not is_valid_name(value):
        message = f"{where}: field name: not the name of a key"
        raise Malformed(message)
    return value


def parse_suite(value: str, *, where: str) -> Suite:
    """Look up a suite.

    Raises:
        UnknownVersion: this release does not know it.
    """
    suite = Suite.from_label(value)
    if suite is None:
        known = ", ".join(each.label for each in Suite)
        message = f"{where}: field suite: expected one of {known}"
        raise UnknownVersion(message)
    return suite


def check_id(value: str, key_id: bytes, *, where: str) -> None:
    """Compare the id that a file states with the one of the key in it: a checksum against typing errors.

    Raises:
        Malformed: they differ.
    """
    if value != key_id.hex():
        message = f"{where}: field id: it is not the id of the key in the file"
        raise Malformed(message)


def _lines(data: bytes, where: str) -> list[str]:
    if len(data) > MAX_FILE_BYTES:
        message = f"{where}: longer than the limit of {MAX_FILE_BYTES} bytes"
        raise LimitExceeded(message)
    if not data.endswith(b"\n"):
        message = f"{where}: expected a line end at the end of the file"
        raise Truncated(message)
    # Printable ASCII alone: no tabs, no CR, no terminal escapes that a message could print.
    if any(byte != 0x0A and not 0x20 <= byte <= 0x7E for byte in data):
        message = f"{where}: expected printable ASCII and line feeds"
        raise Malformed(message)
    return data.decode("ascii")[:-1].split("\n")


def _field(line: str, name: str, where: str) -> tuple[str, str]:
    prefix = f"{name}: "
    value = line.removeprefix(prefix)
    if not line.startswith(prefix) or not value or value != value.strip():
        message = f"{where}: expected a line with the field {name}"
        raise Malformed(message)
    return name, value
