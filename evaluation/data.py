"""The folder of labelled data that an evaluation is given (layout in docs/evaluation.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from analytics.interface import Image
from base.errors import UsageError
from base.files import read_bounded
from evaluation.average_precision import Truth

_PICTURES = {".jpg", ".jpeg", ".png", ".bmp", ".webp"}
_VIDEOS = {".mp4", ".mkv", ".avi", ".mov"}
MAX_TEXT_BYTES = 16 * 1024 * 1024
MIN_VISIBLE = 0.25  # MOT objects that are hidden more than this are neither wanted nor wrong
_PEDESTRIAN = 1


@dataclass(frozen=True, slots=True)
class Labelled:
    """A picture and what is labelled in it; ``group`` is resampled as a whole for intervals."""

    image: Image
    truth: Truth
    group: str
    name: str


@dataclass(frozen=True, slots=True)
class Plate:
    """A licence plate [left, top, width, height] in the picture at ``path``, and what it says."""

    path: Path
    box_xywh: tuple[int, int, int, int]
    text: str
    region: str


@dataclass(frozen=True, slots=True)
class TrackedBox:
    """One person in one frame of a MOT sequence; ``identity`` is unique over all sequences."""

    path: Path
    identity: str
    frame: int
    box_xywh: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Paths of a data folder; each part asks for what it needs and is skipped where that is missing."""

    root: Path

    def __post_init__(self) -> None:
        if not self.root.is_dir():
            raise UsageError(f"data: no such folder: {self.root}")

    def model(self, name: str) -> Path | None:
        """A file or folder under models/, if it is there."""
        path = self.root / "models" / name
        return path if path.exists() else None

    def coco(self, limit: int | None = None) -> list[Labelled]:
        """detection/images/val2017 with YOLO txt labels: detectors were trained on train2017."""
        images, labels = (self.root / "detection" / kind / "val2017" for kind in ("images", "labels"))
        return list(_labelled(images, labels, limit)) if images.is_dir() else []

    def mot(self, limit: int | None = None) -> list[Labelled]:
        """Frames of mot/*/img1 with their pedestrians, one group per sequence."""
        found = []
        for sequence in folders(self.root / "mot"):
            boxes = _mot_rows(sequence)
            for path in pictures(sequence / "img1")[:limit]:
                rows = boxes[boxes[:, 0] == int(path.stem)]
                found.append(Labelled(read_bgr(path), _mot_truth(rows), sequence.name, path.name))
        return found

    def tracked(self) -> list[TrackedBox]:
        """Every well visible pedestrian of every MOT frame, at least 64 pixels high."""
        found = []
        for sequence in folders(self.root / "mot"):
            boxes = _mot_rows(sequence)
            for path in pictures(sequence / "img1"):
                rows = boxes[(boxes[:, 0] == int(path.stem)) & _is_wanted(boxes) & (boxes[:, 5] >= 64)]
                for row in rows:
                    left, top, width, height = (round(value) for value in row[2:6])
                    box = (left, top, width, height)
                    found.append(TrackedBox(path, f"{sequence.name}/{round(row[1])}", round(row[0]), box))
        return found

    def faces(self) -> list[list[Path]]:
        """Aligned 112x112 crops of faces/lfw_aligned_112, one list per person in order of names."""
        return [pictures(person) for person in folders(self.root / "faces" / "lfw_aligned_112")]

    def known_people(self) -> set[str]:
        """People of faces/lfw_250, whose pictures a defender may have been trained on."""
        return {person.name for person in folders(self.root / "faces" / "lfw_250")}

    def street(self) -> list[Path]:
        """Pictures of images/street."""
        return pictures(self.root / "images" / "street")

    def training_pictures(self) -> list[Path]:
        """What the defender may have trained on: COCO train, street, kodak."""
        detection = pictures(self.root / "detection" / "images" / "train2017")
        return detection + self.street() + pictures(self.root / "images" / "kodak")

    def clips(self, limit: int | None = None) -> list[Path]:
        """Video files of clips/."""
        folder = self.root / "clips"
        found = sorted(p for p in folder.iterdir() if p.suffix in _VIDEOS) if folder.is_dir() else []
        return found[:limit]

    def action_clips(self, limit: int | None = None) -> list[Path]:
        """Video files of clips_actions/, one person each."""
        folder = self.root / "clips_actions"
        found = sorted(p for p in folder.iterdir() if p.suffix in _VIDEOS) if folder.is_dir() else []
        return found[:limit]

    def plates(self) -> list[Plate]:
        """Cars of plates/* with one tab-separated txt each: file, x, y, w, h, text."""
        return [
            plate
            for region in folders(self.root / "plates")
            for path in pictures(region)
            for plate in _plates_beside(path, region.name)
        ]


def digest(paths: list[Path]) -> str:
    """SHA-256 over names, sizes and contents, so that a cached figure belongs to very these files."""
    total = hashlib.sha256()
    for path in sorted(paths):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                with file.open("rb") as stream:
                    content = hashlib.file_digest(stream, "sha256").hexdigest()
                total.update(f"{file.name}\0{content}\n".encode())
    return total.hexdigest()


def folders(parent: Path) -> list[Path]:
    """Sub-folders in order of their names; none if there is no such folder."""
    return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []


def pictures(folder: Path) -> list[Path]:
    """Picture files in order of their names; none if there is no such folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in _PICTURES)


def read_bgr(path: Path) -> Image:
    """A picture file as uint8 BGR [H, W, 3].

    Raises:
        UsageError: it cannot be decoded.
    """
    picture = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if picture is None:
        raise UsageError(f"{path.name}: not a picture that OpenCV reads")
    return np.asarray(picture, np.uint8)


def read_labels(path: Path, width: int, height: int) -> Truth:
    """One YOLO txt (class x y w h, normalised) in pixels; a file that is not there labels nothing.

    Raises:
        UsageError: a line is not five numbers.
    """
    text = read_bounded(path, MAX_TEXT_BYTES).decode("utf-8", "replace") if path.exists() else ""
    try:
        rows = np.array([line.split()[:5] for line in text.splitlines() if line.strip()], np.float64)
        rows = rows.reshape(-1, 5)
    except ValueError as error:
        raise UsageError(f"{path}: expected lines of class, x, y, w, h") from error
    centre, half = rows[:, 1:3], rows[:, 3:5] / 2
    boxes = np.concatenate([centre - half, centre + half], 1) * [width, height, width, height]
    return Truth(boxes.astype(np.float32), rows[:, 0].astype(np.int64))


def _labelled(images: Path, labels: Path, limit: int | None) -> Iterator[Labelled]:
    for path in pictures(images)[:limit]:
        image = read_bgr(path)
        height, width = image.shape[:2]
        yield Labelled(image, read_labels(labels / f"{path.stem}.txt", width, height), path.stem, path.name)


def _mot_rows(sequence: Path) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """gt.txt as [n, 9]: frame, id, left, top, width, height, considered, class, visibility."""
    path = sequence / "gt" / "gt.txt"
    if not path.exists():
        return np.zeros((0, 9))
    text = read_bounded(path, MAX_TEXT_BYTES).decode("utf-8", "replace")
    try:
        rows = [[float(value) for value in line.split(",")[:9]] for line in text.splitlines() if line.strip()]
        return np.array(rows, np.float64).reshape(-1, 9)
    except ValueError as error:
        raise UsageError(f"{path}: expected nine numbers a line") from error


def _is_wanted(
    rows: np.ndarray[tuple[int, int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray((rows[:, 6] == 1) & (rows[:, 7] == _PEDESTRIAN) & (rows[:, 8] >= MIN_VISIBLE), np.bool_)


def _mot_truth(rows: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Truth:
    boxes = rows[:, 2:6].astype(np.float32)
    boxes[:, 2:] += boxes[:, :2]
    wanted = _is_wanted(rows)
    return Truth(boxes[wanted], np.zeros(int(wanted.sum()), np.int64), boxes[~wanted])


def _plates_beside(path: Path, region: str) -> Iterator[Plate]:
    labels = path.with_suffix(".txt")
    if not labels.exists():
        return
    for line in read_bounded(labels, MAX_TEXT_BYTES).decode("utf-8", "replace").splitlines():
        fields = line.split("\t")
        if len(fields) < 6:
            continue
        try:
            left, top, width, height = (round(float(value)) for value in fields[1:5])
        except ValueError as error:
            raise UsageError(f"{labels}: expected file, x, y, w, h, text") from error
        yield Plate(path, (left, top, width, height), fields[5].strip(), region)
