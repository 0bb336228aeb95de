"""What a recipient may open: which cameras' footage, recorded when.

    veilcam-scoped-recipient v1
    name: custody-2026-12
    suite: mlkem768x25519
    id: 32 hex digits
    cameras: any                          or camera ids of 32 hex digits with commas between
    from: 2026-12-01T00:00:00Z            or a dash: no bound
    until: 2027-01-01T00:00:00Z           likewise; half-open
    key: base64 of 1216 bytes

The camera keeps to it: outside a recipient's scope it does not wrap the epoch key to him (`keys.epoch`), so
that no client, however changed, opens what he was not to open. A key for each month, say, makes that month's
footage erasable: destroy the key, and every copy of the footage is ciphertext for ever (`keys.destruction`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import final

from base.errors import FormatError, LimitExceeded, Malformed
from base.files import read_bounded
from keys import key_files, textfile
from keys.recipient import Recipient
from keys.schedule import ID_BYTES
from keys.writing import write_public

KIND = "scoped-recipient"
MAX_CAMERAS = 64
_FIELDS = ("name", "suite", "id", "cameras", "from", "until", "key")
_ANY = "any"
_OPEN = "-"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_CAMERA_ID = re.compile(rf"[0-9a-f]{{{2 * ID_BYTES}}}")


@final
@dataclass(frozen=True, slots=True)
class Scope:
    """Bounds on what is sealed to a recipient.

    Attributes:
        cameras: their ids, 16 bytes each; None: all.
        from_us: Unix microseconds, whole seconds; None: no bound; as ``until_us``, which is outside.
    """

    cameras: frozenset[bytes] | None = None
    from_us: int | None = None
    until_us: int | None = None

    def __post_init__(self) -> None:
        if self.cameras is not None and not 1 <= len(self.cameras) <= MAX_CAMERAS:
            message = f"scope: {len(self.cameras)} cameras, expected 1 to {MAX_CAMERAS}"
            raise LimitExceeded(message)
        if None not in (self.from_us, self.until_us) and not (self.from_us or 0) < (self.until_us or 0):
            message = "scope: it ends before it begins"
            raise Malformed(message)

    def admits(self, camera_id: bytes, now_us: int) -> bool:
        """Whether what this camera records now is the recipient's to open."""
        if self.cameras is not None and camera_id not in self.cameras:
            return False
        if self.from_us is not None and now_us < self.from_us:
            return False
        return self.until_us is None or now_us < self.until_us


EVERYTHING = Scope()


@final
@dataclass(frozen=True, slots=True)
class ScopedRecipient:
    """A recipient, and what he may open."""

    recipient: Recipient
    scope: Scope = field(default=EVERYTHING)


def scoped(recipient: Recipient | ScopedRecipient) -> ScopedRecipient:
    """Return ``recipient`` with its scope; without one: everything."""
    return recipient if isinstance(recipient, ScopedRecipient) else ScopedRecipient(recipient)


def save_scoped(folder: Path, recipient: ScopedRecipient) -> Path:
    """Write NAME.recipient into ``folder``; returns its path.

    Raises:
        UsageError: the file exists and holds something else.
    """
    return write_public(folder / f"{recipient.recipient.name}.recipient", render_scoped(recipient))


def load_scoped(path: Path) -> ScopedRecipient:
    """Read a NAME.recipient of either kind.

    Raises:
        FormatError: it is not one.
    """
    data = read_bounded(path, textfile.MAX_FILE_BYTES)
    if textfile.kind_of(data, where=path.name) == KIND:
        return parse_scoped(data, where=path.name)
    return ScopedRecipient(key_files.parse_recipient(data, where=path.name))


def render_scoped(given: ScopedRecipient) -> bytes:
    """Write the content of a NAME.recipient with a scope."""
    recipient, scope = given.recipient, given.scope
    cameras = _ANY if scope.cameras is None else ",".join(sorted(each.hex() for each in scope.cameras))
    fields = [
        ("name", recipient.name),
        ("suite", recipient.suite.label),
        ("id", recipient.recipient_id.hex()),
        ("cameras", cameras),
        ("from", _time_text(scope.from_us)),
        ("until", _time_text(scope.until_us)),
        ("key", textfile.render_bytes(recipient.public_key)),
    ]
    return textfile.render(KIND, fields)


def parse_scoped(data: bytes, *, where: str = "recipient file") -> ScopedRecipient:
    """Read the content of a NAME.recipient with a scope.

    Raises:
        FormatError: it is not one.
    """
    fields = textfile.parse(data, KIND, _FIELDS, where=where)
    # The key as in a file without scope, so that it is checked in one place.
    plain = [(name, fields[name]) for name in ("name", "suite", "id", "key")]
    recipient = key_files.parse_recipient(textfile.render(key_files.RECIPIENT_KIND, plain), where=where)
    scope = Scope(
        _parse_cameras(fields["cameras"], where),
        _parse_time(fields["from"], where),
        _parse_time(fields["until"], where),
    )
    found = ScopedRecipient(recipient, scope)
    if render_scoped(found) != data:
        message = f"{where}: cameras: expected rising ids, each once"
        raise Malformed(message)
    return found


def _parse_cameras(text: str, where: str) -> frozenset[bytes] | None:
    if text == _ANY:
        return None
    ids = text.split(",")
    if any(_CAMERA_ID.fullmatch(each) is None for each in ids):
        message = f"{where}: field cameras: expected any, or camera ids with commas between"
        raise Malformed(message)
    return frozenset(bytes.fromhex(each) for each in ids)


def _parse_time(text: str, where: str) -> int | None:
    if text == _OPEN:
        return None
    try:
        time = datetime.fromisoformat(text) if _TIME.fullmatch(text) else None
    except ValueError:
        time = None
    if time is None:
        message = f"{where}: expected a time as 2026-12-01T00:00:00Z"
        raise Malformed(message)
    return int(time.timestamp()) * 1_000_000


def _time_text(time_us: int | None) -> str:
    if time_us is None:
        return _OPEN
    try:
        return datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)
    except (ValueError, OverflowError, OSError) as error:
        message = "scope: a time outside the years 1 to 9999"
        raise FormatError(message) from error
