"""``veilcam case``: whole days and many cameras, and the bundle that is handed over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilcam.cli.options import JsonFlag, examples
from veilcam.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forensics.case import Stamper
    from forensics.case_engine import Engine
    from forensics.case_keys import KeyNames

app = typer.Typer(help="Open whole days and many cameras into one folder, with all that proves it.")

_ENGINES = ("process", "ray")


@app.command(
    "decode",
    short_help="Open recordings into a bundle.",
    epilog=examples(
        "veilcam case decode day/ -o case-117 -i custodian.identity -c gate.pub --case 2026-117",
        "veilcam case decode day/ -o case-117 -i custodian.identity -c gate.pub -c yard.pub --evidence \\\n"
        "    --from 2026-11-30T08:00:00Z --to 2026-11-30T09:00:00Z --reason 'burglary'",
        "veilcam case decode day/ -o case-117 -i investigator.identity --grant case.grant -c gate.pub",
    ),
)
def decode(
    recordings: Annotated[
        list[Path], typer.Argument(metavar="IN...", help="Recordings, or folders with recordings.")
    ],
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="New, or of a run to go on with.")
    ],
    identity: Annotated[
        list[str],
        typer.Option("--identity", "-i", metavar="FILE|URI", help="NAME.identity or a key URI; repeatable."),
    ],
    camera: Annotated[
        list[Path] | None,
        typer.Option("--camera", "-c", metavar="FILE", help="NAME.pub of the cameras that must have signed."),
    ] = None,
    grant: Annotated[
        Path | None,
        typer.Option("--grant", "-g", metavar="FILE", help="Open with this grant, made out to the identity."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Custody policy the grant must satisfy.", envvar="VEILCAM_CUSTODY"),
    ] = None,
    revocation: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Revocation to heed, from `veilcam grant revoke`; repeatable."),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="T", help="ISO 8601; seconds with one recording.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="T", help="Likewise, the end.")] = None,
    case: Annotated[str, typer.Option(help="Case number; goes into report and ledger.")] = "",
    reason: Annotated[str, typer.Option(help="Why it is opened; goes into report and ledger.")] = "",
    evidence: Annotated[
        bool,
        typer.Option("--evidence", help="Only what the camera signed; refuse what a network restored."),
    ] = False,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="A start later than the camera's is a gap too.")
    ] = False,
    container: Annotated[str, typer.Option(help="mkv, mp4, mov, ts, avi or nut.")] = "mkv",
    native: Annotated[
        bool, typer.Option("--native/--no-native", help="Copy the recordings into the bundle first.")
    ] = True,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, max=256, help="Recordings at a time [processors].")
    ] = None,
    engine: Annotated[str, typer.Option(help="process (this machine) or ray (a cluster).")] = "process",
    ray_address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Of the cluster's head [RAY_ADDRESS].")
    ] = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="URL", help="RFC 3161 authority that stamps the bundle.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Copy, hash, verify and open recordings, several at a time, into one folder that can be handed over.

    The folder holds the recordings as they were (native/), the originals (video/), a verification transcript
    for each, report.html (prints well, with the chain of custody), report.json and SHA256SUMS. Run it again
    with the same arguments to go on with what was interrupted. Status 3: something is missing or does not
    verify; 4: no key fits; 1: a recording could not be read. The passphrase is asked for, or taken from
    VEILCAM_PASSPHRASE.
    """
    from forensics.case import CaseOptions, recordings_in, run_case
    from forensics.case_keys import KeyNames
    from forensics.ledger import Ledger, default_ledger_path
    from veilcam.cli.key_files import camera_public_from

    output = Output(as_json)
    found = recordings_in(recordings)
    options = CaseOptions(
        case=case,
        reason=reason,
        start=start,
        end=end,
        cameras=tuple(camera_public_from(path) for path in camera or ()),
        container=container,
        from_start=from_start,
        is_evidence=evidence,
        keep_native=native,
    )
    ledger = Ledger(default_ledger_path())
    stamper = _stamper(timestamp)
    _check_documents(grant, policy, revocation or [])
    keys = KeyNames.of(identity, grant, policy=policy, revocations=revocation or [])
    with (
        _engine(
            engine, keys, ledger.path, min(jobs or os.cpu_count() or 1, len(found)), ray_address
        ) as worker,
        output.progress("case") as advance,
    ):
        report = run_case(found, out, worker, ledger, options, stamper=stamper, advance=advance)
    output.say(report.text())
    output.say(f"report in {out / 'report.html'}")
    output.result({"ok": report.exit_code == 0, "folder": str(out), **report.as_json()})
    return report.exit_code


def _check_documents(grant: Path | None, policy: Path | None, revocations: Sequence[Path]) -> None:
    """Refuse files of the wrong kind before anything is copied; the processes that open read them again."""
    from veilcam.cli.grant_files import grant_from, policy_from, revocations_from

    if grant is not None:
        grant_from(grant)
    policy_from(policy)
    revocations_from(revocations)


def _engine(name: str, keys: KeyNames, ledger: Path, jobs: int, address: str | None) -> Engine:
    from base.errors import UsageError
    from forensics.case_engine import InProcess, Processes
    from veilcam.cli.passphrase import known_passphrase

    if name not in _ENGINES:
        raise UsageError(f"--engine: expected {' or '.join(_ENGINES)}; got {name!r}")
    if name == "ray":
        from forensics.case_ray import RayCluster

        return RayCluster(keys, ledger, jobs, address)
    if jobs == 1:
        return InProcess(keys, known_passphrase, ledger)
    return Processes(keys, known_passphrase, ledger, jobs)


def _stamper(url: str | None) -> Stamper | None:
    if url is None:
        return None
    from forensics.timestamp import Authority

    return Authority(url).stamp


@app.command(
    "check",
    short_help="Check that a bundle is as it was handed over.",
    epilog=examples("veilcam case check case-117", "veilcam case check case-117 --tsa-root authority.pem"),
)
def check(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A finished case.")],
    *,
    tsa_root: Annotated[
        Path | None,
        typer.Option(metavar="PEM", help="Certificate of the time-stamp authority's root: check the stamp."),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Hash every file of a bundle again and compare; needs no key.

    Status 3 if a file was changed, added or is missing, or the time stamp does not fit. The hash of
    SHA256SUMS that it prints must be the one of the hand-over sheet and of the ledger's `export` entry.
    """
    from base.errors import AuthenticationFailed, FormatError
    from forensics.case import check_bundle, check_stamp

    output = Output(as_json)
    with output.progress("checking") as advance:
        found = check_bundle(folder, advance)
    try:
        stamp = check_stamp(folder, tsa_root) if tsa_root else None
    except FormatError as error:  # the bundle is what is judged: a stamp that is none does not fit
        raise AuthenticationFailed(f"{folder}: {error}") from error
    output.say(f"{'OK' if not found.problems else 'CHANGED'}  {folder}, {found.num_files} files")
    output.say(f"  sha256 of SHA256SUMS  {found.sums_sha256}")
    for problem in found.problems:
        output.say(f"  {problem}")
    if stamp is not None:
        output.say(f"  stamped {stamp.time} by {stamp.authority}")
    output.result({**found.as_json(), "stamp": None if stamp is None else stamp.as_json()})
    return 3 if found.problems else 0


@app.command(
    "c2pa",
    short_help="Put a C2PA manifest into a copy of an opened video.",
    epilog=examples("veilcam case c2pa original.mp4 -o credentials.mp4 --cert chain.pem --key signer.key"),
)
def c2pa(
    video: Annotated[Path, typer.Argument(metavar="IN", help="What `decode` wrote, .mp4 or .mov.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="New file, same ending.")],
    cert: Annotated[Path, typer.Option(metavar="PEM", help="Certificates, the signer's first.")],
    key: Annotated[Path, typer.Option(metavar="PEM", help="The signer's private key.")],
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Believe the report; the ledger of the opening is elsewhere.")
    ] = False,
    algorithm: Annotated[str, typer.Option(help="ES256, ES384, PS256 or ED25519.")] = "ES256",
    timestamp: Annotated[
        str | None, typer.Option(metavar="URL", help="RFC 3161 authority that stamps the claim.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Tell tools that read Content Credentials where an opened video comes from.

    The manifest names the protected recording, its verdict, the camera and the ledger entry. It adds nothing
    to what the camera's signature proves. Status 3: the report beside IN is not one that the ledger knows.
    """
    from forensics.c2pa_manifest import add_manifest
    from forensics.ledger import default_ledger_path
    from veilcam.cli.paths import existing_file

    output = Output(as_json)
    for path, role in ((video, "IN"), (cert, "--cert"), (key, "--key")):
        existing_file(path, role)
    known_to = None if unchecked else default_ledger_path()
    statement = add_manifest(
        *(video, out), certificates=cert, key=key, ledger=known_to, algorithm=algorithm, tsa_url=timestamp
    )
    output.say(f"wrote {out}: {statement['verdict']}, camera {statement['camera'] or 'not checked'}")
    output.result({"ok": True, "out": str(out), **statement})
    return 0
