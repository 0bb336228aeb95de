"""``veilcam keys authority | request | certify | revoke``: who vouches for cameras."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from base.errors import UsageError
from veilcam.cli.options import JsonFlag, examples
from veilcam.cli.output import Output

if TYPE_CHECKING:
    from keys.authority import Authority

By = Annotated[
    str,
    typer.Option(
        "--by", metavar="NAME", help="The authority: NAME.signer and NAME.crt; a folder may precede."
    ),
]
Days = Annotated[int | None, typer.Option(help="How long it is valid.", min=1, max=36500)]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command(
        "authority",
        short_help="Make an authority that vouches for cameras.",
        epilog=examples("veilcam keys authority root", "veilcam keys authority site --under root"),
    )(authority)
    app.command(
        "request",
        short_help="Ask for a camera's certificate: NAME.csr.",
        epilog=examples("veilcam keys request gate.camera"),
    )(request)
    app.command(
        "certify",
        short_help="Vouch for a camera: NAME.crt.",
        epilog=examples("veilcam keys certify gate.csr --by site"),
    )(certify)
    app.command(
        "revoke",
        short_help="Take certificates back: NAME.crl.",
        epilog=examples(
            "veilcam keys revoke gate.crt --by site --reason keyCompromise --since 2026-11-30T08:00:00Z",
            "veilcam keys revoke --by site    (renews the list)",
        ),
    )(revoke)


def authority(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name; a folder may stand before it.")],
    *,
    under: Annotated[
        str | None, typer.Option(metavar="NAME", help="The authority above it; none makes a root.")
    ] = None,
    days: Days = None,
    as_json: JsonFlag = False,
) -> None:
    """Make an authority: NAME.signer (private, under a passphrase) and NAME.crt (its certificate).

    An existing NAME.signer is used. Hand the root's certificate to whoever verifies, over a channel that he
    trusts; it is all he needs to know which camera made a recording.
    """
    from keys.authority import ROOT_DAYS, SITE_DAYS, Authority
    from keys.signer import SignerKey
    from keys.signer_file import load_signer, save_signer
    from keys.x509_profile import to_pem
    from veilcam.cli.key_names import note, now_us, place
    from veilcam.cli.passphrase import known_passphrase, new_passphrase

    output = Output(as_json)
    folder, stem = place(name, "crt")
    above = _authority(under) if under else None
    private_path = folder / f"{stem}.signer"
    if private_path.exists():
        signer = load_signer(private_path, known_passphrase(f"signer {stem}"))
    else:
        signer = SignerKey.generate(stem)
        save_signer(folder, signer, new_passphrase(f"signer {stem}"))
    note("authority", {"name": stem, "signer": signer.public.signer_id.hex(), "under": under or ""})
    if above is None:
        chain = Authority.root(signer, now_us=now_us(), days=days or ROOT_DAYS).chain
    else:
        chain = above.certify_authority(signer.public, now_us=now_us(), days=days or SITE_DAYS)
    path = folder / f"{stem}.crt"
    _write(path, to_pem(chain))
    output.say(f"authority {stem}{f' under {under}' if under else ', a root'}")
    output.say(f"  {private_path}  private: it vouches for cameras; keep it offline")
    output.say(f"  {path}  public{': give it to everybody who verifies' if above is None else ''}")
    output.result({"ok": True, "name": stem, "signer": str(private_path), "certificate": str(path)})


def request(
    camera: Annotated[Path, typer.Argument(metavar="FILE", help="NAME.camera, on the camera.")],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Write NAME.csr: the camera's public key and name, signed with its key, for an authority to certify."""
    from keys.authority import certification_request
    from veilcam.cli.key_files import camera_key_from

    output = Output(as_json)
    key = camera_key_from(camera)
    path = camera.with_suffix(".csr")
    _write(path, certification_request(key), may_exist=True)
    output.say(f"request for camera {key.public.name}, id {key.camera_id.hex()}\n  {path}  for the authority")
    output.result({"ok": True, "name": key.public.name, "id": key.camera_id.hex(), "request": str(path)})


def certify(
    csr: Annotated[Path, typer.Argument(metavar="FILE", help="NAME.csr, from the camera.")],
    *,
    by: By,
    days: Days = None,
    as_json: JsonFlag = False,
) -> None:
    """Vouch for a camera's key and name: write NAME.crt, its chain up to the root.

    Compare the id with what `veilcam keys show` says on the camera. NAME.crt goes back to the camera.
    """
    from base.files import read_bounded
    from keys.authority import CAMERA_DAYS, parse_request
    from keys.x509_profile import MAX_PEM_BYTES, to_pem
    from veilcam.cli.key_files import wrong_kind_is_usage
    from veilcam.cli.key_names import note, now_us
    from veilcam.cli.paths import existing_file

    output = Output(as_json)
    with wrong_kind_is_usage("FILE"):
        public = parse_request(read_bounded(existing_file(csr, "FILE"), MAX_PEM_BYTES), where=csr.name)
    path = csr.with_suffix(".crt")
    if path.exists():
        raise UsageError(f"{path} exists already; move it away to certify again")
    vouching = _authority(by)
    note(
        "certify", {"camera": public.camera_id.hex(), "name": public.name, "by": vouching.signer.public.name}
    )
    chain = vouching.certify_camera(public, now_us=now_us(), days=days or CAMERA_DAYS)
    _write(path, to_pem(chain))
    until = chain[0].not_valid_after_utc.isoformat()
    output.say(
        f"camera {public.name}, id {public.camera_id.hex()}, certified by {by} until {until}\n  {path}"
    )
    output.result(
        {
            "ok": True,
            "name": public.name,
            "id": public.camera_id.hex(),
            "until": until,
            "certificate": str(path),
        }
    )


def revoke(
    certificates: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="NAME.crt files; none renews the list.")
    ] = None,
    *,
    by: By,
    reason: Annotated[
        str,
        typer.Option(help="keyCompromise, cACompromise, superseded, cessationOfOperation or unspecified."),
    ] = "unspecified",
    since: Annotated[
        str | None, typer.Option(metavar="T", help="From when the key is not to be trusted (ISO 8601); now.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Take certificates back: write NAME.crl, the authority's signed list, for everybody who verifies.

    A camera that was replaced (superseded, cessationOfOperation) stays believed for what it recorded before.
    A key that somebody else may have (all other reasons) proves nothing by itself any more, whatever date its
    recordings bear.
    """
    from base.files import atomic_write, read_bounded
    from keys.authority import RevocationReason
    from keys.x509_profile import MAX_PEM_BYTES, parse_chain, parse_crl
    from veilcam.cli.key_files import wrong_kind_is_usage
    from veilcam.cli.key_names import moment_us, note, now_us
    from veilcam.cli.paths import existing_file

    output = Output(as_json)
    known = {each.value: each for each in RevocationReason}
    if reason not in known:
        raise UsageError(f"--reason: expected one of {', '.join(known)}")
    since_us = now_us() if since is None else moment_us(since, "--since")
    if since_us > now_us():
        raise UsageError(f"--since: {since} is still to come")
    with wrong_kind_is_usage("FILE"):
        given = [
            parse_chain(read_bounded(existing_file(path, "FILE"), MAX_PEM_BYTES), where=path.name)[0]
            for path in certificates or []
        ]
    path = Path(f"{by}.crl")
    before = parse_crl(read_bounded(path, MAX_PEM_BYTES), where=path.name) if path.exists() else None
    revoking = _authority(by)
    serials = [f"{each.serial_number:x}" for each in given]
    note("revoke", {"by": revoking.signer.public.name, "serials": serials, "reason": reason})
    atomic_write(path, revoking.revoke(before, given, known[reason], since_us=since_us, now_us=now_us()))
    done = f"revoked {len(given)} ({reason})" if given else "the list is renewed; nothing was added to it"
    output.say(f"{done}\n  {path}  for everybody who verifies; renew it within 90 days")
    output.result({"ok": True, "revoked": serials, "reason": reason, "list": str(path)})


def _authority(name: str) -> Authority:
    from base.files import read_bounded
    from keys.authority import Authority
    from keys.signer_file import load_signer
    from keys.x509_profile import MAX_PEM_BYTES, parse_chain
    from veilcam.cli.key_files import wrong_kind_is_usage
    from veilcam.cli.passphrase import known_passphrase
    from veilcam.cli.paths import existing_file

    certificate, private = Path(f"{name}.crt"), Path(f"{name}.signer")
    with wrong_kind_is_usage("authority"):
        pem = read_bounded(existing_file(certificate, "authority"), MAX_PEM_BYTES)
        chain = parse_chain(pem, where=certificate.name)
        signer = load_signer(existing_file(private, "authority"), known_passphrase(f"signer {private.stem}"))
    return Authority(signer, chain)


def _write(path: Path, data: bytes, *, may_exist: bool = False) -> None:
    from base.files import atomic_write

    if path.exists() and not may_exist:
        raise UsageError(f"{path} exists already")
    atomic_write(path, data)
