"""What every part is given: data, camera, sizes of the run, progress, and where pictures go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import cv2

from analytics import Detector
from analytics.interface import Image
from base.errors import MediaError
from base.files import atomic_write
from evaluation.camera import Camera
from evaluation.data import DataFolder
from evaluation.pixel_path import PixelPath
from evaluation.reader import Reader
from evaluation.results import Sheet

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Progress = Callable[[str, int, int], None]
"""Called with what is done, how many are finished and how many there are."""


def silent(_what: str, _done: int, _total: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class Context:
    """Shared by the parts of one run.

    Attributes:
        quick: tiny amounts, for tests and for a first look.
        clip_frames: consecutive frames taken of each clip.
        probes: faces that are tried per size, at most.
        first_unseen: identities before this one (in order of names) may have been used in training.
        attack_minutes: for each attacker that is trained.
        threads: of training and timing.
        cache: folder for finished parts, descriptors and the report's pictures.
        key: names weights, data, settings and measuring code; trained attackers are kept under it.
        show_clear: put clear faces and plates on picture sheets beside the protected ones.
        pixel_paths: recovery from protected pixels, by name of its setting; empty where there is none.
        extra_detectors: measured beside those in the data folder.
        reader: reads plates; the best installed one if None.
    """

    data: DataFolder
    camera: Camera
    cache: Path
    key: str = ""
    quick: bool = False
    clip_frames: int = 40
    probes: int = 240
    first_unseen: int = 120
    attack_minutes: float = 10.0
    threads: int = 1
    seed: int = 0
    show_clear: bool = False
    progress: Progress = silent
    pixel_paths: dict[str, PixelPath] = field(default_factory=dict)
    extra_detectors: list[Detector] = field(default_factory=list)
    reader: Reader | None = None

    @property
    def pictures(self) -> Path:
        """Folder for the report's pictures."""
        return self.cache / "pictures"

    def kept(self, name: str) -> Path:
        """Where a trained attacker of this very run is kept."""
        self.cache.mkdir(parents=True, exist_ok=True)
        return self.cache / f"{self.key[:16]}-{name}"

    def limit(self, full: int, quick: int = 3) -> int:
        """How many to take: ``full``, or ``quick`` in a quick run."""
        return quick if self.quick else full

    def track(self, what: str, items: Sequence[Item]) -> Iterator[Item]:
        """The items, with progress reported after each."""
        for index, item in enumerate(items):
            self.progress(what, index, len(items))
            yield item
        self.progress(what, len(items), len(items))

    def save_sheet(self, name: str, image: Image, title: str, note: str = "") -> Sheet:
        """Write a picture for the report as JPEG."""
        good, coded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 85])
        if not good:
            raise MediaError(f"{name}: the picture sheet could not be coded")
        self.pictures.mkdir(parents=True, exist_ok=True)
        file = f"{name}.jpg"
        atomic_write(self.pictures / file, coded.tobytes())
        return Sheet(title, file, note)
