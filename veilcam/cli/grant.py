"""``veilcam grant``: ask for, approve, issue, look at and end the release of a part of the footage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from base.errors import UsageError
from veilcam.cli.grant_request import register as register_request
from veilcam.cli.grant_show import register as register_inspect
from veilcam.cli.options import ForceFlag, JsonFlag, examples
from veilcam.cli.output import Output, table

app = typer.Typer(
    help="Release a part of the footage to one investigator.",
    epilog=examples(
        "veilcam grant signer dora",
        "veilcam grant request theft.request -c gate.pub -r iris.recipient --from 2026-11-30T08:00:00Z "
        "--to 2026-11-30T08:05:00Z --case 2026-117 --reason 'theft at the gate'",
        "veilcam grant approve theft.request --signer dora.signer",
        "veilcam grant issue theft.request rec.mp4 -o a.grant -c gate.pub -i dpo.identity -s dan.signer",
        "veilcam decode rec.mp4 -o out.mp4 --grant a.grant -i iris.identity",
    ),
    no_args_is_help=True,
)
register_request(app)
register_inspect(app)

SignerFile = Annotated[
    Path,
    typer.Option("--signer", "-s", metavar="FILE", help="NAME.signer file; its passphrase is asked for."),
]
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy", metavar="FILE", help="Custody policy: who must agree.", envvar="VEILCAM_CUSTODY"
    ),
]


@app.command(
    "signer", epilog=examples("veilcam grant signer dora"), short_help="Make a custodian's signing key."
)
def signer(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the key; a folder may stand before it.")
    ],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Make NAME.signer (private, under a passphrase) and NAME.signer.pub: it signs approvals and grants.

    The key opens no footage.
    """
    from keys.names import checked_name
    from keys.signer import SignerKey
    from keys.signer_file import save_signer
    from veilcam.cli.passphrase import new_passphrase

    output = Output(as_json)
    path = Path(name)
    stem = checked_name(path.name)
    if not path.parent.is_dir():
        raise UsageError(f"NAME: no such folder: {path.parent}")
    for target in (path.parent / f"{stem}.signer", path.parent / f"{stem}.signer.pub"):
        if target.exists():
            raise UsageError(f"{target} exists already; keys are not overwritten, choose another name")
    key = SignerKey.generate(stem)
    private = save_signer(path.parent, key, new_passphrase(f"signer {stem}"))
    output.say(f"signer {stem} (ed25519), id {key.public.signer_id.hex()}")
    output.say(f"  {private}  private: keep it and its passphrase")
    output.say(f"  {private}.pub  public: for the custody policy")
    output.result(
        {
            "ok": True,
            "name": stem,
            "id": key.public.signer_id.hex(),
            "signer": str(private),
            "pub": f"{private}.pub",
        }
    )


@app.command(
    "policy",
    short_help="Say how many custodians must agree.",
    epilog=examples("veilcam grant policy house.custody --threshold 2 dora.signer.pub dan.signer.pub"),
)
def policy(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The policy file.")],
    signers: Annotated[list[Path], typer.Argument(metavar="SIGNER...", help="NAME.signer.pub files.")],
    *,
    threshold: Annotated[int, typer.Option(metavar="K", min=1, help="How many of them must approve.")],
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Write a custody policy: K of these custodians must approve before a grant is issued.

    Give it to `grant issue`, `grant inspect` and `decode` with --policy or VEILCAM_CUSTODY. It binds programs
    that are given it; so that no single person can open footage, share the recipient key itself.
    """
    from keys.approval import CustodyPolicy
    from veilcam.cli.grant_files import signer_public_from, write_document
    from veilcam.cli.grant_text import policy_rows
    from veilcam.cli.paths import new_file

    output = Output(as_json)
    new_file(out, force=force)
    made = CustodyPolicy(threshold, tuple(signer_public_from(path) for path in signers))
    write_document(out, bytes(made))
    output.say(table(policy_rows(made)))
    output.result({"ok": True, "policy": str(out), "sha256": made.digest.hex(), **made.as_json()})


@app.command(
    "approve",
    short_help="Agree to a request.",
    epilog=examples("veilcam grant approve theft.request --signer dora.signer"),
)
def approve(
    request: Annotated[Path, typer.Argument(metavar="REQUEST", help="From `veilcam grant request`.")],
    *,
    signer: SignerFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="OUT", help="Default: REQUEST.NAME.approval.")
    ] = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Show what is asked for and sign it. The approval counts for this request and for no other."""
    from forensics.grants import request_facts
    from forensics.ledger import EventKind, Ledger, default_ledger_path
    from forensics.opening import record_event
    from keys.approval import Approval
    from veilcam.cli.grant_files import request_from, signer_from, write_document
    from veilcam.cli.grant_text import request_rows
    from veilcam.cli.paths import new_file

    output = Output(as_json)
    asked = request_from(request)
    output.say(table(request_rows(asked)))
    key = signer_from(signer)
    target = out or request.with_name(f"{request.name}.{key.public.name}.approval")
    new_file(target, force=force)
    ledger = Ledger(default_ledger_path())
    approval = Approval.sign(asked, key, ledger.now_us())
    facts = {**request_facts(asked), "by": key.public.signer_id.hex()}
    record_event(ledger, EventKind.GRANT_APPROVED, facts)
    write_document(target, bytes(approval))
    output.say(f"approved by {key.public.name}: {target}")
    output.result({"ok": True, "approval": str(target), **approval.as_json()})


@app.command(
    "issue",
    short_help="Collect the keys of a request and seal them to its investigator.",
    epilog=examples(
        "veilcam grant issue theft.request rec.mp4 -o a.grant -c gate.pub -i dpo.identity -s dora.signer",
        "veilcam grant issue theft.request day/*.mp4 -o a.grant -c gate.pub -i dpo.identity "
        "-s dora.signer --policy house.custody --approval theft.request.dora.approval --approval ...",
    ),
)
def issue(
    request: Annotated[Path, typer.Argument(metavar="REQUEST", help="From `veilcam grant request`.")],
    recordings: Annotated[list[Path], typer.Argument(metavar="RECORDING...", help="Protected videos.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="The grant.")],
    camera: Annotated[Path, typer.Option("--camera", "-c", metavar="FILE", help="NAME.pub of the camera.")],
    identity: Annotated[
        list[Path], typer.Option("--identity", "-i", metavar="FILE", help="The custodian's NAME.identity.")
    ],
    signer: SignerFile,
    approval: Annotated[
        list[Path] | None, typer.Option("--approval", "-a", metavar="FILE", help="Repeat for several.")
    ] = None,
    policy: PolicyFile = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Collect the keys of what was asked for, seal them to the investigator, and sign.

    The recordings are read and never changed. A segment is granted if the camera signed it and all its
    pictures lie within the times asked for; what a range cuts into stays closed. The grant opens without the
    custodian's identity. The ledger learns of it before a key is used.
    """
    from forensics.grants import Consent, issue_grant, write_grant
    from forensics.ledger import Ledger, default_ledger_path
    from veilcam.cli.grant_files import approvals_from, policy_from, request_from, signer_from
    from veilcam.cli.grant_text import grant_rows
    from veilcam.cli.key_files import camera_public_from, identities_from
    from veilcam.cli.paths import existing_file, new_file

    output = Output(as_json)
    asked = request_from(request)
    new_file(out, force=force)
    for recording in recordings:
        existing_file(recording, "RECORDING")
    consent = Consent(approvals_from(approval or []), policy_from(policy))
    public = camera_public_from(camera)
    identities, key = identities_from(identity), signer_from(signer)
    ledger = Ledger(default_ledger_path())
    with output.progress("collecting keys") as advance:
        issued = issue_grant(
            asked,
            recordings,
            camera=public,
            identities=identities,
            issuer=key,
            ledger=ledger,
            consent=consent,
            advance=advance,
        )
    digest = write_grant(issued, out, ledger, overwrite=force)
    output.say(table(grant_rows(issued.grant)))
    for note in issued.notes:
        output.say(f"  note  {note}")
    output.say(f"{out}: give it to {asked.investigator.name}")
    output.result(
        {
            "ok": True,
            "out": str(out),
            "sha256": digest,
            "outside": issued.num_outside,
            "notes": list(issued.notes),
            **issued.grant.terms.as_json(),
        }
    )


@app.command(
    "revoke",
    short_help="End a grant.",
    epilog=examples("veilcam grant revoke theft.grant --signer dora.signer --reason 'case closed'"),
)
def revoke(
    grant: Annotated[Path, typer.Argument(metavar="GRANT", help="The grant.")],
    *,
    signer: SignerFile,
    reason: Annotated[str, typer.Option(help="Why.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="OUT", help="Default: GRANT.revocation.")
    ] = None,
    policy: PolicyFile = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Sign that a grant is good no longer, and write it into this machine's ledger.

    Programs that see the revocation or share the ledger refuse the grant from now on. Keys that somebody has
    cannot be taken back.
    """
    from forensics.ledger import EventKind, Ledger, default_ledger_path
    from forensics.opening import record_event
    from keys.grant_revocation import Revocation
    from veilcam.cli.grant_files import grant_from, policy_from, signer_from, write_document
    from veilcam.cli.paths import new_file

    output = Output(as_json)
    ended = grant_from(grant, "GRANT")
    target = out or grant.with_name(f"{grant.name}.revocation")
    new_file(target, force=force)
    key = signer_from(signer)
    ledger = Ledger(default_ledger_path())
    revocation = Revocation.sign(ended.grant_id, reason, key, ledger.now_us())
    revocation.verify(ended, policy_from(policy))
    facts = {"grant": ended.grant_id.hex(), "reason": reason, "by": key.public.signer_id.hex()}
    record_event(ledger, EventKind.GRANT_REVOKED, {**facts, "case": ended.terms.request.case})
    write_document(target, bytes(revocation))
    output.say(f"grant {ended.grant_id.hex()} revoked: {target}")
    output.result({"ok": True, "revocation": str(target), **facts})
