"""Read and write the documents of grants that options name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from base.canonical import JsonObject, JsonValue
from base.errors import AuthenticationFailed, FormatError, GrantRefused
from base.files import atomic_write, read_bounded
from forensics.ledger import EventKind, Ledger, default_ledger_path
from forensics.opening import record_event
from keys.approval import MAX_APPROVAL_BYTES, MAX_POLICY_BYTES, Approval, CustodyPolicy
from keys.grant import MAX_GRANT_BYTES, Grant, OpenedGrant
from keys.grant_revocation import MAX_REVOCATION_BYTES, Revocation
from keys.grant_terms import MAX_REQUEST_BYTES, GrantRequest
from keys.signer import SignerKey, SignerPublic
from keys.signer_file import load_signer, load_signer_public
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
        GrantRefused: it is for somebody else, or too few custodians agreed.
        AuthenticationFailed: it does not verify.
        VeilError: the ledger cannot be written.
    """
    grant = grant_from(path)
    agreed = policy_from(policy)
    found = revocations_from(revocations)
    try:
        opened = grant.open(identities, agreed)
    except (GrantRefused, AuthenticationFailed, FormatError) as error:
        facts: JsonObject = {"grant": grant.grant_id.hex(), "action": "decode", "result": str(error)}
        ids: list[JsonValue] = [each.recipient.recipient_id.hex() for each in identities[:16]]
        record_event(Ledger(default_ledger_path()), EventKind.REFUSED, {**facts, "identities": ids})
        raise
    for revocation in found:
        if revocation.grant_id == grant.grant_id:
            revocation.verify(grant, agreed)
            opened.revoke(revocation.reason)
    return opened


def write_document(path: Path, document: bytes) -> None:
    """Write a document and a newline."""
    atomic_write(path, document + b"\n")


def _document(path: Path, role: str, max_bytes: int, parse: Callable[[bytes], _Document]) -> _Document:
    existing_file(path, role)
    with wrong_kind_is_usage(role):
        return parse(read_bounded(path, max_bytes))
