"""Canonical JSON: one value, one spelling, so that it can be hashed and signed.

The subset of RFC 8785 (JSON Canonicalization Scheme) that our records need: objects,
arrays, strings, integers that a double holds exactly, booleans and null. Fractions are
not in the subset: times are integers of microseconds or ISO 8601 strings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias

from base.errors import Malformed, UsageError

JsonValue: TypeAlias = "bool | int | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
"""What a canonical document may hold."""

JsonObject: TypeAlias = "dict[str, JsonValue]"
"""A document, or one entry of a list in it."""

MAX_INTEGER = 2**53 - 1  # RFC 7493 section 2.2: the largest integer every JSON reader keeps exactly
_MAX_DEPTH = 16


def canonical_json(value: JsonValue) -> bytes:
    """Return the one canonical UTF-8 spelling of ``value``, without a newline at its end.

    Raises:
        UsageError: ``value`` holds something outside the subset, or nests deeper than 16.
    """
    ordered = _ordered(value, 0)
    text = json.dumps(ordered, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8")


def parse_canonical(data: bytes) -> JsonValue:
    """Read what `canonical_json` wrote and accept no other spelling of it.

    Raises:
        Malformed: not JSON, outside the subset, or not in canonical form.
    """
    try:
        value: JsonValue = json.loads(
            data.decode("utf-8"), parse_float=_refuse_number, parse_constant=_refuse_number
        )
        canonical = canonical_json(value)
    except (ValueError, RecursionError) as error:  # ValueError covers bad UTF-8, bad JSON and UsageError
        message = "not a canonical JSON document: another kind of file, or it was changed"
        raise Malformed(message) from error
    if canonical != data:
        message = "canonical JSON: valid, but not the canonical spelling"
        raise Malformed(message)
    return value


def _refuse_number(text: str) -> NoReturn:
    message = f"canonical JSON: {text[:40]} is not an integer"
    raise UsageError(message)


def _ordered(value: object, depth: int) -> object:
    """Copy ``value`` with every object's keys in the order of RFC 8785 section 3.2.3."""
    if depth > _MAX_DEPTH:
        message = f"canonical JSON: nested deeper than {_MAX_DEPTH}"
        raise UsageError(message)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _checked_integer(value)
    if isinstance(value, str):
        return _checked_text(value)
    if isinstance(value, Mapping):
        keys = sorted((_checked_text(key) for key in value), key=lambda key: key.encode("utf-16-be"))
        return {key: _ordered(value[key], depth + 1) for key in keys}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_ordered(item, depth + 1) for item in value]
    message = f"canonical JSON: {type(value).__name__} is not in the subset"
    raise UsageError(message)


def _checked_integer(value: int) -> int:
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        message = "canonical JSON: integer beyond 53 bits"
        raise UsageError(message)
    return value


def _checked_text(value: object) -> str:
    if not isinstance(value, str):
        message = f"canonical JSON: a key must be text, not {type(value).__name__}"
        raise UsageError(message)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        message = "canonical JSON: text holds half of a surrogate pair"
        raise UsageError(message) from error
    return value
