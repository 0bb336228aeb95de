"""Reading JSON documents of strangers: bounded, and with messages that say which field is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from analytics.oip.messages import Limits
from analytics.oip.tensors import Parameter
from base.errors import LimitExceeded, Malformed

_INT64 = range(-(1 << 63), 1 << 64)


def parse_document(data: bytes | memoryview, limits: Limits) -> dict[str, Any]:
    """A JSON object in UTF-8.

    Raises:
        LimitExceeded: longer than ``limits.json_bytes``.
        Malformed: not JSON, or not an object.
    """
    if len(data) > limits.json_bytes:
        message = f"JSON: expected at most {limits.json_bytes} bytes, got {len(data)}; send tensors in binary"
        raise LimitExceeded(message)
    try:
        document = json.loads(str(data, "utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        message = f"JSON: {str(error)[:120]}"
        raise Malformed(message) from error
    if not isinstance(document, dict):
        message = f"JSON: expected an object, got {type(document).__name__}"
        raise Malformed(message)
    return document


def _refuse_constant(text: str) -> NoReturn:
    message = f"{text} is not JSON"
    raise ValueError(message)


def text_of(document: Mapping[str, Any], key: str, limits: Limits, default: str | None = None) -> str:
    """The string at ``key``.

    Raises:
        Malformed: there is none and no default, or it is no string.
        LimitExceeded: it is too long.
    """
    value = document.get(key, default)
    if not isinstance(value, str):
        message = f"{key}: expected a string, got {type(value).__name__}"
        raise Malformed(message)
    if len(value) > limits.text_chars:
        message = f"{key}: expected at most {limits.text_chars} characters, got {len(value)}"
        raise LimitExceeded(message)
    return value


def objects_of(document: Mapping[str, Any], key: str, max_items: int) -> list[dict[str, Any]]:
    """The list of objects at ``key``; empty if it is not there.

    Raises:
        Malformed: not a list of objects.
        LimitExceeded: it is too long.
    """
    value = document.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        message = f"{key}: expected a list of objects"
        raise Malformed(message)
    if len(value) > max_items:
        message = f"{key}: expected at most {max_items} items, got {len(value)}"
        raise LimitExceeded(message)
    return value


def shape_of(document: Mapping[str, Any]) -> tuple[int, ...]:
    """The ``shape`` of a tensor.

    Raises:
        Malformed: not a list of integers.
    """
    value = document.get("shape")
    if not isinstance(value, list) or not all(type(size) is int for size in value):
        message = "shape: expected a list of integers"
        raise Malformed(message)
    return tuple(value)


def parameters_of(document: Mapping[str, Any], limits: Limits, *, strict: bool) -> dict[str, Parameter]:
    """The ``parameters`` of a message or tensor.

    Args:
        document: that has them, or not.
        limits: how many, and how long.
        strict: refuse values that are no boolean, number or string; otherwise leave those out.

    Raises:
        Malformed: not an object, or with values that are not allowed.
        LimitExceeded: too many, or too long.
    """
    value = document.get("parameters")
    if value is None:
        return {}
    if not isinstance(value, dict):
        message = "parameters: expected an object"
        raise Malformed(message)
    if len(value) > limits.parameters:
        message = f"parameters: expected at most {limits.parameters}, got {len(value)}"
        raise LimitExceeded(message)
    found: dict[str, Parameter] = {}
    for key, item in value.items():
        if not _is_parameter(item):
            if strict:
                message = f"parameter {key[:40]!r}: expected a boolean, number or string"
                raise Malformed(message)
            continue
        if len(key) > limits.text_chars or (isinstance(item, str) and len(item) > limits.text_chars):
            message = f"parameter {key[:40]!r}: expected at most {limits.text_chars} characters"
            raise LimitExceeded(message)
        found[key] = item
    return found


def _is_parameter(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)  # 1e999 is JSON, and infinite
    return isinstance(value, bool | str) or (isinstance(value, int) and value in _INT64)
