"""What a grant is asked for: one camera, times, perhaps regions, one investigator, a case, a reason, an end.

A request is one canonical JSON document (`base.canonical`), so that approvals sign its one spelling.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from base.canonical import MAX_INTEGER, JsonObject, JsonValue, canonical_json
from base.documents import Fields, is_plain_text, parse_document
from base.errors import Malformed, UnknownVersion, UsageError
from keys.names import is_valid_name
from keys.recipient import Recipient
from keys.schedule import ID_BYTES, checked_id
from keys.suite import Suite

REQUEST_TYPE = "veilcam grant request"
MAX_REQUEST_BYTES = 524_288
MAX_BOXES = 4096
MAX_PIXELS = 65_536
MAX_RANGES = 64
MAX_CASE_CHARS = 200
MAX_REASON_CHARS = 2000
MAX_USES = 1_000_000
_FIELDS = frozenset(
    {"id", "camera", "ranges", "regions", "investigator", "case", "reason", "expires_us", "uses", "made_us"}
)
_RECIPIENT_FIELDS = frozenset({"name", "suite", "id", "key"})


@final
@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Capture times from ``start_us`` on and before ``end_us``, Unix microseconds."""

    start_us: int
    end_us: int

    def holds(self, first_us: int, last_us: int) -> bool:
        """Whether pictures taken from ``first_us`` to ``last_us`` (both included) all lie inside."""
        return self.start_us <= first_us <= last_us < self.end_us


@final
@dataclass(frozen=True, slots=True)
class RegionBox:
    """A part of the picture, for a time: pixels of the protected picture; None leaves a side of time open."""

    x: int
    y: int
    width: int
    height: int
    start_us: int | None = None
    end_us: int | None = None

    def __post_init__(self) -> None:
        numbers = (self.x, self.y, self.width, self.height)
        is_empty = self.start_us is not None and self.end_us is not None and self.start_us >= self.end_us
        if min(numbers) < 0 or max(numbers) > MAX_PIXELS or not self.width or not self.height or is_empty:
            message = f"region: expected a box within {MAX_PIXELS} pixels, not empty, ending after it begins"
            raise UsageError(message)

    def is_in_force(self, time_us: int) -> bool:
        """Whether the box counts for a picture taken at ``time_us``."""
        return (self.start_us is None or self.start_us <= time_us) and (
            self.end_us is None or time_us < self.end_us
        )

    def as_json(self) -> list[JsonValue]:
        """Return it as a list."""
        return [self.x, self.y, self.width, self.height, self.start_us, self.end_us]


@final
@dataclass(frozen=True, slots=True)
class GrantRequest:
    """What somebody asks for. Nothing in it is secret; nothing in it opens anything.

    Attributes:
        request_id: 16 random bytes.
        camera_id: 16 bytes.
        ranges: 1 to 64, rising, apart from one another.
        regions: boxes; empty means the whole picture and the sound.
        investigator: whose identity will open the grant.
        expires_us: from then on the grant is refused; Unix microseconds.
        uses: how many openings it is good for; None sets no bound.
        made_us: when it was asked for.
    """

    request_id: bytes
    camera_id: bytes
    ranges: tuple[TimeSpan, ...]
    regions: tuple[RegionBox, ...]
    investigator: Recipient
    case: str
    reason: str
    expires_us: int
    uses: int | None
    made_us: int

    def __post_init__(self) -> None:
        checked_id("request id", self.request_id)
        checked_id("camera id", self.camera_id)
        _check_ranges(self.ranges)
        if len(self.regions) > MAX_BOXES:
            message = f"regions: {len(self.regions)} boxes, limit is {MAX_BOXES}"
            raise UsageError(message)
        for name, text, limit in (
            ("case", self.case, MAX_CASE_CHARS),
            ("reason", self.reason, MAX_REASON_CHARS),
        ):
            if not 1 <= len(text) <= limit or not is_plain_text(text):
                message = f"{name}: expected 1 to {limit} characters without control characters"
                raise UsageError(message)
        if self.uses is not None and not 1 <= self.uses <= MAX_USES:
            message = f"uses: expected 1 to {MAX_USES}, got {self.uses}"
            raise UsageError(message)
        if not 0 <= self.made_us < self.expires_us <= MAX_INTEGER:
            message = "expiry: expected a time after the request was made"
            raise UsageError(message)

    @staticmethod
    def new(
        camera_id: bytes,
        ranges: Sequence[TimeSpan],
        investigator: Recipient,
        *,
        case: str,
        reason: str,
        made_us: int,
        expires_us: int,
        uses: int | None = 1,
        regions: Sequence[RegionBox] = (),
    ) -> GrantRequest:
        """Make a request with a fresh id; ranges are put in order and joined where they touch.

        Raises:
            UsageError: something of it is not allowed.
        """
        return GrantRequest(
            request_id=secrets.token_bytes(ID_BYTES),
            camera_id=camera_id,
            ranges=joined(ranges),
            regions=tuple(regions),
            investigator=investigator,
            case=case,
            reason=reason,
            expires_us=expires_us,
            uses=uses,
            made_us=made_us,
        )

    def holds(self, first_us: int, last_us: int) -> bool:
        """Whether pictures taken from ``first_us`` to ``last_us`` all lie in one of the ranges."""
        return any(span.holds(first_us, last_us) for span in self.ranges)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical request: what approvals sign."""
        return hashlib.sha256(bytes(self)).digest()

    def as_json(self) -> JsonObject:
        """Return the document."""
        return {
            "type": REQUEST_TYPE,
            "v": 1,
            "id": self.request_id.hex(),
            "camera": self.camera_id.hex(),
            "ranges": [[span.start_us, span.end_us] for span in self.ranges],
            "regions": [box.as_json() for box in self.regions],
            "investigator": {
                "name": self.investigator.name,
                "suite": self.investigator.suite.label,
                "id": self.investigator.recipient_id.hex(),
                "key": base64.b64encode(self.investigator.public_key).decode("ascii"),
            },
            "case": self.case,
            "reason": self.reason,
            "expires_us": self.expires_us,
            "uses": self.uses,
            "made_us": self.made_us,
        }

    def __bytes__(self) -> bytes:
        return canonical_json(self.as_json())

    @classmethod
    def parse(cls, data: bytes, *, where: str = "grant request") -> GrantRequest:
        """Read a request; one newline may stand at its end.

        Raises:
            FormatError: it is not one, of another version, or above the limits.
        """
        document = data.removesuffix(b"\n")
        return cls.of(
            parse_document(document, REQUEST_TYPE, _FIELDS, max_bytes=MAX_REQUEST_BYTES, where=where)
        )

    @classmethod
    def of(cls, fields: Fields) -> GrantRequest:
        """Read the fields of a request.

        Raises:
            FormatError: it is not one.
        """
        try:
            return cls(
                request_id=fields.octets("id", ID_BYTES),
                camera_id=fields.octets("camera", ID_BYTES),
                ranges=tuple(_span(item, fields.where) for item in fields.items("ranges", 1, MAX_RANGES)),
                regions=tuple(_box(item, fields.where) for item in fields.items("regions", 0, MAX_BOXES)),
                investigator=_recipient(fields.part("investigator", _RECIPIENT_FIELDS)),
                case=fields.text("case", MAX_CASE_CHARS),
                reason=fields.text("reason", MAX_REASON_CHARS),
                expires_us=fields.integer("expires_us", 0, MAX_INTEGER),
                uses=None if fields.values["uses"] is None else fields.integer("uses", 1, MAX_USES),
                made_us=fields.integer("made_us", 0, MAX_INTEGER),
            )
        except UsageError as error:
            message = f"{fields.where}: {error}"
            raise Malformed(message) from error


def request_fields(value: JsonValue, where: str) -> GrantRequest:
    """Read a request that is a part of another document.

    Raises:
        FormatError: it is not one.
    """
    fields = Fields.of(value, where, _FIELDS | {"type", "v"})
    if fields.values["type"] != REQUEST_TYPE or fields.values["v"] != 1:
        message = f"{where}: expected a {REQUEST_TYPE}, version 1"
        raise UnknownVersion(message)
    return GrantRequest.of(fields)


def joined(ranges: Sequence[TimeSpan]) -> tuple[TimeSpan, ...]:
    """Return the ranges in order, those that touch as one."""
    result: list[TimeSpan] = []
    for span in sorted(ranges, key=lambda each: each.start_us):
        if result and span.start_us <= result[-1].end_us:
            result[-1] = TimeSpan(result[-1].start_us, max(result[-1].end_us, span.end_us))
        else:
            result.append(span)
    return tuple(result)


def _check_ranges(ranges: Sequence[TimeSpan]) -> None:
    if not 1 <= len(ranges) <= MAX_RANGES:
        message = f"time ranges: expected 1 to {MAX_RANGES}, got {len(ranges)}"
        raise UsageError(message)
    before = -MAX_INTEGER - 1
    for span in ranges:
        if not before < span.start_us < span.end_us <= MAX_INTEGER:
            message = "time ranges: expected each to end after it begins, in order and apart from one another"
            raise UsageError(message)
        before = span.end_us


def _span(value: JsonValue, where: str) -> TimeSpan:
    if not isinstance(value, list) or len(value) != 2 or any(type(each) is not int for each in value):
        message = f"{where}: field ranges: expected pairs of integers"
        raise Malformed(message)
    return TimeSpan(*value)


def _box(value: JsonValue, where: str) -> RegionBox:
    numbers = value if isinstance(value, list) and len(value) == 6 else [None]
    x, y, width, height, start_us, end_us = [*numbers, *[None] * 5][:6]
    if (
        type(x) is int
        and type(y) is int
        and type(width) is int
        and type(height) is int
        and (start_us is None or type(start_us) is int)
        and (end_us is None or type(end_us) is int)
    ):
        return RegionBox(x, y, width, height, start_us, end_us)
    message = f"{where}: field regions: expected x, y, width, height, and two times or null"
    raise Malformed(message)


def _recipient(fields: Fields) -> Recipient:
    name, label = fields.text("name", 64), fields.text("suite", 64)
    suite = Suite.from_label(label)
    if suite is None:
        message = f"{fields.where}: suite {label!r}, this release does not know it"
        raise UnknownVersion(message)
    if not is_valid_name(name):
        message = f"{fields.where}: field name: not the name of a key"
        raise Malformed(message)
    recipient = Recipient(name, suite, octets64(fields, "key", suite.public_bytes))
    if recipient.recipient_id != fields.octets("id", ID_BYTES):
        message = f"{fields.where}: field id: it is not the id of the key"
        raise Malformed(message)
    return recipient


def octets64(fields: Fields, name: str, num_bytes: int) -> bytes:
    """Return a field's ``num_bytes`` bytes from base64 in its one spelling.

    Raises:
        Malformed: it is something else.
    """
    text = fields.text(name, 4 * (num_bytes // 3 + 1))
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        data = b""
    if len(data) != num_bytes or base64.b64encode(data).decode("ascii") != text:
        message = f"{fields.where}: field {name}: expected base64 of {num_bytes} bytes"
        raise Malformed(message)
    return data
