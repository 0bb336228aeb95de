"""Elements of tensors that travel inside JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from analytics.oip.tensors import BYTES, MAX_DIMS, NUMPY_TYPES, Tensor, item_size
from base.errors import Malformed

_KINDS = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float)}


def raw_of(name: str, datatype: str, data: object) -> bytes:
    """What a tensor's ``data``, nested or flat, is in binary.

    Strings of BYTES are taken as UTF-8.

    Raises:
        Malformed: elements of another type, out of its range, or nested too deep.
    """
    elements = _flat(name, data)
    if datatype == BYTES:
        if not all(isinstance(element, str) for element in elements):
            message = f"{name}: expected strings"
            raise Malformed(message)
        try:
            return bytes(Tensor.of_strings(name, [element.encode() for element in elements]).raw)
        except UnicodeEncodeError as error:  # half of a surrogate pair, written as an escape
            message = f"{name}: expected strings that are Unicode"
            raise Malformed(message) from error
    item_size(name, datatype)
    dtype = NUMPY_TYPES[datatype]
    kinds = _KINDS[dtype.kind]
    if not all(type(element) in kinds for element in elements):
        message = f"{name}: expected elements of {datatype}"
        raise Malformed(message)
    try:
        with np.errstate(over="raise"):
            return np.array(elements, dtype).tobytes()
    except (OverflowError, FloatingPointError, ValueError) as error:
        message = f"{name}: an element is out of the range of {datatype}"
        raise Malformed(message) from error


def _flat(name: str, data: object) -> list[Any]:
    if not isinstance(data, list):
        message = f"{name}: expected data as a list"
        raise Malformed(message)
    level: list[Any] = data
    for _ in range(MAX_DIMS):
        if not any(isinstance(item, list) for item in level):
            return level
        if not all(isinstance(item, list) for item in level):
            message = f"{name}: expected data nested evenly"
            raise Malformed(message)
        level = [element for item in level for element in item]
    message = f"{name}: expected data nested at most {MAX_DIMS} deep"
    raise Malformed(message)


def data_of(tensor: Tensor) -> list[Any]:
    """The elements for JSON, flat.

    Raises:
        Malformed: numbers that JSON cannot hold (not finite), or bytes that are no text.
    """
    if tensor.datatype == BYTES:
        try:
            return [element.decode() for element in tensor.strings()]
        except UnicodeDecodeError as error:
            message = f"{tensor.name}: these bytes are no text; ask for them in binary"
            raise Malformed(message) from error
    array = tensor.array()
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        message = f"{tensor.name}: inf or nan are not JSON; ask for them in binary"
        raise Malformed(message)
    flat: list[Any] = array.ravel().tolist()
    return flat
