"""``veilcam keys rotate | backup | restore | destroy | list``: keys from their beginning to their end."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from base.errors import FormatError, UsageError, VeilError
from veilcam.cli.options import JsonFlag, examples
from veilcam.cli.output import Output

if TYPE_CHECKING:
    from keys.destruction import Destruction
    from keys.wrap import Unwrapper


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command(
        "rotate",
        short_help="Make the successor of a key: NAME-2.",
        epilog=examples("veilcam keys rotate custody.identity", "veilcam keys rotate gate.camera"),
    )(rotate)
    app.command(
        "backup",
        short_help="Back up a folder of keys into one file.",
        epilog=examples("veilcam keys backup keys/ -o keys-2026-11.backup"),
    )(backup)
    app.command(
        "restore",
        short_help="Bring a backup back.",
        epilog=examples("veilcam keys restore keys.backup --into keys/", "veilcam keys restore keys.backup"),
    )(restore)
    app.command(
        "destroy",
        short_help="Destroy a private key: erasure of what was sealed to it.",
        epilog=examples(
            "veilcam keys destroy custody-2026-11.identity --reason retention --recording nov/*.mp4",
            "veilcam keys destroy 'pkcs11:token=custody;object=custody-2026-11' --reason retention",
        ),
    )(destroy)
    app.command(
        "list",
        short_help="What lies in a folder of keys, and what expires.",
        epilog=examples("veilcam keys list keys/", "veilcam keys list keys/ --json"),
    )(list_keys)


def rotate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="NAME.identity or NAME.camera")],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Make the successor of a key, NAME-2 (then -3, ...), and say what is to be done with both.

    A camera key that is sealed to the TPM is followed by one that is, on this machine. The old key stays: an
    identity opens what was sealed to it, a camera's public key verifies what it signed.
    """
    from keys.recipient import Recipient
    from keys.store import describe, save_identity, save_recipient, sealed_pcrs
    from veilcam.cli.key_files import wrong_kind_is_usage
    from veilcam.cli.key_names import draw_camera, next_name, note, save_new_camera
    from veilcam.cli.passphrase import new_passphrase
    from veilcam.cli.paths import existing_file

    output = Output(as_json)
    folder = file.parent
    with wrong_kind_is_usage("FILE"):
        old = describe(existing_file(file, "FILE"))
    if old.kind == "identity":
        name = next_name(folder, old.name, "identity", "recipient")
        from keys.suite import DEFAULT_SUITE, Suite

        public, identity = Recipient.generate(name, Suite.from_label(old.suite) or DEFAULT_SUITE)
        passphrase = new_passphrase(f"identity {name}")
        note("rotate", {"old": old.key_id.hex(), "new": public.recipient_id.hex(), "kind": old.kind})
        paths = [save_identity(folder, identity, passphrase), save_recipient(folder, public)]
        new_id = public.recipient_id
        todo = (
            f"give {paths[1]} to the cameras in place of {old.name}.recipient; keep {file} for old recordings"
        )
    elif old.kind in ("camera", "sealed-camera"):
        name = next_name(folder, old.name, "camera", "pub")
        is_sealed = old.kind == "sealed-camera"
        key = draw_camera(name, is_sealed=is_sealed, pcrs=sealed_pcrs(file) if is_sealed else None)
        new_id = key.public.camera_id
        note("rotate", {"old": old.key_id.hex(), "new": new_id.hex(), "kind": old.kind})
        paths = list(save_new_camera(folder, key))
        todo = f"certify {name}, run the camera with {paths[0]}, then revoke {old.name} as superseded"
    else:
        raise UsageError(f"FILE: expected NAME.identity or NAME.camera, got a file of kind {old.kind}")
    output.say(f"{name}, id {new_id.hex()}, follows {old.name}\n" + "\n".join(f"  {path}" for path in paths))
    output.say(todo)
    output.result(
        {
            "ok": True,
            "old": old.key_id.hex(),
            "name": name,
            "new": new_id.hex(),
            "files": [str(p) for p in paths],
        }
    )


def backup(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder with key files.", file_okay=False, exists=True)
    ],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The backup.")],
    as_json: JsonFlag = False,
) -> None:
    """Put all key files of a folder into one file under a passphrase of its own (scrypt, AES-256-GCM).

    Keep it in another place than the keys. Whoever has it and its passphrase has all of them that have no
    passphrase of their own. Names can be read without it.
    """
    from keys.backup import Backup, read_folder
    from keys.writing import refuse_existing, write_private
    from veilcam.cli.key_names import note, now_us
    from veilcam.cli.passphrase import new_passphrase

    output = Output(as_json)
    refuse_existing(out)
    files = read_folder(folder)
    if not files:
        raise UsageError(f"FOLDER: no key files in {folder}")
    data = bytes(Backup.seal(files, new_passphrase("backup"), created_us=now_us()))
    note("backup", {"files": sorted(files), "sha256": hashlib.sha256(data).hexdigest()})
    write_private(out, data)
    output.say(
        f"{len(files)} files\n  {out}  private; `veilcam keys restore {out}` tries it, writing nothing"
    )
    output.result({"ok": True, "files": sorted(files), "backup": str(out)})


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")],
    *,
    into: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where the files go; without it, the backup is only tried."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Bring the files of a backup back, none over another; a key that was destroyed in FOLDER stays away."""
    from base.files import read_bounded
    from keys.backup import MAX_BACKUP_BYTES, Backup, write_folder
    from veilcam.cli.key_files import wrong_kind_is_usage
    from veilcam.cli.key_names import note
    from veilcam.cli.passphrase import known_passphrase
    from veilcam.cli.paths import existing_file

    output = Output(as_json)
    with wrong_kind_is_usage("FILE"):
        found = Backup.parse(read_bounded(existing_file(file, "FILE"), MAX_BACKUP_BYTES))
    if into is not None and not into.is_dir():
        raise UsageError(f"--into: no such folder: {into}")
    files = found.open(known_passphrase("backup"))
    if into is None:
        output.say("it opens; it holds\n" + "\n".join(f"  {name}" for name in found.names))
        output.result({"ok": True, "files": list(found.names), "written": []})
        return
    note("restore", {"files": list(found.names)})
    written, left_out = write_folder(into, files)
    output.say("\n".join([*(f"  {path}" for path in written), *(f"  {name}  left out" for name in left_out)]))
    output.result({"ok": True, "written": [str(path) for path in written], "left_out": left_out})


def destroy(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="NAME.identity, NAME.HOLDER.share, or a pkcs11: URI.")
    ],
    *,
    reason: Annotated[str, typer.Option(help="Why; goes into the record and the ledger.")],
    recording: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Recordings that become unreadable; their epochs go into the record."
        ),
    ] = None,
    untested: Annotated[
        bool, typer.Option("--untested", help="The passphrase is lost: destroy without trying the key.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Destroy a private key for ever: what was sealed to it alone is erased in every copy.

    First the key is tried on a message sealed to its recipient, so that the right one goes; then the ledger
    is written; then the file is overwritten and removed (a token deletes its key itself). NAME.destroyed
    stays: it names the key, the hash of its file and the epochs. Backups, shares and other copies are yours
    to destroy.
    """
    from keys.destruction import prove_possession
    from veilcam.cli.key_files import identity_from

    output = Output(as_json)
    if key.endswith(".share"):
        _destroy_share(Path(key), reason, yes=yes)
        output.result({"ok": True, "destroyed": key})
        return
    is_token = key.startswith("pkcs11:")
    if not is_token and not key.endswith(".identity"):
        raise UsageError("KEY: expected NAME.identity, NAME.HOLDER.share or a pkcs11: URI")
    key = key.removeprefix("file:")
    if not is_token:
        _refuse_unerasable(Path(key))
    opener = None if untested and not is_token else identity_from(key, "KEY")
    if opener is not None:
        prove_possession(opener)
    epochs = epochs_of(recording or [], _recipient_id(Path(key), opener))
    _confirm(f"Destroy {key}? What is sealed to it alone can never be opened again", yes=yes)
    record_path = (erase_token if is_token else erase_identity)(key, opener, reason, epochs)
    output.say(f"destroyed {key}; {len(epochs)} epochs named are erased\n  {record_path}  the record")
    output.result(
        {"ok": True, "destroyed": key, "epochs": [each.hex() for each in epochs], "record": str(record_path)}
    )


def erase_identity(path: Path | str, opener: Unwrapper | None, reason: str, epochs: Sequence[bytes]) -> Path:
    """Ledger, record, then the file; returns the record's path."""
    from base.files import read_bounded
    from keys import textfile
    from keys.destruction import Destruction
    from keys.erase import erase_file
    from keys.store import load_locked_identity
    from veilcam.cli.key_names import asker, now_us

    path = Path(path)
    locked = load_locked_identity(path)
    digest = hashlib.sha256(read_bounded(path, textfile.MAX_FILE_BYTES)).digest()
    record = Destruction(
        locked.name,
        locked.suite,
        locked.recipient_id,
        path.name,
        digest,
        opener is not None,
        now_us(),
        asker(),
        reason,
        tuple(epochs),
    )
    record_path = _note_destruction(path.with_suffix(".destroyed"), record)
    erase_file(path)
    return record_path


def erase_token(uri: Path | str, opener: Unwrapper | None, reason: str, epochs: Sequence[bytes]) -> Path:
    """Ledger, record, then the key in its token; returns the record's path."""
    from keys.destruction import Destruction
    from keys.pkcs11_token import Token
    from keys.pkcs11_uri import Pkcs11Uri
    from veilcam.cli.key_names import asker, now_us
    from veilcam.cli.passphrase import known_passphrase

    assert opener is not None  # noqa: S101  # a token's key is always opened
    recipient = opener.recipient
    record = Destruction(
        recipient.name,
        recipient.suite,
        recipient.recipient_id,
        "pkcs11",
        bytes(32),
        True,
        now_us(),
        asker(),
        reason,
        tuple(epochs),
    )
    token = Token(Pkcs11Uri.parse(str(uri)), known_passphrase)
    record_path = _note_destruction(Path(f"{recipient.name}.destroyed"), record)
    token.destroy()
    return record_path


def epochs_of(recordings: Sequence[Path], recipient_id: bytes) -> tuple[bytes, ...]:
    """Epochs of ``recordings`` that are sealed to this recipient and nobody else, sorted.

    Raises:
        UsageError: a recording is missing.
    """
    from codec.container import read_access_units
    from codec.segments import read_segments
    from veilcam.cli.paths import existing_file

    found: set[bytes] = set()
    for path in recordings:
        with read_access_units(existing_file(path, "--recording")) as units:
            for view in read_segments(units):
                try:
                    header = view.header()
                except FormatError:
                    continue
                if header is not None and {s.recipient_id for s in header.stanzas} == {recipient_id}:
                    found.add(header.epoch_id)
    return tuple(sorted(found))


def list_keys(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Folder with key files.", file_okay=False, exists=True)
    ] = Path(),
    *,
    as_json: JsonFlag = False,
) -> int:
    """List the key files of a folder, with what is due: what expires, what is revoked or destroyed.

    Status 1 if something has expired, so that a timer can tell.
    """
    from veilcam.cli.key_names import now_us
    from veilcam.cli.key_table import rows_of

    output = Output(as_json)
    rows = rows_of(folder, now_us())
    width = max((len(row.file) for row in rows), default=0)
    output.say(
        "\n".join(f"{r.file:<{width}}  {r.kind:<17} {r.key_id:<34} {r.state}" for r in rows) or "no key files"
    )
    has_expired = any(row.is_expired for row in rows)
    shown = [{"file": r.file, "kind": r.kind, "name": r.name, "id": r.key_id, "state": r.state} for r in rows]
    output.result({"ok": not has_expired, "keys": shown})
    return 1 if has_expired else 0


def _note_destruction(path: Path, record: Destruction) -> Path:
    from base.files import atomic_write
    from veilcam.cli.key_names import note

    if path.exists() and _read_record(path).recipient_id != record.recipient_id:
        raise UsageError(f"{path} exists already, of another key")
    # One of this key is left where an earlier run was cut short before the file was gone.
    note("destroy", record.ledger_facts(), kind="EPOCH_DESTROYED")
    atomic_write(path, bytes(record))
    return path


def _read_record(path: Path) -> Destruction:
    from base.files import read_bounded
    from keys.destruction import MAX_BYTES, Destruction
    from veilcam.cli.key_files import wrong_kind_is_usage

    with wrong_kind_is_usage(str(path)):
        return Destruction.parse(read_bounded(path, MAX_BYTES), where=path.name)


def _refuse_unerasable(path: Path) -> None:
    """Before the ledger and the record say that a file is gone, see that it can go."""
    from veilcam.cli.paths import existing_file

    if existing_file(path, "KEY").is_symlink():
        raise UsageError(f"KEY: {path} is a link; name the file itself, {path.resolve()}")
    if not (os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK | os.X_OK)):
        raise PermissionError(13, "cannot be overwritten and removed; nothing was destroyed", str(path))


def _recipient_id(path: Path, opener: Unwrapper | None) -> bytes:
    from keys.store import load_locked_identity
    from veilcam.cli.key_files import wrong_kind_is_usage

    if opener is not None:
        return opener.recipient.recipient_id
    with wrong_kind_is_usage("KEY"):
        return load_locked_identity(path).recipient_id


def _destroy_share(path: Path, reason: str, *, yes: bool) -> None:
    from keys.erase import erase_file
    from keys.quorum import load_share
    from veilcam.cli.key_files import wrong_kind_is_usage
    from veilcam.cli.key_names import note

    _refuse_unerasable(path)
    with wrong_kind_is_usage("KEY"):
        share = load_share(path)
    _confirm(f"Destroy the share of {share.holder}?", yes=yes)
    note(
        "destroy share",
        {"recipient": share.share_set.recipient_id.hex(), "holder": share.holder, "reason": reason},
    )
    erase_file(path)


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("destroy: run on a terminal, or add --yes")
    if not typer.confirm(question, err=True):
        raise VeilError("nothing was destroyed")
