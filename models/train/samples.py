"""Reads folders of pictures and videos into training samples with their sensitive regions."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from base.errors import UsageError
from base.files import atomic_file
from models.object_finder import NO_OBJECTS, FoundObjects, ObjectFinder, read_object_finder
from models.train.pictures import Image, bgr_to_rgb, read_rgb, resized, scaled
from models.train.targets import Kind, Region, flat_cartoon

logger = logging.getLogger(__name__)

_PICTURES = {".jpg", ".jpeg", ".png", ".bmp", ".webp"}
_VIDEOS = {".mp4", ".mkv", ".avi", ".mov"}
_LONGEST_SIDE = 800
_FRAMES_PER_VIDEO = 8


@dataclass(frozen=True, slots=True)
class Sample:
    """A clear RGB picture [H, W, 3], its flat cartoon and its sensitive regions."""

    name: str
    clear: Image
    cartoon: Image
    regions: list[Region]
    objects: FoundObjects = NO_OBJECTS  # people and vehicles, which stay sharp


class FaceFinder:
    """YuNet at two scales: small faces are found on the doubled picture."""

    def __init__(self, model: Path) -> None:
        self._net = cv2.FaceDetectorYN.create(str(model), "", (320, 320), 0.5, 0.3, 500)

    def __call__(self, rgb_hwc: Image) -> list[Region]:
        """Faces at least 10 pixels high."""
        found: list[Region] = []
        for scale in (1.0, 2.0):
            if scale * max(rgb_hwc.shape[:2]) > 2 * _LONGEST_SIDE:
                continue
            enlarged = scaled(rgb_hwc, scale)[:, :, ::-1].copy()
            self._net.setInputSize((enlarged.shape[1], enlarged.shape[0]))
            for row in _rows(self._net.detect(enlarged)[1]):
                region = Region(Kind.FACE, *(float(value) / scale for value in row[:4]))
                if region.height >= 10:
                    found.append(region)
        return found


def _rows(detected: object) -> npt.NDArray[np.float32]:
    """OpenCV returns None, not an empty table, when there is no face."""
    return np.empty((0, 15), np.float32) if detected is None else np.asarray(detected, np.float32)


def prepare(folders: list[Path], face_model: Path, cache: Path) -> Iterator[Sample]:
    """Load every picture and some frames of every video, with cartoon and regions cached as .npz.

    A text file beside a picture in the OpenALPR layout (file, x, y, width, height, text;
    tab-separated, pixels) adds licence plates.
    """
    finder = FaceFinder(face_model)
    find_objects = functools.cache(functools.partial(ObjectFinder, read_object_finder(), threads=1))
    cache.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        if not folder.exists():
            raise UsageError(f"{folder}: no such folder of training pictures")
        for path in sorted(p for p in folder.rglob("*") if p.suffix.lower() in _PICTURES | _VIDEOS):
            for index, picture in enumerate(_pictures_of(path)):
                sample = _cached(cache, path, index, picture, finder)
                height, width = sample.clear.shape[:2]
                yield replace(sample, objects=find_objects(height, width).in_rgb(sample.clear))


def _pictures_of(path: Path) -> Iterator[Image]:
    if path.suffix.lower() in _PICTURES:
        picture = read_rgb(path)
        if picture is not None:
            yield picture
        return
    video = cv2.VideoCapture(str(path))
    count = int(video.get(cv2.CAP_PROP_FRAME_COUNT))
    for position in range(0, count, max(1, count // _FRAMES_PER_VIDEO)):
        video.set(cv2.CAP_PROP_POS_FRAMES, position)
        good, frame = video.read()
        if good:
            yield bgr_to_rgb(np.asarray(frame, np.uint8))


def _cached(cache: Path, path: Path, index: int, rgb: Image, finder: FaceFinder) -> Sample:
    key = hashlib.sha256(f"{path.resolve()}#{index}#{path.stat().st_size}".encode()).hexdigest()[:24]
    stored = cache / f"{key}.npz"
    if stored.exists():
        with np.load(stored, allow_pickle=False) as arrays:
            regions = [Region(Kind[kind], *box) for kind, *box in json.loads(str(arrays["regions"]))]
            return Sample(path.name, arrays["clear"], arrays["cartoon"], regions)
    scale = min(1.0, _LONGEST_SIDE / max(rgb.shape[:2]))
    clear = resized(rgb, round(rgb.shape[1] * scale), round(rgb.shape[0] * scale))
    plates = [r.transformed(scale, 0, 0) for r in _plates_beside(path)]
    sample = Sample(path.name, clear, flat_cartoon(clear), finder(clear) + plates)
    table = json.dumps([[r.kind.name, r.x, r.y, r.width, r.height] for r in sample.regions])
    with atomic_file(stored) as file:
        np.savez_compressed(file, clear=sample.clear, cartoon=sample.cartoon, regions=np.array(table))
    return sample


def _plates_beside(path: Path) -> list[Region]:
    labels = path.with_suffix(".txt")
    if path.suffix.lower() not in _PICTURES or not labels.exists():
        return []
    plates = []
    for line in labels.read_text(encoding="utf-8", errors="replace").splitlines():
        fields = line.split("\t")
        if len(fields) >= 5:
            plates.append(Region(Kind.PLATE, *(float(field) for field in fields[1:5])))
    return plates


def pictures_in(folder: Path) -> list[Path]:
    """The picture files of one folder, sorted."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in _PICTURES)


def load_faces(folder: Path, keep: range) -> list[Image]:
    """Aligned face crops of the identities (sorted sub-folders) whose index is in ``keep``."""
    people = sorted(p for p in folder.iterdir() if p.is_dir())
    paths = [path for person in people[keep.start : keep.stop] for path in pictures_in(person)]
    return [face for path in paths if (face := read_rgb(path)) is not None]


def load_cartoons(folder: Path, smallest_side: int) -> list[Image]:
    """Cartoon frames, enlarged where needed so that a crop of ``smallest_side`` fits."""
    frames = [frame for path in pictures_in(folder) if (frame := read_rgb(path)) is not None]
    return [scaled(frame, max(1.0, (smallest_side + 2) / min(frame.shape[:2]))) for frame in frames]
