"""What a segment's header says about the pixel path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from base.errors import UnknownVersion, UsageError
from codec.reader import Reader, Tlv

PIXELS_RECORD = 0x03
"""HEADER extension, optional: a reader without it still verifies and opens the sealed layer."""

MODEL_ID_BYTES = 8
SETTINGS = {1: "low", 2: "high"}


@dataclass(frozen=True, slots=True)
class PixelsRecord:
    """The original is also hidden in the pixels.

    Attributes:
        setting: ``low`` or ``high``.
        model_id: first 8 bytes of the networks' SHA-256; only the same networks restore.
    """

    setting: str
    model_id: bytes

    def __post_init__(self) -> None:
        if self.setting not in SETTINGS.values() or len(self.model_id) != MODEL_ID_BYTES:
            raise UsageError(
                f"pixels: expected a setting of {', '.join(SETTINGS.values())} and {MODEL_ID_BYTES} bytes, "
                f"got {self.setting!r} and {len(self.model_id)}"
            )

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Read the body of a PIXELS record: setting (u8), model id (8 bytes).

        Raises:
            UnknownVersion: another setting.
            FormatError: it has another length.
        """
        reader = Reader(body, "PIXELS record")
        number = reader.unsigned(1, "setting")
        model_id = reader.take(MODEL_ID_BYTES, "model id")
        reader.end()
        if number not in SETTINGS:
            raise UnknownVersion(f"PIXELS record: setting is {number}, this release knows 1 and 2")
        return cls(SETTINGS[number], model_id)

    def __bytes__(self) -> bytes:
        (number,) = (key for key, name in SETTINGS.items() if name == self.setting)
        return bytes([number]) + self.model_id

    def record(self) -> Tlv:
        """The extension as it stands in the header."""
        return Tlv(PIXELS_RECORD, bytes(self))
