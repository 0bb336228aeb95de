"""``veilcam keys split | words | enter | ask | approve``: keys that take several people."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from base.errors import UsageError, VeilError
from veilcam.cli.options import JsonFlag, examples
from veilcam.cli.output import Output, table

if TYPE_CHECKING:
    from base.canonical import JsonObject
    from keys.shares import LockedShare

ShareFile = Annotated[Path, typer.Argument(metavar="SHARE", help="NAME.HOLDER.share")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command(
        "split",
        short_help="Deal a key to several people: NAME.HOLDER.share.",
        epilog=examples(
            "veilcam keys split custody -k 2 --holder dora --holder emil --holder fay",
            "veilcam keys split old.identity -k 2 --holder dora --holder emil --destroy",
            "veilcam decode out.mp4 -o back.mp4 -i shares:custody.dora.share,custody.fay.share",
        ),
    )(split)
    app.command(
        "words",
        short_help="Show a share as words, for paper.",
        epilog=examples("veilcam keys words custody.dora.share"),
    )(words)
    app.command(
        "enter",
        short_help="Make a lost share file again from its words.",
        epilog=examples("veilcam keys enter custody.dora.share --holder emil"),
    )(enter)
    app.command(
        "ask",
        short_help="Ask share holders for one opening: NAME.request.",
        epilog=examples(
            "veilcam keys ask case-117 --share custody.dora.share --case 117 --reason 'theft at the gate'",
            "veilcam decode out.mp4 -o back.mp4 -i quorum:case-117.request",
        ),
    )(ask)
    app.command(
        "approve",
        short_help="Approve an opening with one's share.",
        epilog=examples("veilcam keys approve case-117.request --share custody.emil.share"),
    )(approve)


def split(
    source: Annotated[
        str, typer.Argument(metavar="NAME", help="A new key's name, or an existing NAME.identity to split.")
    ],
    *,
    threshold: Annotated[
        int, typer.Option("-k", "--threshold", help="How many people it takes.", min=2, max=16)
    ],
    holder: Annotated[list[str], typer.Option(help="A person who gets a share; repeat, 2 to 16.")],
    destroy: Annotated[bool, typer.Option("--destroy", help="Then destroy the identity file.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Deal a recipient's private key to several people, any K of whom can open together; no fewer can.

    With a new name the key pair is made for it (NAME.recipient) and never lies whole on a disk. Each holder
    types a passphrase of his own (or VEILCAM_PASSPHRASE_HOLDER holds it) and takes his NAME.HOLDER.share
    away.
    """
    from keys.recipient import Identity, Recipient
    from keys.shares import LockedShare, split_identity
    from keys.store import save_recipient
    from keys.writing import refuse_existing, write_private
    from veilcam.cli.key_files import identity_from
    from veilcam.cli.key_names import note, place
    from veilcam.cli.passphrase import new_passphrase

    output = Output(as_json)
    existing = Path(source) if source.endswith(".identity") else None
    if existing is None and destroy:
        raise UsageError("--destroy: there is no identity file; the key is new")
    if existing is None:
        folder, stem = place(source, "recipient", "identity")
        public, identity = Recipient.generate(stem)
    else:
        opened = identity_from(existing, "NAME")
        if not isinstance(opened, Identity):
            raise UsageError("NAME: expected an identity file")
        folder, identity, public = existing.parent, opened, opened.recipient
    paths = [folder / f"{public.name}.{each}.share" for each in holder]
    for path in paths:
        refuse_existing(path)
    dealt = split_identity(identity, threshold, holder)
    locked = [LockedShare.seal(share, new_passphrase(f"share of {share.holder}")) for share in dealt]
    facts: JsonObject = {
        "recipient": public.recipient_id.hex(),
        "threshold": threshold,
        "holders": list(holder),
    }
    note("split", facts)
    for path, each in zip(paths, locked, strict=True):
        write_private(path, bytes(each))
    recipient_path = (
        save_recipient(folder, public) if existing is None else folder / f"{public.name}.recipient"
    )
    if existing is not None and destroy:
        from veilcam.cli.keys_life import erase_identity

        erase_identity(existing, identity, "split", ())
    output.say(f"{threshold} of {len(holder)}: recipient {public.name}, id {public.recipient_id.hex()}")
    output.say(
        "".join(f"  {path}  private: for {who} alone\n" for path, who in zip(paths, holder, strict=True))
    )
    if existing is not None and not destroy:
        output.say(f"{existing} still opens everything alone: destroy it (veilcam keys destroy {existing})")
    output.result({"ok": True, **facts, "file": str(recipient_path), "shares": [str(path) for path in paths]})


def words(share: ShareFile, *, as_json: JsonFlag = False) -> None:
    """Print a share as 33 words (SLIP-0039). Write them on paper by hand; no printer, no photograph."""
    from veilcam.cli.key_names import note
    from veilcam.cli.passphrase import known_passphrase

    output = Output(as_json)
    locked = _share(share)
    opened = locked.open(known_passphrase(f"share of {locked.holder}"))
    note("words", {"recipient": locked.share_set.recipient_id.hex(), "holder": locked.holder})
    text = opened.value.words()
    lines = text.split()
    output.say(
        "\n".join(
            "  ".join(f"{i + 1:2} {lines[i]:<9}" for i in range(r, min(r + 4, 33))) for r in range(0, 33, 4)
        )
    )
    output.result({"ok": True, "holder": locked.holder, "words": text})


def enter(
    share: Annotated[Path, typer.Argument(metavar="SHARE", help="Another holder's file of the same set.")],
    *,
    holder: Annotated[str, typer.Option(help="Whose share the words are.")],
    as_json: JsonFlag = False,
) -> None:
    """Read the 33 words of a share from standard input and write its file again, under a new passphrase."""
    from keys.shares import LockedShare, OpenShare
    from keys.slip39 import MAX_WORDS_CHARACTERS, from_words
    from keys.writing import refuse_existing, write_private
    from veilcam.cli.passphrase import new_passphrase

    output = Output(as_json)
    dealt = _share(share).share_set
    path = share.parent / f"{dealt.name}.{holder}.share"
    refuse_existing(path)
    if sys.stdin.isatty():
        print("The 33 words, then an empty line:", file=sys.stderr)
    typed: list[str] = []
    while sum(map(len, typed)) < MAX_WORDS_CHARACTERS and (line := sys.stdin.readline(1000).strip()):
        typed.append(line)
    value = from_words(" ".join(typed))
    dealt.check(value, holder)
    write_private(
        path, bytes(LockedShare.seal(OpenShare(dealt, holder, value), new_passphrase(f"share of {holder}")))
    )
    output.say(f"share of {holder}\n  {path}")
    output.result({"ok": True, "holder": holder, "share": str(path)})


def ask(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the request, such as the case.")],
    *,
    share: Annotated[Path, typer.Option(metavar="FILE", help="Any share file of the set; it is not opened.")],
    reason: Annotated[str, typer.Option(help="Why; the holders and the ledger see it.")],
    case: Annotated[str, typer.Option(help="Case number; likewise.")] = "",
    hours: Annotated[int, typer.Option(help="How long approvals hold.", min=1, max=720)] = 24,
    as_json: JsonFlag = False,
) -> None:
    """Ask share holders to approve one opening: NAME.request for them, NAME.identity for this machine.

    Send NAME.request to the holders; put their NAME.HOLDER.approval files beside it; then open with
    `--identity quorum:NAME.request`. That works once.
    """
    from base.files import atomic_write
    from keys.opening_request import OpeningRequest
    from keys.recipient import Recipient
    from keys.store import save_identity
    from veilcam.cli.key_names import asker, note, now_us, place
    from veilcam.cli.passphrase import new_passphrase

    output = Output(as_json)
    folder, stem = place(name, "request", "identity")
    dealt = _share(share, "--share").share_set
    session, identity = Recipient.generate(stem)
    created_us = now_us()
    request = OpeningRequest(
        session, dealt, case, reason, asker(), created_us, created_us + hours * 3_600_000_000
    )
    passphrase = new_passphrase(f"opening {stem}")
    facts: JsonObject = {
        "recipient": dealt.recipient_id.hex(),
        "request": request.digest.hex(),
        "case": case,
        "reason": reason,
    }
    note("ask", facts)
    save_identity(folder, identity, passphrase)
    path = folder / f"{stem}.request"
    atomic_write(path, bytes(request))
    output.say(
        f"{dealt.threshold} approvals needed (`keys approve`; asking is none)\n"
        f"  fingerprint {request.fingerprint}\n  {path}  for the holders"
    )
    output.result(
        {
            "ok": True,
            **facts,
            "needed": dealt.threshold,
            "fingerprint": request.fingerprint,
            "file": str(path),
        }
    )


def approve(
    request: Annotated[Path, typer.Argument(metavar="REQUEST", help="NAME.request")],
    *,
    share: Annotated[Path, typer.Option(metavar="FILE", help="One's own NAME.HOLDER.share.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Look at a request and approve it: write NAME.HOLDER.approval, for the one who asked.

    Compare the fingerprint with him over another channel. The approval holds for this one request.
    """
    from base.files import atomic_write
    from keys.opening_request import ShareApproval
    from keys.quorum import load_request
    from veilcam.cli.key_files import wrong_kind_is_usage
    from veilcam.cli.key_names import note, now_us
    from veilcam.cli.passphrase import known_passphrase
    from veilcam.cli.paths import existing_file

    output = Output(as_json)
    with wrong_kind_is_usage("REQUEST"):
        asked = load_request(existing_file(request, "REQUEST"))
    locked = _share(share, "--share")
    path = request.parent / f"{asked.session.name}.{locked.holder}.approval"
    if path.exists():
        raise UsageError(f"{path} exists already")
    asked.check_time(now_us())
    shown = {
        "request": asked.session.name,
        "who": asked.who,
        "case": asked.case,
        "reason": asked.reason,
        "opens": f"everything sealed to {asked.share_set.name} ({asked.share_set.recipient_id.hex()})",
        "fingerprint": asked.fingerprint,
    }
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("approve: run on a terminal, or add --yes")
        print(table(shown), file=sys.stderr)
        if not typer.confirm("Approve?", err=True):
            raise VeilError("nothing was approved")
    opened = locked.open(known_passphrase(f"share of {locked.holder}"))
    note(
        "approve",
        {"request": asked.digest.hex(), "holder": locked.holder, "case": asked.case, "reason": asked.reason},
    )
    atomic_write(path, bytes(ShareApproval.make(asked, opened, now_us())))
    output.say(f"approved by {locked.holder}\n  {path}  for {asked.who}")
    output.result({"ok": True, **shown, "holder": locked.holder, "approval": str(path)})


def _share(path: Path, option: str = "SHARE") -> LockedShare:
    from keys.quorum import load_share
    from veilcam.cli.key_files import wrong_kind_is_usage
    from veilcam.cli.paths import existing_file

    with wrong_kind_is_usage(option):
        return load_share(existing_file(path, option))
