"""Tensors: a name, a type, a shape, and the elements as the protocol puts them on the wire."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from base.errors import LimitExceeded, Malformed, Truncated

Parameter = bool | int | float | str
"""The value of a parameter: what the gRPC form can hold."""

NUMPY_TYPES: Mapping[str, np.dtype[np.generic]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
"""Every type of fixed size but BF16, which numpy does not have."""

BYTES = "BYTES"
MAX_DIMS = 8
MAX_DIM = 1 << 31
MAX_ELEMENTS = 1 << 40
"""Without the zeros among its sizes: numpy refuses larger shapes even where they hold nothing."""
MAX_NAME_CHARS = 256
MAX_STRINGS = 4096
"""Elements of a BYTES tensor."""
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor as it travels.

    Attributes:
        name: as the model calls it.
        datatype: a key of NUMPY_TYPES, or BYTES.
        shape: sizes, outermost first.
        raw: elements in row-major order, little-endian; a BYTES element is its length (uint32) and itself.
        parameters: of this tensor.

    Raises:
        Malformed: an unknown type, a bad name or shape, or ``raw`` of another size than these ask for.
        LimitExceeded: more dimensions or elements than allowed.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    raw: bytes | memoryview
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name(self.name, "tensor")
        num_elements = check_shape(self.name, self.shape)
        if self.datatype == BYTES:
            if num_elements > MAX_STRINGS:
                message = f"{self.name}: expected at most {MAX_STRINGS} BYTES elements, got {num_elements}"
                raise LimitExceeded(message)
            return  # the lengths inside are checked when they are read
        expected = num_elements * item_size(self.name, self.datatype)
        if len(self.raw) != expected:
            message = (
                f"{self.name}: expected {expected} bytes for {self.datatype} {list(self.shape)}, got"
                f" {len(self.raw)}"
            )
            raise Malformed(message)

    @classmethod
    def of_array(cls, name: str, array: npt.NDArray[np.generic]) -> Tensor:
        """A tensor of an array of any fixed-size type.

        Raises:
            Malformed: a type that the protocol does not have.
        """
        for datatype, dtype in NUMPY_TYPES.items():
            if array.dtype.newbyteorder("<") == dtype:
                return cls(name, datatype, array.shape, np.ascontiguousarray(array, dtype).tobytes())
        message = f"{name}: the protocol has no type for {array.dtype}"
        raise Malformed(message)

    @classmethod
    def of_strings(cls, name: str, elements: Iterable[bytes], shape: tuple[int, ...] | None = None) -> Tensor:
        """A BYTES tensor of ``elements``; of shape [n] unless told otherwise."""
        found = list(elements)
        raw = b"".join(_LENGTH.pack(len(element)) + element for element in found)
        return cls(name, BYTES, (len(found),) if shape is None else shape, raw)

    def array(self) -> npt.NDArray[np.generic]:
        """The elements, read-only, without a copy.

        Raises:
            Malformed: BYTES; see ``strings``.
        """
        dtype = NUMPY_TYPES.get(self.datatype)
        if dtype is None:
            message = f"{self.name}: expected numbers, got {self.datatype}"
            raise Malformed(message)
        array = np.frombuffer(self.raw, dtype).reshape(self.shape)
        array.flags.writeable = False
        return array

    def strings(self) -> tuple[bytes, ...]:
        """The elements of a BYTES tensor.

        Raises:
            Malformed: another type, or bytes behind the last element.
            Truncated: the bytes end inside an element.
        """
        if self.datatype != BYTES:
            message = f"{self.name}: expected BYTES, got {self.datatype}"
            raise Malformed(message)
        view = memoryview(self.raw)
        elements: list[bytes] = []
        at = 0
        for _ in range(math.prod(self.shape)):
            if at + _LENGTH.size > len(view):
                message = f"{self.name}: the bytes end before element {len(elements)}"
                raise Truncated(message)
            (length,) = _LENGTH.unpack_from(view, at)
            at += _LENGTH.size
            if at + length > len(view):
                message = (
                    f"{self.name}: element {len(elements)} has {length} bytes, {len(view) - at} are left"
                )
                raise Truncated(message)
            elements.append(bytes(view[at : at + length]))
            at += length
        if at != len(view):
            message = f"{self.name}: {len(view) - at} bytes behind the last element"
            raise Malformed(message)
        return tuple(elements)


def item_size(name: str, datatype: str) -> int:
    """Bytes of one element.

    Raises:
        Malformed: a type that is not known, or of no fixed size.
    """
    dtype = NUMPY_TYPES.get(datatype)
    if dtype is None:
        message = f"{name}: expected a type of {', '.join(NUMPY_TYPES)} or BYTES, got {datatype[:40]!r}"
        raise Malformed(message)
    return dtype.itemsize


def check_name(name: str, what: str) -> None:
    """Refuse names that no model has.

    Raises:
        Malformed: empty, too long, or with characters that are not printable.
    """
    if not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable():
        message = f"{what} name: expected 1 to {MAX_NAME_CHARS} printable characters, got {name[:40]!r}"
        raise Malformed(message)


def check_shape(name: str, shape: tuple[int, ...]) -> int:
    """The number of elements.

    Raises:
        LimitExceeded: too many dimensions, or some that are too large, alone or together.
        Malformed: a negative dimension.
    """
    if len(shape) > MAX_DIMS:
        message = f"{name}: expected at most {MAX_DIMS} dimensions, got {len(shape)}"
        raise LimitExceeded(message)
    for size in shape:
        if size < 0:
            message = f"{name}: expected dimensions of at least 0, got {size}"
            raise Malformed(message)
        if size > MAX_DIM:
            message = f"{name}: expected dimensions of at most {MAX_DIM}, got {size}"
            raise LimitExceeded(message)
    if math.prod(size or 1 for size in shape) > MAX_ELEMENTS:
        message = f"{name}: expected a shape of at most {MAX_ELEMENTS} elements, got {list(shape)}"
        raise LimitExceeded(message)
    return math.prod(shape)
