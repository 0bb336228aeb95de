"""``pkcs11:`` URIs (RFC 7512): which token, which key in it, and the library that speaks to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final
from urllib.parse import unquote_to_bytes

from base.errors import Malformed, UsageError
from keys import uri

_PATH = ("token", "manufacturer", "serial", "model", "object", "id", "type", "slot-id")
_QUERY = ("module-path", "pin-source")


@final
@dataclass(frozen=True, slots=True)
class Pkcs11Uri:
    """A key in a token; what is None was not said.

    Attributes:
        object_id: CKA_ID.
        module: the library; None means VEILCAM_PKCS11_MODULE, then p11-kit's proxy.
        pin_source: a file whose first line is the PIN; None means ask.
    """

    token: str | None = None
    manufacturer: str | None = None
    serial: str | None = None
    model: str | None = None
    slot_id: int | None = None
    object_label: str | None = None
    object_id: bytes | None = None
    module: Path | None = None
    pin_source: Path | None = None

    @classmethod
    def parse(cls, text: str) -> Pkcs11Uri:
        """Read a URI.

        Raises:
            FormatError: damaged, too long, an attribute twice, or one that we do not know (RFC 7512, 2.3
                and 2.4, leave no choice: ignoring it could mean another key).
            UsageError: not a ``pkcs11:`` URI, ``pin-value`` (a PIN has no place where others can read it),
                no token or key named, or a path that is not absolute.
        """
        parsed = uri.KeyUri.parse(text)
        if parsed.scheme is not uri.Scheme.PKCS11:
            message = "pkcs11: URI: expected pkcs11:"
            raise UsageError(message)
        path, query = parsed.split_query()
        if any(name == "pin-value" for name, _ in query):
            message = "pkcs11: URI: pin-value is not taken (others could read it); use pin-source, or type it"
            raise UsageError(message)
        raw = uri.only([_attribute(part) for part in path.split(";") if part], *_PATH, what="pkcs11: URI")
        # CKA_ID is bytes; everything else is text.
        object_id = _id_bytes(raw.pop("id")) if "id" in raw else None
        told = {name: uri.decode(value, what="pkcs11: URI") for name, value in raw.items()}
        asked = uri.only(query, *_QUERY, what="pkcs11: URI")
        if told.get("type", "private") != "private":
            message = "pkcs11: URI: type: expected private"
            raise UsageError(message)
        if told.get("object") is None and object_id is None:
            message = "pkcs11: URI: expected object= or id= of the key"
            raise UsageError(message)
        return cls(
            token=told.get("token"),
            manufacturer=told.get("manufacturer"),
            serial=told.get("serial"),
            model=told.get("model"),
            slot_id=_slot_id(told.get("slot-id")),
            object_label=told.get("object"),
            object_id=object_id,
            module=_absolute(asked.get("module-path"), "module-path"),
            pin_source=_absolute((asked.get("pin-source") or "").removeprefix("file:") or None, "pin-source"),
        )


def _attribute(part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals or not value:
        message = "pkcs11: URI: expected name=value between semicolons"
        raise Malformed(message)
    return name, value


def _id_bytes(value: str) -> bytes:
    uri.decode(value.replace("%", "%25"), what="pkcs11: URI")  # printable outside the encoding
    if uri.PERCENT.fullmatch(value) is None:
        message = "pkcs11: URI: id: damaged percent-encoding"
        raise Malformed(message)
    return unquote_to_bytes(value)


def _slot_id(value: str | None) -> int | None:
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > 20:
        message = "pkcs11: URI: slot-id: expected a decimal number"
        raise Malformed(message)
    return int(value)


def _absolute(value: str | None, name: str) -> Path | None:
    if value is None:
        return None
    if not Path(value).is_absolute():
        message = f"pkcs11: URI: {name}: expected an absolute path"
        raise UsageError(message)
    return Path(value)
