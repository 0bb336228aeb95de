"""``veilcam keys``: make and look at key files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from base.errors import UsageError
from veilcam.cli.options import JsonFlag, examples
from veilcam.cli.output import Output, table

app = typer.Typer(
    help="Make and look at key files.",
    epilog=examples(
        "veilcam keys recipient custodian", "veilcam keys camera gate", "veilcam keys show gate.pub"
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
        Literal["mlkem768x25519", "x25519"], typer.Option(help="How keys are wrapped to this recipient.")
    ] = "mlkem768x25519",
    as_json: JsonFlag = False,
) -> None:
    """Make a recovery recipient: NAME.recipient (public) and NAME.identity (private, under a passphrase).

    Give NAME.recipient to cameras. Keep NAME.identity off them, with a copy in a second place: it alone opens
    what was sealed to it. The passphrase is asked for, or taken from VEILCAM_PASSPHRASE. Existing keys are
    never overwritten.
    """
    from keys.recipient import Recipient
    from keys.store import save_identity, save_recipient
    from keys.suite import DEFAULT_SUITE, Suite
    from veilcam.cli.passphrase import new_passphrase

    output = Output(as_json)
    folder, stem = _place(name, "recipient", "identity")
    public, identity = Recipient.generate(stem, Suite.from_label(suite) or DEFAULT_SUITE)
    private_path = save_identity(folder, identity, new_passphrase(f"identity {stem}"))
    public_path = save_recipient(folder, public)
    key_id = public.recipient_id.hex()
    output.say(f"recipient {stem} ({suite}), id {key_id}")
    output.say(f"  {public_path}  public: give it to cameras")
    output.say(f"  {private_path}  private: keep it and its passphrase safe, there is no other way back")
    output.result(
        {
            "ok": True,
            "name": stem,
            "suite": suite,
            "id": key_id,
            "recipient": str(public_path),
            "identity": str(private_path),
        }
    )


@app.command(
    "camera",
    short_help="Make a camera: NAME.camera and NAME.pub.",
    epilog=examples("veilcam keys camera gate"),
)
def camera(name: Name, *, as_json: JsonFlag = False) -> None:
    """Make a camera identity: NAME.camera (private, mode 0600, signs) and NAME.pub (public, verifies).

    The camera's key opens nothing; it only signs. Existing keys are never overwritten.
    """
    from keys.camera import CameraKey
    from keys.store import save_camera, save_camera_public

    output = Output(as_json)
    folder, stem = _place(name, "camera", "pub")
    key = CameraKey.generate(stem)
    private_path = save_camera(folder, key)
    public_path = save_camera_public(folder, key.public)
    camera_id = key.camera_id.hex()
    output.say(f"camera {stem} (ed25519), id {camera_id}")
    output.say(f"  {private_path}  private: for the camera process only")
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


def _place(name: str, *suffixes: str) -> tuple[Path, str]:
    """Folder and bare name; refuses early what would fail after the passphrase was typed."""
    from keys.names import checked_name

    path = Path(name)
    stem = checked_name(path.name)
    if not path.parent.is_dir():
        raise UsageError(f"NAME: no such folder: {path.parent}")
    for suffix in suffixes:
        target = path.parent / f"{stem}.{suffix}"
        if target.exists():
            raise UsageError(f"{target} exists already; keys are not overwritten, choose another name")
    return path.parent, stem
