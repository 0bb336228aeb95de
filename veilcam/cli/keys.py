"""``veilcam keys``: make and look at key files; the files beside this one have the rest of a key's life."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from base.errors import UsageError
from veilcam.cli import keys_certificates, keys_custody, keys_life
from veilcam.cli.key_names import place
from veilcam.cli.options import JsonFlag, examples
from veilcam.cli.output import Output, table

if TYPE_CHECKING:
    from keys.scope import Scope

app = typer.Typer(
    help="Make keys and look after them until they are destroyed (docs/keys.md).",
    epilog=examples(
        "veilcam keys recipient custodian",
        "veilcam keys camera gate",
        "veilcam keys show gate.pub",
        "veilcam keys split custody -k 2 --holder dora --holder emil --holder fay",
    ),
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the key; a folder may stand before it.")]


@app.command(
    "recipient",
    short_help="Make a recipient: NAME.recipient and NAME.identity.",
    epilog=examples(
        "veilcam keys recipient custodian", "VEILCAM_PASSPHRASE=... veilcam keys recipient keys/custodian"
    ),
)
def recipient(
    name: Name,
    *,
    suite: Annotated[
        Literal["mlkem768x25519", "x25519", "p256"] | None,
        typer.Option(help="How keys are wrapped to this recipient; mlkem768x25519, in tokens p256."),
    ] = None,
    cameras: Annotated[
        list[Path] | None,
        typer.Option(
            "--camera", "-c", metavar="FILE", help="NAME.pub of a camera he is for; all by default."
        ),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="T", help="He opens what is recorded from then (ISO 8601)")
    ] = None,
    end: Annotated[str | None, typer.Option("--until", metavar="T", help="and before then.")] = None,
    token: Annotated[
        str | None,
        typer.Option("--in", metavar="URI", help="Make the key in a token: pkcs11:token=...;object=..."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a recovery recipient: NAME.recipient (public) and NAME.identity (private, under a passphrase).

    Give NAME.recipient to cameras. Keep NAME.identity off them, with a copy in a second place: it alone opens
    what was sealed to it. The passphrase is asked for, or taken from VEILCAM_PASSPHRASE. Existing keys are
    never overwritten. With a scope (--camera, --from, --until) cameras seal to him only what lies in it. With
    --in the private key is made in a token and never leaves it; use the URI as the identity.
    """
    from keys.recipient import Recipient
    from keys.scope import EVERYTHING, ScopedRecipient, save_scoped
    from keys.store import save_identity, save_recipient
    from keys.suite import DEFAULT_SUITE, Suite
    from veilcam.cli.passphrase import known_passphrase, new_passphrase

    output = Output(as_json)
    folder, stem = place(name, "recipient", "identity")
    scope = _scope(cameras or [], start, end)
    chosen = Suite.from_label(suite or ("p256" if token else DEFAULT_SUITE.label)) or DEFAULT_SUITE
    if token:
        from keys.pkcs11_token import Token
        from keys.pkcs11_uri import Pkcs11Uri

        made = Token(Pkcs11Uri.parse(token), known_passphrase).generate(stem, chosen)
        public, private = Recipient(stem, made.suite, made.public_key), token
    else:
        public, identity = Recipient.generate(stem, chosen)
        private = str(save_identity(folder, identity, new_passphrase(f"identity {stem}")))
    if scope == EVERYTHING:
        public_path = save_recipient(folder, public)
    else:
        public_path = save_scoped(folder, ScopedRecipient(public, scope))
    key_id = public.recipient_id.hex()
    output.say(f"recipient {stem} ({chosen.label}), id {key_id}")
    output.say(f"  {public_path}  public: give it to cameras")
    output.say(f"  {private}  private: keep it and its passphrase safe, there is no other way back")
    output.result(
        {
            "ok": True,
            "name": stem,
            "suite": chosen.label,
            "id": key_id,
            "recipient": str(public_path),
            "identity": private,
        }
    )


def _scope(cameras: list[Path], start: str | None, end: str | None) -> Scope:
    from keys.scope import Scope
    from veilcam.cli.key_files import camera_public_from
    from veilcam.cli.key_names import moment_us

    return Scope(
        frozenset(camera_public_from(path).camera_id for path in cameras) or None,
        moment_us(start, "--from") if start else None,
        moment_us(end, "--until") if end else None,
    )


@app.command(
    "camera",
    short_help="Make a camera: NAME.camera and NAME.pub.",
    epilog=examples("veilcam keys camera gate", "veilcam keys camera gate --tpm --pcrs sha256:0,7"),
)
def camera(
    name: Name,
    *,
    tpm: Annotated[
        bool, typer.Option("--tpm", help="Seal the key to this machine's TPM 2.0 (needs tpm2-tools).")
    ] = False,
    pcrs: Annotated[
        str | None,
        typer.Option(metavar="BANK:N,N", help="With --tpm: opens only while these PCRs have today's values."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a camera identity: NAME.camera (private, mode 0600, signs) and NAME.pub (public, verifies).

    The camera's key opens nothing; it only signs. Existing keys are never overwritten. With --tpm the file is
    good on this machine alone, and a copy of its disk does not have the key; make a new key (`keys rotate`)
    when the machine or, with --pcrs, its firmware changes.
    """
    from veilcam.cli.key_names import draw_camera, save_new_camera

    if pcrs is not None and not tpm:
        raise UsageError("--pcrs: needs --tpm")
    output = Output(as_json)
    folder, stem = place(name, "camera", "pub")
    key = draw_camera(stem, is_sealed=tpm, pcrs=pcrs)
    private_path, public_path = save_new_camera(folder, key)
    camera_id = key.public.camera_id.hex()
    output.say(f"camera {stem} (ed25519), id {camera_id}")
    where = "private, sealed to this machine's TPM" if tpm else "private"
    output.say(f"  {private_path}  {where}: for the camera process only")
    output.say(f"  {public_path}  public: for everybody who verifies")
    output.result(
        {"ok": True, "name": stem, "id": camera_id, "camera": str(private_path), "pub": str(public_path)}
    )


@app.command(
    "show",
    short_help="Say what a key file is.",
    epilog=examples("veilcam keys show gate.pub", "veilcam keys show custodian.identity --json"),
)
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Any key file.")], *, as_json: JsonFlag = False
) -> None:
    """Say what a key file is: kind, name, id, suite. Needs no passphrase and shows no secret."""
    from keys.store import describe
    from veilcam.cli.key_files import wrong_kind_is_usage
    from veilcam.cli.paths import existing_file

    output = Output(as_json)
    with wrong_kind_is_usage("FILE"):
        info = describe(existing_file(file, "FILE"))
    shown = {"kind": info.kind, "name": info.name, "id": info.key_id.hex(), "suite": info.suite}
    output.say(table(shown))
    output.result({"ok": True, "file": str(file), **shown})


for _module in (keys_certificates, keys_custody, keys_life):
    _module.register(app)
