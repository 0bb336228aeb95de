"""Read and write the documents of grants that options name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from base.errors import FormatError, UsageError
from base.files import atomic_write, read_bounded
from forensics.grant_opening import open_grant
from forensics.input_file import printable_name
from forensics.ledger import Ledger, default_ledger_path
from keys.approval import MAX_APPROVAL_BYTES, MAX_POLICY_BYTES, Approval, CustodyPolicy
from keys.grant import MAX_GRANT_BYTES, Grant, OpenedGrant
from keys.grant_revocation import MAX_REVOCATION_BYTES, Revocation
from keys.grant_terms import MAX_REQUEST_BYTES, GrantRequest
from keys.signer import SignerKey, SignerPublic
from keys.signer_file import load_signer, load_signer_public
from keys.textfile import MAX_FILE_BYTES, kind_of
from keys.wrap import Unwrapper
from veilcam.cli.key_files import wrong_kind_is_usage
from veilcam.cli.passphrase import known_passphrase
from veilcam.cli.paths import existing_file

_Document = TypeVar("_Document")


def request_from(path: Path) -> GrantRequest:
    """The request of ``REQUEST``.

    Raises:
        UsageError: the file is missing or holds something else.
    """
    return _document(path, "REQUEST", MAX_REQUEST_BYTES + 1, GrantRequest.parse)


def approvals_from(paths: Sequence[Path]) -> tuple[Approval, ...]:
    """The approvals of ``--approval``; raises as `request_from`."""
    return tuple(_document(path, "--approval", MAX_APPROVAL_BYTES + 1, Approval.parse) for path in paths)


def policy_from(path: Path | None) -> CustodyPolicy | None:
    """The policy of ``--policy``; raises as `request_from`."""
    return None if path is None else _document(path, "--policy", MAX_POLICY_BYTES + 1, CustodyPolicy.parse)


def grant_from(path: Path, role: str = "--grant") -> Grant:
    """The grant of ``--grant``; raises as `request_from`."""
    return _document(path, role, MAX_GRANT_BYTES, Grant.parse)


def revocations_from(paths: Sequence[Path]) -> tuple[Revocation, ...]:
    """The revocations of ``--revocation``; raises as `request_from`."""
    return tuple(
        _document(path, "--revocation", MAX_REVOCATION_BYTES + 1, Revocation.parse) for path in paths
    )


def signer_from(path: Path) -> SignerKey:
    """The signing key of ``--signer``, opened with the passphrase.

    Raises:
        UsageError: the file is missing or is no NAME.signer.
        WrongPassphrase: it does not open.
    """
    existing_file(path, "--signer")
    with wrong_kind_is_usage("--signer"):
        return load_signer(path, known_passphrase(f"signer {path.stem}"))


def signer_public_from(path: Path) -> SignerPublic:
    """The public key of a NAME.signer.pub; raises as `request_from`."""
    existing_file(path, "SIGNER")
    with wrong_kind_is_usage("SIGNER"):
        return load_signer_public(path)


def opened_grant(
    path: Path, identities: Sequence[Unwrapper], policy: Path | None, revocations: Sequence[Path]
) -> OpenedGrant:
    """The keys of ``--grant``, opened with the investigator's identity; attempts that fail are recorded.

    Raises:
        UsageError: a file is missing or holds something else.
        VeilError: as `forensics.grant_opening.open_grant`.
    """
    return open_grant(
        grant_from(path),
        identities,
        Ledger(default_ledger_path()),
        policy=policy_from(policy),
        revocations=revocations_from(revocations),
    )


def write_document(path: Path, document: bytes) -> None:
    """Write a document and a newline."""
    atomic_write(path, document + b"\n")


def _document(path: Path, role: str, max_bytes: int, parse: Callable[[bytes], _Document]) -> _Document:
    existing_file(path, role)
    data = b"{"
    try:
        data = read_bounded(path, max_bytes)
        return parse(data)
    except FormatError as error:
        raise wrong_document(role, path, data, error) from error


def wrong_document(role: str, path: Path, data: bytes, error: FormatError) -> UsageError:
    """What to raise for a file that is not the document that an option asks for."""
    name = printable_name(path)
    if data.startswith(b"{"):
        return UsageError(f"{role}: {name}: {error}")
    return UsageError(f"{role}: {name}: expected a document of veilcam grant, got {_what(data)}")


def _what(data: bytes) -> str:
    """What a file is that is none of our documents, for somebody who took the wrong one."""
    try:
        return f"a veilcam {kind_of(data[:MAX_FILE_BYTES], where='')} file" if data else "an empty file"
    except FormatError:
        return "something else"
