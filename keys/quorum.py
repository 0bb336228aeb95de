"""Opening with shares: ``shares:`` with the holders in one room, ``quorum:`` with their approvals.

    shares:custody.dora.share,custody.emil.share
    quorum:case-117.request                          case-117.identity and case-117.*.approval lie beside it
    quorum:case-117.request?approval=/media/a.approval&approval=/media/b.approval

The private key is put together in the memory of the one process that opens, and goes with it; nothing writes
it. ``quorum:`` destroys the session's key pair before the key is used, so that no approval opens a second
time. What no software gives: a changed program on the machine that joins the shares could keep what it
joined.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from base.errors import KeyUnavailable, UsageError
from base.files import read_bounded
from keys import opening_request, textfile, uri
from keys.erase import erase_file
from keys.opening_request import OpeningRequest, ShareApproval
from keys.passphrase import Passphrase, ask
from keys.recipient import Identity
from keys.shares import LockedShare, OpenShare, join_identity
from keys.store import load_locked_identity
from keys.uri import KeyUri, Scheme

MAX_FILES = 64
Clock = Callable[[], int]
"""Unix microseconds."""


def open_shares(text: str, passphrase: Passphrase) -> Identity:
    """Unlock the shares that a ``shares:`` URI lists, each with its holder's passphrase, and join them.

    Raises:
        WrongPassphrase: a share does not open.
        AuthenticationFailed: a share is not the one that was dealt.
        UsageError: too few shares, or of different sets.
        MissingDependency: the extra ``custody`` is not installed.
    """
    parsed = KeyUri.parse(text)
    names = parsed.rest.split(",")
    if parsed.scheme is not Scheme.SHARES or len(names) > MAX_FILES:
        message = "shares: URI: expected share files with commas between"
        raise UsageError(message)
    locked = [load_share(Path(uri.decode(name, what="shares: URI"))) for name in names]
    opened = [each.open(ask(passphrase, f"share of {each.holder}")) for each in locked]
    return join_identity(opened)


def open_quorum(text: str, passphrase: Passphrase, *, clock: Clock | None = None) -> Identity:
    """Join the shares that approvals bring; the session's key pair is destroyed, so it works once.

    Raises:
        KeyUnavailable: too few approvals, the request has expired, or its key pair is gone.
        AuthenticationFailed: an approval is for another request, or of a wrong share.
        WrongPassphrase: the passphrase of the session's key pair.
        MissingDependency: the extra ``custody`` is not installed.
    """
    found = find_quorum(text)
    request = found.request
    request.check_time((clock or _now_us)())
    needed = request.share_set.threshold
    given = len({approval.index for approval in found.approvals})
    if given < needed:
        message = (
            f"opening request {request.session.name}: {given} of {needed} approvals lie beside it; "
            "each holder, the one who asked too, runs `veilcam keys approve`"
        )
        raise KeyUnavailable(message)
    if not found.session.exists():
        message = f"opening request {request.session.name}: {found.session.name} is gone: approvals open once"
        raise KeyUnavailable(message)
    locked = load_locked_identity(found.session)
    if locked.recipient_id != request.session.recipient_id:
        message = f"{found.session.name}: not the key pair of the request"
        raise KeyUnavailable(message)
    session = locked.open(ask(passphrase, f"opening {request.session.name}"))
    shares: list[OpenShare] = [approval.open(request, session) for approval in found.approvals]
    identity = join_identity(shares)
    erase_file(found.session)
    return identity


@final
@dataclass(frozen=True, slots=True)
class QuorumFiles:
    """What lies at hand for one opening request."""

    request: OpeningRequest
    session: Path
    approvals: tuple[ShareApproval, ...]


def find_quorum(text: str) -> QuorumFiles:
    """Read the request and the approvals that a ``quorum:`` URI names, without opening anything.

    Raises:
        FormatError: one of the files is damaged.
        UsageError: the URI, or too many files.
    """
    parsed = KeyUri.parse(text)
    path_text, pairs = parsed.split_query()
    path = Path(uri.decode(path_text, what="quorum: URI"))
    if parsed.scheme is not Scheme.QUORUM or path.suffix != ".request":
        message = "quorum: URI: expected NAME.request"
        raise UsageError(message)
    if any(name != "approval" for name, _ in pairs):
        message = "quorum: URI: expected approval=FILE"
        raise UsageError(message)
    files = [Path(value) for _, value in pairs] or _beside(path)
    if len(files) > MAX_FILES:
        message = f"quorum: {len(files)} approvals, limit is {MAX_FILES}"
        raise UsageError(message)
    request = load_request(path)
    return QuorumFiles(request, path.with_suffix(".identity"), tuple(map(load_approval, files)))


def load_share(path: Path) -> LockedShare:
    """Read a NAME.HOLDER.share without opening it.

    Raises:
        FormatError: it is not one.
    """
    return LockedShare.parse(read_bounded(path, textfile.MAX_FILE_BYTES), where=path.name)


def load_request(path: Path) -> OpeningRequest:
    """Read a NAME.request.

    Raises:
        FormatError: it is not one.
    """
    return OpeningRequest.parse(read_bounded(path, opening_request.MAX_REQUEST_BYTES), where=path.name)


def load_approval(path: Path) -> ShareApproval:
    """Read a NAME.HOLDER.approval.

    Raises:
        FormatError: it is not one.
    """
    return ShareApproval.parse(read_bounded(path, opening_request.MAX_APPROVAL_BYTES), where=path.name)


def _beside(path: Path) -> Sequence[Path]:
    prefix = f"{path.stem}."
    return sorted(
        each for each in path.parent.iterdir() if each.name.startswith(prefix) and each.suffix == ".approval"
    )


def _now_us() -> int:
    return time.time_ns() // 1000
