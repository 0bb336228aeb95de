"""The steps on files: keys, protect, detect, verify, decode, and what must fail."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.errors import VeilError
from base.files import atomic_write
from veilcam.demo.commands import Commands, DemoError, Done
from veilcam.demo.folder import DemoFolder
from veilcam.demo.streams import StreamDigest, stream_digests
from veilcam.demo.tamper import flip_one_bit
from veilcam.exit_codes import ExitCode

Facts = dict[str, Any]
# The built-in detector is old and slow: fewer pictures, and only what it is sure of.
_HOG = ("hog", 14, 0.7)
_YOLOX = ("yolox", 2, 0.3)


@dataclass(frozen=True, slots=True)
class Stage:
    """What every step needs: the source, the folder, and a way to run commands in it."""

    source: Path
    folder: DemoFolder
    commands: Commands


def new_passphrase(folder: DemoFolder) -> str:
    """A random passphrase, kept beside the keys so that the visitor can go on by himself."""
    passphrase = secrets.token_urlsafe(18)
    atomic_write(folder.keys / "passphrase.txt", passphrase.encode() + b"\n", mode=0o600)
    return passphrase


def make_keys(stage: Stage) -> Facts:
    """A recipient who may decode, a stranger who may not, and the camera's identity."""
    custodian = stage.commands.run("keys", "recipient", "keys/custodian")
    stage.commands.run("keys", "recipient", "keys/stranger")
    camera = stage.commands.run("keys", "camera", "keys/camera")
    return {"recipient": custodian.document["id"], "camera": camera.document["id"]}


def protect(stage: Stage) -> Facts:
    """The clip becomes a protected video that carries its encrypted original."""
    target = stage.folder.protected
    done = stage.commands.run(
        "protect",
        str(stage.source),
        "-o",
        stage.folder.relative(target),
        "--recipient",
        "keys/custodian.recipient",
        "--camera",
        "keys/camera.camera",
        show_progress=True,
    )
    return {**done.document, "source_bytes": stage.source.stat().st_size, "bytes": target.stat().st_size}


def detect(stage: Stage) -> Facts:
    """An unmodified detector on the protected picture: YOLOX if its weights are here, else HOG."""
    detector, every, min_score = _detector()
    stage.commands.run(
        "detect",
        stage.folder.relative(stage.folder.protected),
        "--detector",
        detector,
        "--every",
        str(every),
        "--min-score",
        str(min_score),
        "--label",
        "person",
        "--annotate",
        stage.folder.relative(stage.folder.annotated),
        "-o",
        stage.folder.relative(stage.folder.detections),
        show_progress=True,
    )
    rows = [json.loads(line) for line in stage.folder.detections.read_text().splitlines()]
    found = Counter(item["label"] for row in rows for item in row["detections"])
    with_people = sum(1 for row in rows if row["detections"])
    return {
        "detector": detector,
        "frames": len(rows),
        "frames_with_people": with_people,
        "found": dict(found),
    }


def _detector() -> tuple[str, int, float]:
    from analytics.weights import WEIGHTS, file_sha256, model_folder

    path = model_folder() / WEIGHTS["yolox"].file_name
    try:
        ready = path.is_file() and file_sha256(path) == WEIGHTS["yolox"].sha256
    except (OSError, VeilError):
        ready = False
    return _YOLOX if ready else _HOG


def verify(stage: Stage, file: Path) -> Facts:
    """Anybody with the camera's public key can check that nothing was changed."""
    return _verdict(stage.commands.run("verify", stage.folder.relative(file), "--camera", "keys/camera.pub"))


def _verdict(done: Done) -> Facts:
    """The short form: the full report of a long recording does not belong into a summary."""
    document = done.document
    return {
        "verdict": str(document["verdict"]).upper(),
        "causes": document["causes"],
        "totals": document["totals"],
        "exit_code": done.exit_code,
    }


def decode(stage: Stage) -> Facts:
    """The key holder gets the original's coded streams back, byte for byte."""
    done = stage.commands.run(
        "decode",
        stage.folder.relative(stage.folder.protected),
        "-o",
        stage.folder.relative(stage.folder.decoded),
        "--identity",
        "keys/custodian.identity",
        "--camera",
        "keys/camera.pub",
        "--reason",
        "demonstration",
        show_progress=True,
    )
    before, after = stream_digests(stage.source), stream_digests(stage.folder.decoded)
    if _comparable(before) != _comparable(after):
        raise DemoError("decode: the decoded streams differ from the original's; this must not happen")
    return {
        "verdict": str(done.document["verdict"]).upper(),
        "ledger": done.document["ledger"],
        "streams": [
            {
                "kind": old.kind,
                "codec": old.codec,
                "packets": old.num_packets,
                "sha256_original": old.sha256,
                "sha256_decoded": new.sha256,
            }
            for old, new in zip(before, after, strict=True)
        ],
    }


def _comparable(digests: tuple[StreamDigest, ...]) -> list[tuple[str, str, str]]:
    return [(each.kind, each.codec, each.sha256) for each in digests]


def refuse_stranger(stage: Stage) -> Facts:
    """Another identity gets nothing, and the exit status says why."""
    target = stage.folder.root / "stranger.mp4"
    done = stage.commands.run(
        "decode",
        stage.folder.relative(stage.folder.protected),
        "-o",
        stage.folder.relative(target),
        "--identity",
        "keys/stranger.identity",
        expect=(int(ExitCode.KEY),),
    )
    if target.exists():
        raise DemoError("decode with a stranger's identity wrote a file; this must not happen")
    return {"exit_code": done.exit_code, "said": done.errors.splitlines()[:1]}


def catch_flipped_bit(stage: Stage) -> Facts:
    """One flipped bit anywhere in the pictures fails the verification."""
    offset = flip_one_bit(stage.folder.protected, stage.folder.tampered)
    done = stage.commands.run(
        "verify",
        stage.folder.relative(stage.folder.tampered),
        "--camera",
        "keys/camera.pub",
        expect=(int(ExitCode.INTEGRITY),),
    )
    return {**_verdict(done), "offset": offset}
