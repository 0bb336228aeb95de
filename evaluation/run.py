"""All parts in order: each is kept when it is finished, so that a run that was cut continues where it was."""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import av

from analytics import load_detector
from base.errors import FormatError, MissingDependency, UsageError
from base.files import atomic_write, read_bounded
from base.version import __version__
from evaluation.averaging import averaging
from evaluation.bandwidth import bandwidth
from evaluation.camera import CRF, Camera
from evaluation.context import Context, Progress, logger, silent
from evaluation.data import DataFolder, digest
from evaluation.detectors import CONFIG
from evaluation.faces import faces
from evaluation.inversion import inversion, student
from evaluation.pixel_keys import installed_pixel_paths
from evaluation.pixel_path import PixelPath
from evaluation.plates import plates
from evaluation.pose import pose
from evaluation.reader import Reader
from evaluation.recovery import keys, recovery
from evaluation.reid import reid
from evaluation.results import Part
from evaluation.speed import speed
from evaluation.text import text
from evaluation.tradeoff import tradeoff
from evaluation.utility import utility
from models import Background, strength_named

MAX_PART_BYTES = 16 * 1024 * 1024
PARTS: dict[str, tuple[str, Callable[[Context], Part]]] = {
    "utility": ("utility", utility),
    "pose": ("utility", pose),
    "faces": ("privacy", faces),
    "inversion": ("privacy", inversion),
    "student": ("privacy", student),
    "averaging": ("privacy", averaging),
    "keys": ("privacy", keys),
    "plates": ("privacy", plates),
    "text": ("privacy", text),
    "reid": ("privacy", reid),
    "recovery": ("recovery", recovery),
    "bandwidth": ("bandwidth", bandwidth),
    "speed": ("speed", speed),
    "tradeoff": ("tradeoff", tradeoff),
}
"""Name of each part, its group, and what runs it; in the order of the report."""


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """One run.

    Attributes:
        data: folder laid out as docs/evaluation.md says.
        weights: folder with card and graphs; the shipped ones if None.
        out: report.html, results.json and cache/ go here.
        only: names of parts or groups; all if empty.
        crf: of the protected layer.
        probes: faces tried per size, at most.
        first_unseen: identities before this one may have been used in training.
        attack_minutes: for each attacker that is trained.
        clip_frames: consecutive frames taken of each clip.
        threads: of the protector, of training and of timing.
        show_clear: put clear faces and plates on picture sheets; keep such a report to yourself.
        quick: tiny amounts.
        detectors: specs of further detectors to measure, as `veilcam detect` takes them.
        strength: of the protector, as `veilcam protect` takes it.
    """

    data: Path
    out: Path
    weights: Path | None = None
    only: tuple[str, ...] = ()
    crf: float = CRF
    probes: int = 240
    first_unseen: int = 120
    attack_minutes: float = 10.0
    clip_frames: int = 40
    threads: int = 1
    seed: int = 0
    show_clear: bool = False
    quick: bool = False
    detectors: tuple[str, ...] = ()
    strength: str = "standard"

    def chosen(self) -> list[str]:
        """Names of the parts to run, in order.

        Raises:
            UsageError: a name that is neither part nor group.
        """
        groups = dict.fromkeys(group for group, _ in PARTS.values())
        unknown = [name for name in self.only if name not in groups and name not in PARTS]
        if unknown:
            known = ", ".join(dict.fromkeys([*groups, *PARTS]))
            raise UsageError(f"only: expected some of {known}; got {unknown[0]!r}")
        return [name for name, (group, _) in PARTS.items() if not self.only or {name, group} & set(self.only)]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A finished run: what was measured on what, and all parts."""

    described: dict[str, Any]
    parts: tuple[Part, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"evaluation": 1, **self.described, "parts": [part.to_json() for part in self.parts]}


def evaluate(
    settings: EvaluationSettings,
    *,
    progress: Progress = silent,
    pixel_paths: dict[str, PixelPath] | None = None,
    reader: Reader | None = None,
) -> Evaluation:
    """Run the chosen parts, or take them from the cache where weights, data and settings are the same.

    ``pixel_paths`` are recoveries to measure, by setting; those among the weights if None.

    Raises:
        UsageError: unknown part, or no such data folder.
        MediaError: a clip cannot be decoded.
        AuthenticationFailed: weights that are not those on their card.
    """
    chosen = settings.chosen()
    settings.out.mkdir(parents=True, exist_ok=True)
    cache = settings.out / "cache"
    cache.mkdir(exist_ok=True)
    camera = Camera(
        settings.weights,
        threads=settings.threads,
        crf=settings.crf,
        strength=strength_named(settings.strength),
    )
    protector = camera.protector()  # wrong weights show before hours of work
    if pixel_paths is None:
        pixel_paths = installed_pixel_paths(settings.weights, camera.with_background(Background.FINE))
    described = {
        "veilcam": __version__,
        "weights": {"name": protector.name, "model_id": protector.model_id.hex()},
        "data_sha256": digest([settings.data]),
        "settings": _shown(settings),
        "pixel_paths": sorted(one.name for one in pixel_paths.values()),
        "reader": reader.name if reader else "",
        "machine": ", ".join(
            (
                platform.machine(),
                platform.system(),
                f"Python {platform.python_version()}",
                f"PyAV {av.__version__}",
            )
        ),
        "date": time.strftime("%Y-%m-%d"),
    }
    key = _key(described)
    context = Context(
        data=DataFolder(settings.data),
        camera=camera,
        cache=cache,
        key=key,
        quick=settings.quick,
        clip_frames=settings.clip_frames,
        probes=settings.probes,
        first_unseen=settings.first_unseen,
        attack_minutes=settings.attack_minutes,
        threads=settings.threads,
        seed=settings.seed,
        show_clear=settings.show_clear,
        progress=progress,
        pixel_paths=pixel_paths,
        extra_detectors=[load_detector(spec, CONFIG) for spec in settings.detectors],
        reader=reader,
    )
    parts = tuple(_part(context, name, key) for name in chosen)
    return Evaluation(described, parts)


def _shown(settings: EvaluationSettings) -> dict[str, Any]:
    """Settings that change figures; no paths of this machine."""
    left_out = {"data", "out", "weights", "only"}
    return {name: value for name, value in asdict(settings).items() if name not in left_out}


def _key(described: dict[str, Any]) -> str:
    """Weights, data, settings and the measuring code itself."""
    fixed = {name: value for name, value in described.items() if name not in {"date", "machine"}}
    total = hashlib.sha256(json.dumps(fixed, sort_keys=True).encode())
    for path in _sources():
        total.update(path.read_bytes())
    return total.hexdigest()


def _sources() -> Iterator[Path]:
    yield from sorted(Path(__file__).parent.rglob("*.py"))


def _part(context: Context, name: str, key: str) -> Part:
    stored = context.cache / f"{name}.json"
    known = _stored(stored, key)
    if known is not None:
        logger.info("%s: as measured before", name)
        return known
    began = time.monotonic()
    try:
        part = PARTS[name][1](context)
    except MissingDependency as error:
        part = Part(name, skipped=str(error))
    part = _timed(part, time.monotonic() - began)
    if not part.skipped:  # what was missing may be installed tomorrow
        document = {"key": key, "part": part.to_json()}
        atomic_write(stored, json.dumps(document, indent=1).encode() + b"\n")
    return part


def _timed(part: Part, seconds: float) -> Part:
    return Part(part.name, part.tables, part.plots, part.sheets, part.skipped, round(seconds, 1), part.notes)


def _stored(path: Path, key: str) -> Part | None:
    if not path.exists():
        return None
    try:
        document = json.loads(read_bounded(path, MAX_PART_BYTES))
        if document["key"] != key:
            return None
        part = Part.from_json(document["part"])
    except (ValueError, KeyError, TypeError, FormatError):
        return None  # cut or changed: measure again
    missing = [one for one in part.sheets if not (path.parent / "pictures" / one.file).exists()]
    return None if missing else part
