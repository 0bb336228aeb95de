"""``veilcam verify``."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilcam.cli.options import ForceFlag, JsonFlag, examples
from veilcam.cli.output import Output

if TYPE_CHECKING:
    from forensics.camera_trust import CameraTrust
    from forensics.report import SegmentRow, VerificationReport
    from forensics.verify_live import LiveReport
    from keys import CameraPublic


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    epilog = examples(
        "veilcam verify out.mp4 --camera gate.pub",
        "veilcam verify out.mp4 --camera gate.pub --from-start --report out.json",
        "veilcam verify out.mp4 --root root.crt --certificate gate.crt --crl site.crl --crl root.crl",
        "veilcam verify http://127.0.0.1:8080/whep --camera gate.pub --seconds 30",
        "veilcam verify http://127.0.0.1:8080/whep --root root.crt --certificate gate.crt --crl site.crl",
        "veilcam verify out.mp4 --camera gate.pub --stamp-with http://tsa.example --stamp out.stamp",
        "veilcam verify out.mp4 --camera gate.pub --stamp out.stamp --tsa-root authority.pem",
    )
    app.command("verify", short_help="Check that nothing was changed, cut or swapped.", epilog=epilog)(verify)


def verify(
    source: Annotated[str, typer.Argument(metavar="IN|URL", help="A recording, or a live stream.")],
    *,
    camera: Annotated[
        Path | None,
        typer.Option("--camera", "-c", metavar="FILE", help="NAME.pub of the camera that must have signed."),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Instead: certificate of a root that vouches for the camera."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --root: the camera's certificate, NAME.crt.")
    ] = None,
    crl: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="With --root: revocation lists; repeat.")
    ] = None,
    seen_before: Annotated[
        str | None,
        typer.Option(
            metavar="T", help="With --root: you know from elsewhere that IN existed then (ISO 8601)."
        ),
    ] = None,
    from_start: Annotated[
        bool,
        typer.Option("--from-start", help="A start later than the camera's is a gap too."),
    ] = False,
    to_end: Annotated[
        bool,
        typer.Option("--to-end", help="A recording that lacks the camera's end mark has a gap too."),
    ] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the full report (JSON).")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Live: stop after so long; else at Ctrl-C.")
    ] = None,
    max_age: Annotated[
        float, typer.Option(min=1.0, metavar="S", help="Live: pictures captured earlier are not live.")
    ] = 60.0,
    stamp: Annotated[
        Path | None, typer.Option(metavar="FILE", help="RFC 3161 time stamp of the recording: check it.")
    ] = None,
    stamp_with: Annotated[
        str | None, typer.Option(metavar="URL", help="Have an authority stamp it; --stamp is written.")
    ] = None,
    tsa_root: Annotated[
        Path | None, typer.Option(metavar="PEM", help="Root certificate of the authority, for --stamp.")
    ] = None,
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Check that nothing in IN was changed, cut, swapped or replayed; needs no decryption key.

    The verdict is AUTHENTIC (status 0), or GAPS, TAMPERED, UNSIGNED, UNVERIFIABLE (status 3), with evidence.
    A live stream (WHEP, rtsp, srt) is judged segment by segment until Ctrl-C or --seconds; a token for it is
    taken from VEILCAM_TOKEN.
    """
    from base.errors import UsageError
    from base.files import atomic_write
    from veilcam.cli.camera_trust import camera_trust_from
    from veilcam.cli.key_files import camera_public_from
    from veilcam.cli.paths import new_file

    output = Output(as_json)
    if report:
        new_file(report, force=force)
    trust = None
    if root is not None and certificate is not None and camera is None:
        trust = camera_trust_from(root, certificate, crl or [], seen_before)
        public = trust.camera.public
    elif camera is not None and not (root or certificate or crl or seen_before):
        public = camera_public_from(camera)
    else:
        raise UsageError("expected --camera NAME.pub, or --root FILE with --certificate NAME.crt")
    if "://" in source:
        if stamp or stamp_with or from_start or to_end or seen_before:
            raise UsageError(
                "--stamp, --stamp-with, --from-start, --to-end and --seen-before are for recordings only"
            )
        document, exit_code = _live(source, public, seconds, max_age, output, trust=trust)
    else:
        document, exit_code = _file(
            Path(source),
            public,
            _Stamping(stamp, stamp_with, tsa_root, force),
            output,
            from_start=from_start,
            to_end=to_end,
            trust=trust,
        )
    if report:
        atomic_write(report, json.dumps(document, indent=2).encode() + b"\n")
    output.result(document)
    return exit_code


@dataclass(frozen=True, slots=True)
class _Stamping:
    """What is asked about time stamps."""

    path: Path | None
    url: str | None
    roots: Path | None
    force: bool

    def check(self) -> None:
        """Refuse combinations that make no sense."""
        from base.errors import UsageError
        from veilcam.cli.paths import existing_file, new_file

        if self.url and self.path is None:
            raise UsageError("--stamp-with needs --stamp FILE to write the time stamp to")
        if self.path is not None and self.url is None and self.roots is None:
            raise UsageError("--stamp needs --tsa-root PEM to check it, or --stamp-with URL to make it")
        if self.path is not None and self.url:
            new_file(self.path, force=self.force)
        elif self.path is not None:
            existing_file(self.path, "--stamp")
        if self.roots is not None:
            existing_file(self.roots, "--tsa-root")


def _file(
    source: Path,
    public: CameraPublic,
    stamping: _Stamping,
    output: Output,
    *,
    from_start: bool,
    to_end: bool,
    trust: CameraTrust | None,
) -> tuple[dict[str, Any], int]:
    from forensics.verify_file import verify as verify_recording
    from veilcam.cli.key_files import wrong_kind_is_usage
    from veilcam.cli.paths import existing_file

    existing_file(source, "IN")
    stamping.check()
    with output.progress("verifying") as advance:
        found = verify_recording(
            source, public, is_excerpt=not from_start, may_go_on=not to_end, advance=advance
        )
    with wrong_kind_is_usage("--stamp"):
        stamp, stamped_us, lines = _stamp(found, stamping)
    if trust is not None:
        found = trust.seen(stamped_us).judge(found)
    document: dict[str, Any] = {"ok": found.exit_code == 0, **found.as_json()}
    if stamp is not None:
        document["stamp"] = stamp
    output.say("\n".join([found.text(), *lines]))
    return document, found.exit_code


def _stamp(
    found: VerificationReport, stamping: _Stamping
) -> tuple[dict[str, Any] | None, int | None, list[str]]:
    """Make the time stamp, check it where a root is given; also when all of the recording existed by it."""
    from base.files import atomic_write, read_bounded
    from forensics.timestamp import MAX_STAMP_BYTES, Authority, check_recording, stamp_recording

    path = stamping.path
    lines: list[str] = []
    if path is None:
        return None, None, lines
    if stamping.url is not None:
        atomic_write(path, stamp_recording(found, Authority(stamping.url)))
        lines.append(f"  stamp     {path}")
    if stamping.roots is None:
        return {"file": str(path), "checked": False}, None, lines
    stamp, text = check_recording(found, read_bounded(path, 4 * MAX_STAMP_BYTES), stamping.roots)
    lines.append(f"  stamp     {text}")
    document = {"file": str(path), "checked": True, "text": text, **stamp.as_json()}
    return document, stamp.time_us if stamp.covers_all else None, lines


def _live(
    url: str,
    public: CameraPublic,
    seconds: float | None,
    max_age_s: float,
    output: Output,
    *,
    trust: CameraTrust | None = None,
) -> tuple[dict[str, Any], int]:
    from analytics.subscribe import SubscribeOptions, subscribe
    from forensics.verify_live import LiveOptions, verify_live
    from veilcam.cli.signals import stop_event

    def show(row: SegmentRow) -> None:
        output.say(f"{row.name:<14}{row.verdict.name:<13}{row.letters[:60]}")

    async def run() -> LiveReport:
        stream = subscribe(
            url, token=os.environ.get("VEILCAM_TOKEN"), options=SubscribeOptions(reconnect=False)
        )
        options = LiveOptions(max_age_s=max_age_s)
        return await verify_live(
            stream,
            public,
            seconds=seconds,
            stop=stop_event(),
            on_segment=show,
            options=options,
            trust=trust,
        )

    found = asyncio.run(run())
    output.say(found.text())
    return {"ok": found.exit_code == 0, **found.as_json()}, found.exit_code
