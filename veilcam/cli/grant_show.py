"""``veilcam grant inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from base.errors import FormatError
from veilcam.cli.options import JsonFlag, examples
from veilcam.cli.output import Output, table


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    epilog = examples(
        "veilcam grant inspect theft.grant --policy house.custody",
        "veilcam grant inspect theft.request --json",
    )
    app.command("inspect", short_help="Show a grant or one of its documents.", epilog=epilog)(inspect)


def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Request, approval, policy, grant or revocation.")
    ],
    *,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also check that custodians agreed.", envvar="VEILCAM_CUSTODY"),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show what a grant or a document about one says. Needs no key and shows no secret.

    A grant's signature and approvals are checked: status 3 if they do not verify, 4 if too few custodians of
    the policy agreed. Without a policy it is not known whose key the issuer's is.
    """
    from base.files import read_bounded
    from keys.approval import Approval, CustodyPolicy
    from keys.grant import MAX_GRANT_BYTES, Grant
    from keys.grant_revocation import Revocation
    from keys.grant_terms import GrantRequest
    from veilcam.cli.grant_files import policy_from, wrong_document
    from veilcam.cli.grant_text import (
        approval_rows,
        grant_rows,
        policy_rows,
        request_rows,
        revocation_rows,
    )
    from veilcam.cli.paths import existing_file

    output = Output(as_json)
    data = read_bounded(existing_file(file, "FILE"), MAX_GRANT_BYTES)
    kind = _kind(data)
    document: dict[str, object]
    try:
        if kind == "grant":
            grant = Grant.parse(data)
            grant.verify(policy_from(policy))
            rows, document = grant_rows(grant), {**grant.unsigned()}
        elif kind == "grant request":
            request = GrantRequest.parse(data)
            rows, document = request_rows(request), {"digest": request.digest.hex(), **request.as_json()}
        elif kind == "grant approval":
            approval = Approval.parse(data)
            rows, document = approval_rows(approval), {**approval.as_json()}
        elif kind == "grant revocation":
            ended = Revocation.parse(data)
            rows, document = revocation_rows(ended), {**ended.unsigned()}
        else:
            made = CustodyPolicy.parse(data)
            rows, document = policy_rows(made), {"sha256": made.digest.hex(), **made.as_json()}
    except FormatError as error:
        raise wrong_document("FILE", file, data, error) from error
    output.say(table({"kind": kind, **rows}))
    output.result({"ok": True, "kind": kind, "file": str(file), **document})


def _kind(data: bytes) -> str:
    """Which document it states to be; keys are sorted, so that ``type`` may stand anywhere."""
    for kind in ("grant request", "grant approval", "grant revocation", "custody policy"):
        if f'"type":"veilcam {kind}"'.encode() in data[:600_000] and b'"terms":' not in data[:600_000]:
            return kind
    return "grant"
