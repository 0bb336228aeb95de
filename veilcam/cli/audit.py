"""``veilcam audit``: search, show and check the ledger, and prove what it says to others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from base.documents import is_plain_text
from base.errors import FormatError, UsageError
from veilcam.cli.options import ForceFlag, JsonFlag, examples
from veilcam.cli.output import Output, table
from veilcam.exit_codes import ExitCode

if TYPE_CHECKING:
    from forensics.checkpoint import Checkpoint, VerifierKey
    from forensics.ledger_entry import LedgerEntry

app = typer.Typer(
    help="Search, show and check the ledger of openings.",
    epilog=examples(
        "veilcam audit list --case 2026-117",
        "veilcam audit verify --checkpoint /mnt/elsewhere/ledger.checkpoint",
        "veilcam audit checkpoint -o /mnt/elsewhere/ledger.checkpoint",
        "veilcam audit prove 41 -o entry41.proof",
        "veilcam audit check entry41.proof --key veilcam.ledger/...",
    ),
    no_args_is_help=True,
)

LedgerPath = Annotated[
    Path | None, typer.Option("--ledger", metavar="FILE", help="Default: VEILCAM_LEDGER, else the user's.")
]
KeyText = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="The ledger's verifier key, noted earlier.")
]


@app.command(
    "list",
    short_help="Find entries.",
    epilog=examples("veilcam audit list --since 2026-11-01T00:00:00Z", "veilcam audit list iris --kind open"),
)
def list_entries(
    words: Annotated[list[str] | None, typer.Argument(metavar="WORD...", help="All must occur.")] = None,
    *,
    since: Annotated[str | None, typer.Option(metavar="T", help="From this time on (ISO 8601).")] = None,
    until: Annotated[str | None, typer.Option(metavar="T", help="Before this time (ISO 8601).")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="open, end, refused, grant-issued, ...; repeatable."),
    ] = None,
    case: Annotated[str | None, typer.Option(help="Case number.")] = None,
    grant: Annotated[str | None, typer.Option(metavar="ID", help="Grant, 32 hex digits.")] = None,
    camera: Annotated[str | None, typer.Option(metavar="ID", help="Camera, 32 hex digits.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many, the newest.")] = 100,
    ledger: LedgerPath = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make the search index anew first.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """List entries, the oldest first. An index beside the ledger makes it fast; the ledger alone counts."""
    from forensics.ledger_index import LedgerIndex, Query
    from forensics.ledger_index import rebuild as rebuild_index

    output = Output(as_json)
    path = _existing(ledger)
    if rebuild:
        rebuild_index(path)
    query = Query(
        since_us=_time(since, "--since"),
        until_us=_time(until, "--until"),
        kinds=kind or [],
        case=case,
        grant=grant,
        camera=camera,
        words=words or [],
        limit=limit,
    )
    with LedgerIndex(path) as index:
        found = index.find(query)[::-1]
    for entry in found:
        output.say(_one_line(entry))
    output.result({"ok": True, "ledger": str(path), "entries": [_document(entry) for entry in found]})


@app.command("show", short_help="Show one entry.", epilog=examples("veilcam audit show 41"))
def show(
    number: Annotated[int, typer.Argument(metavar="N", min=0, help="Number of the entry.")],
    *,
    ledger: LedgerPath = None,
    as_json: JsonFlag = False,
) -> None:
    """Show all of an entry. Its hash and signature are checked, not its place: `audit verify` does that."""
    from forensics.ledger_index import LedgerIndex

    output = Output(as_json)
    with LedgerIndex(_existing(ledger)) as index:
        entry = index.entry(number)
    output.say(table({"entry": entry.seq, "time": entry.time, "kind": entry.kind, "hash": entry.hash}))
    output.say(_readable(entry))
    output.result({"ok": True, **_document(entry)})


@app.command(
    "verify",
    short_help="Check the whole ledger.",
    epilog=examples("veilcam audit verify", "veilcam audit verify --checkpoint old.checkpoint --key KEY"),
)
def verify(
    *,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Checkpoint kept elsewhere: shows whether entries were cut off."),
    ] = None,
    key: KeyText = None,
    ledger: LedgerPath = None,
    as_json: JsonFlag = False,
) -> int:
    """Check every entry: chain, signature, order of times. Status 3 if something does not hold.

    Entries cut off the end, and a ledger written anew as a whole by who holds its key, show only against a
    checkpoint that was kept somewhere else.
    """
    from forensics.audit import verify_ledger

    output = Output(as_json)
    report = verify_ledger(
        _existing(ledger),
        key=None if key is None else _key(key),
        checkpoints=[_checkpoint(path) for path in checkpoint or []],
    )
    output.say(f"{'INTACT' if report.is_intact else 'BROKEN'}  {report.num_entries} entries")
    rows = {"key": report.key, "head": report.head_hash, "root": report.root}
    rows["checkpoints"] = f"{report.num_checkpoints} agree"
    if report.torn_bytes:
        rows["torn"] = f"{report.torn_bytes} bytes behind the last entry, from a power cut"
    if report.unfinished:
        rows["unfinished"] = ", ".join(map(str, report.unfinished))
    if report.clock_steps:
        rows["clock went back"] = ", ".join(map(str, report.clock_steps))
    output.say(table(rows))
    for problem in report.problems:
        output.say(f"  {problem}")
    output.result({"ok": report.is_intact, **report.as_json()})
    return ExitCode.OK if report.is_intact else ExitCode.INTEGRITY


@app.command(
    "checkpoint",
    short_help="Sign what the ledger holds, to keep elsewhere.",
    epilog=examples("veilcam audit checkpoint -o /mnt/elsewhere/$(date +%F).checkpoint"),
)
def checkpoint(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="The checkpoint.")],
    ledger: LedgerPath = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Verify the ledger and sign its size and Merkle root. Keep the file where its owner cannot write."""
    from base.files import atomic_write
    from forensics.audit import make_checkpoint
    from veilcam.cli.paths import new_file

    output = Output(as_json)
    new_file(out, force=force)
    made, key, _ = make_checkpoint(_existing(ledger))
    atomic_write(out, bytes(made))
    output.say(f"{made.size} entries, root {made.root.hex()}")
    output.say(f"key {key}")
    output.result(
        {"ok": True, "out": str(out), "entries": made.size, "root": made.root.hex(), "key": str(key)}
    )


@app.command(
    "prove",
    short_help="Prove an entry, or that nothing went missing, to somebody without the ledger.",
    epilog=examples(
        "veilcam audit prove 41 -o 41.proof", "veilcam audit prove --since old.checkpoint -o c.proof"
    ),
)
def prove(
    number: Annotated[int | None, typer.Argument(metavar="[N]", min=0, help="The entry to prove.")] = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="The proof.")],
    since: Annotated[
        Path | None, typer.Option(metavar="CHECKPOINT", help="Prove that all it covers is still there.")
    ] = None,
    ledger: LedgerPath = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Write a proof that `audit check`, or anything that knows RFC 6962, checks with the ledger's key.

    An inclusion proof shows one entry and hides the others.
    """
    from base.files import atomic_write
    from forensics.audit import make_checkpoint
    from forensics.ledger_index import LedgerIndex
    from forensics.ledger_proofs import ConsistencyProof, InclusionProof, Proof
    from veilcam.cli.paths import new_file

    output = Output(as_json)
    if (number is None) == (since is None):
        raise UsageError("give either the number of an entry, or --since CHECKPOINT")
    new_file(out, force=force)
    path = _existing(ledger)
    made, key, leaves = make_checkpoint(path)
    proof: Proof
    if since is not None:
        first = _checkpoint(since)
        first.verify(key)
        proof = ConsistencyProof.make(first, made, leaves)
    else:
        with LedgerIndex(path) as index:
            line = index.line(number or 0)
        proof = InclusionProof.make(made, leaves, number or 0, line)
    proof.verify(key)
    atomic_write(out, bytes(proof) + b"\n")
    output.say(f"{out}: check it with --key {key}")
    output.result({"ok": True, "out": str(out), "key": str(key), "path": len(proof.path)})


@app.command(
    "check",
    short_help="Check a proof; needs no ledger.",
    epilog=examples("veilcam audit check 41.proof --key veilcam.ledger/0123456789abcdef+01234567+AQ..."),
)
def check(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="From `audit prove`.")],
    *,
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="The ledger's verifier key.")],
    as_json: JsonFlag = False,
) -> None:
    """Check a proof, offline. Status 3 if it does not hold."""
    from base.files import read_bounded
    from forensics.ledger_proofs import MAX_PROOF_BYTES, InclusionProof, parse_proof
    from veilcam.cli.paths import existing_file

    output = Output(as_json)
    existing_file(proof, "PROOF")
    try:
        data = read_bounded(proof, MAX_PROOF_BYTES + 1)
        parsed = parse_proof(data, where=proof.name)
    except FormatError as error:
        raise UsageError(f"PROOF: {error}") from error
    expected = _key(key)
    if isinstance(parsed, InclusionProof):
        entry = parsed.verify(expected)
        output.say(f"entry {entry.seq} of {parsed.checkpoint.size} is in {expected.origin}")
        output.say(_readable(entry))
        output.result({"ok": True, "kind": "inclusion", "size": parsed.checkpoint.size, **_document(entry)})
        return
    parsed.verify(expected)
    output.say(
        f"{expected.origin}: its {parsed.second.size} entries begin with the {parsed.first.size} before"
    )
    output.result(
        {"ok": True, "kind": "consistency", "first": parsed.first.size, "second": parsed.second.size}
    )


def _existing(ledger: Path | None) -> Path:
    from forensics.ledger import default_ledger_path
    from veilcam.cli.paths import existing_file

    return existing_file(ledger or default_ledger_path(), "ledger")


def _time(text: str | None, option: str) -> int | None:
    from forensics.selection import parse_time

    if text is None:
        return None
    point = parse_time(text)
    if not point.is_absolute:
        raise UsageError(f"{option}: expected a time in ISO 8601 with a zone, such as 2026-11-30T08:00:00Z")
    return point.micros


def _key(text: str) -> VerifierKey:
    from forensics.checkpoint import VerifierKey

    try:
        return VerifierKey.parse(text)
    except FormatError as error:
        raise UsageError(f"--key: {error}") from error


def _checkpoint(path: Path) -> Checkpoint:
    from base.files import read_bounded
    from forensics.checkpoint import MAX_NOTE_BYTES, Checkpoint
    from veilcam.cli.paths import existing_file

    try:
        return Checkpoint.parse(read_bounded(existing_file(path, "CHECKPOINT"), MAX_NOTE_BYTES))
    except FormatError as error:
        raise UsageError(f"{path}: {error}") from error


def _readable(entry: LedgerEntry) -> str:
    """The body, indented; what a terminal or the direction of reading would obey is escaped."""
    text = json.dumps(dict(entry.body), indent=2, ensure_ascii=False)
    return "".join(c if c == "\n" or is_plain_text(c) else f"\\u{ord(c):04x}" for c in text)


def _one_line(entry: LedgerEntry) -> str:
    body = entry.body
    who = body.get("who")
    user = who.get("user") if isinstance(who, dict) else None
    source = body.get("input")
    name = source.get("name") if isinstance(source, dict) else None
    shown = [user, body.get("action"), name, body.get("case"), body.get("grant"), body.get("result")]
    text = " ".join(str(each) for each in shown if each)
    safe = "".join(char if is_plain_text(char) else "\ufffd" for char in text)  # people wrote some of it
    return f"{entry.seq:>6}  {entry.time}  {entry.kind:<15} {safe}"


def _document(entry: LedgerEntry) -> dict[str, object]:
    return {**entry.unsigned(), "hash": entry.hash, "sig": entry.sig.hex()}
