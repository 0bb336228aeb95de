"""Rows of ``veilcam keys list``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from base.errors import VeilError
from base.files import read_bounded
from keys import x509_profile
from keys.backup import SUFFIXES
from keys.destruction import MAX_BYTES, Destruction
from keys.quorum import load_share
from keys.scope import load_scoped
from keys.store import describe

_SOON_US = 30 * 86_400_000_000


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One file. ``state`` is for people; empty where there is nothing to say."""

    file: str
    kind: str
    name: str
    key_id: str
    state: str = ""
    is_expired: bool = False


def rows_of(folder: Path, now_us: int) -> list[KeyRow]:
    """One row per key file of ``folder``, by name."""
    revoked: set[int] = set()
    for path in sorted(folder.glob("*.crl")):
        try:
            crl = x509_profile.parse_crl(read_bounded(path, x509_profile.MAX_PEM_BYTES), where=path.name)
        except VeilError:
            continue  # its own row says what is wrong
        revoked |= {entry.serial_number for entry in crl}
    paths = [path for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES and path.is_file()]
    return [_row(path, now_us, revoked) for path in paths]


def _row(path: Path, now_us: int, revoked: set[int]) -> KeyRow:
    try:
        if path.suffix == ".crt":
            return _certificate(path, now_us, revoked)
        if path.suffix == ".crl":
            return _list(path, now_us)
        if path.suffix == ".csr":
            is_done = path.with_suffix(".crt").exists()
            return KeyRow(path.name, "request", path.stem, "", "" if is_done else "waits to be certified")
        if path.suffix == ".destroyed":
            return _destroyed(path)
        return _key(path, now_us)
    except (VeilError, OSError) as error:
        return KeyRow(path.name, "?", "", "", f"cannot be read: {error}")


def _key(path: Path, now_us: int) -> KeyRow:
    info = describe(path)
    row = KeyRow(path.name, info.kind, info.name, info.key_id.hex())
    if info.kind == "share":
        share = load_share(path)
        dealt = share.share_set
        state = f"{share.holder}'s, {dealt.threshold} of {len(dealt.commitments)} open"
        return KeyRow(row.file, row.kind, row.name, row.key_id, state)
    if info.kind == "scoped-recipient":
        scope = load_scoped(path).scope
        cameras = "any camera" if scope.cameras is None else f"{len(scope.cameras)} cameras"
        state, is_expired = _until(scope.until_us, now_us)
        return KeyRow(row.file, row.kind, row.name, row.key_id, f"{cameras}, {state}", is_expired)
    return row


def _certificate(path: Path, now_us: int, revoked: set[int]) -> KeyRow:
    pem = read_bounded(path, x509_profile.MAX_PEM_BYTES)
    certificate = x509_profile.parse_chain(pem, where=path.name)[0]
    name = x509_profile.common_name(certificate.subject, path.name)
    if certificate.serial_number in revoked:
        return KeyRow(path.name, "certificate", name, f"{certificate.serial_number:x}"[:32], "revoked")
    state, is_expired = _until(x509_profile.microseconds(certificate.not_valid_after_utc), now_us)
    return KeyRow(path.name, "certificate", name, f"{certificate.serial_number:x}"[:32], state, is_expired)


def _list(path: Path, now_us: int) -> KeyRow:
    crl = x509_profile.parse_crl(read_bounded(path, x509_profile.MAX_PEM_BYTES), where=path.name)
    name = x509_profile.common_name(crl.issuer, path.name)
    end = crl.next_update_utc
    state, is_expired = _until(None if end is None else x509_profile.microseconds(end), now_us)
    return KeyRow(path.name, "revocation list", name, "", f"{len(list(crl))} revoked, {state}", is_expired)


def _destroyed(path: Path) -> KeyRow:
    record = Destruction.parse(read_bounded(path, MAX_BYTES), where=path.name)
    state = f"destroyed {_day(record.destroyed_us)}, {len(record.epochs)} epochs named"
    return KeyRow(path.name, "destruction", record.name, record.recipient_id.hex(), state)


def _until(end_us: int | None, now_us: int) -> tuple[str, bool]:
    if end_us is None:
        return "no end", False
    if end_us <= now_us:
        return f"EXPIRED {_day(end_us)}", True
    return f"until {_day(end_us)}{', soon' if end_us - now_us < _SOON_US else ''}", False


def _day(time_us: int) -> str:
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).date().isoformat()
