"""The demonstration from start to end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.version import __version__
from veilcam.demo import steps
from veilcam.demo.commands import Commands, Say
from veilcam.demo.folder import DemoFolder
from veilcam.demo.live import running_camera, watch
from veilcam.demo.report import write_sheet, write_summary
from veilcam.demo.steps import Facts, Stage

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What to show, and for how long."""

    source: Path
    live_s: float = 5.0


def run_demo(folder: DemoFolder, options: DemoOptions, say: Say) -> Result:
    """Run every step in ``folder`` and return the summary, which is written there too.

    Raises:
        VeilError: a step failed, or ended otherwise than it must.
    """
    started = time.monotonic()
    stage = stage_for(folder, options.source, say)
    chapters: list[tuple[str, str, Callable[[], Facts]]] = [
        (
            "keys",
            "Keys: who may decode, who may not, and the camera's identity",
            lambda: steps.make_keys(stage),
        ),
        ("protect", "Protect the clip; the encrypted original travels inside", lambda: steps.protect(stage)),
        ("live", "Stream it live over WebRTC and record it", lambda: live(stage, options.live_s)),
        ("detect", "Detect people on the protected picture, without any key", lambda: steps.detect(stage)),
        ("verify", "Verify with the camera's public key", lambda: steps.verify(stage, folder.protected)),
        ("decode", "Decode with the key", lambda: steps.decode(stage)),
        (
            "stranger",
            "Try another key: must be refused (exit status 4)",
            lambda: steps.refuse_stranger(stage),
        ),
        ("tampered", "Flip one bit: must be caught (exit status 3)", lambda: steps.catch_flipped_bit(stage)),
    ]
    summary: Result = {"ok": True, "version": __version__, "source": str(options.source)}
    seconds: dict[str, float] = {}
    for number, (name, title, step) in enumerate(chapters, 1):
        say(f"\n{number}/{len(chapters)} {title}")
        began = time.monotonic()
        summary[name] = step()
        seconds[name] = round(time.monotonic() - began, 2)
    write_sheet(options.source, folder, [*findings(summary), *identity(summary, "  ")])
    summary["seconds"] = {**seconds, "all": round(time.monotonic() - started, 2)}
    summary["files"] = {
        path.name: str(path) for path in sorted(folder.root.iterdir()) if not path.name.startswith(".")
    }
    write_summary(folder, summary)
    tick = _tick()
    say("\n" + "\n".join(f"{tick} {line}" for line in [*findings(summary), *identity(summary, "\n  ")]))
    say(f"\n{summary['seconds']['all']:.0f} s; look at {folder.sheet}")
    say(f"everything else is in {folder.root}, the figures in {folder.summary.name}")
    return summary


def stage_for(folder: DemoFolder, source: Path, say: Say) -> Stage:
    """A stage with a fresh passphrase."""
    return Stage(source.resolve(), folder, Commands(folder.root, steps.new_passphrase(folder), say))


def live(stage: Stage, seconds: float) -> Facts:
    """Camera up, subscriber in, camera down; then check what it recorded."""
    with running_camera(stage, "127.0.0.1:0") as camera:
        facts = watch(camera, seconds)
    recorded = sorted(path for path in stage.folder.recordings.rglob("*.mp4"))
    facts["recordings"] = [stage.folder.relative(path) for path in recorded]
    facts["verdicts"] = [steps.verify(stage, path)["verdict"] for path in recorded]
    return facts


def findings(summary: Result) -> list[str]:
    """What the demonstration has shown, one sentence each."""
    live_, found, tampered = summary["live"], summary["detect"], summary["tampered"]
    size = summary["protect"]["bytes"] / summary["protect"]["source_bytes"]
    recorded = ", ".join(sorted(set(live_["verdicts"]))) or "nothing"
    return [
        f"protected video: {summary['protect']['bytes'] / 1e6:.1f} MB with the original inside, "
        f"{size:.2f} x the source",
        f"live over WebRTC: {live_['frames']} pictures in {live_['seconds']:.1f} s, the first after "
        f"{live_['first_picture_s']:.1f} s; its recording is {recorded}",
        f"detector {found['detector']}: people in {found['frames_with_people']} of {found['frames']} "
        "protected pictures",
        f"verified with the public key: {summary['verify']['verdict']}; "
        f"with one bit flipped: {tampered['verdict']} (exit status {tampered['exit_code']})",
        f"decoding with another key: refused (exit status {summary['stranger']['exit_code']})",
    ]


def identity(summary: Result, separator: str) -> list[str]:
    """Both hashes of every stream of the original."""
    return [
        separator.join(
            (
                f"{stream['kind']} SHA-256, camera and decoded:",
                stream["sha256_original"],
                stream["sha256_decoded"],
            )
        )
        for stream in summary["decode"]["streams"]
    ]


def _tick() -> str:
    encoding = (sys.stdout.encoding or "ascii").lower()
    return "\N{CHECK MARK}" if encoding.startswith("utf") else "ok"
