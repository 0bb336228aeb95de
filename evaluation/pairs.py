"""What an attacker trains on: clear and protected pictures of the same things, made with his own copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from analytics.interface import Image
from evaluation.context import Context
from evaluation.data import DataFolder, read_bgr
from evaluation.faces import Face, See, sides_tried, through_camera
from evaluation.pictures import resized

PATCH_PX = 112
Batch = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Pairs:
    """The same places, protected and clear, at one size; ``owners`` names the person, -1 for other things.

    Attributes:
        seen: [n, 112, 112, 3] BGR, protected and after the codec.
        clear: [n, 112, 112, 3] BGR, as the attacker wants it back.
        owners: [n].
    """

    seen: Batch
    clear: Batch
    owners: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.owners)

    @classmethod
    def joined(cls, parts: Sequence[Pairs]) -> Pairs:
        """All of them in order."""
        return cls(
            np.concatenate([one.seen for one in parts]),
            np.concatenate([one.clear for one in parts]),
            np.concatenate([one.owners for one in parts]),
        )


def training_faces(data: DataFolder, first_unseen: int, limit: int | None = None) -> list[Face]:
    """Every crop of the people that the defender may have trained on, and their mirror images."""
    crops = [
        Face(owner, read_bgr(path))
        for owner, paths in enumerate(data.faces()[:first_unseen])
        for path in paths
    ]
    step = max(1, len(crops) // limit) if limit else 1
    chosen = crops[::step]
    return [*chosen, *(Face(face.owner, np.ascontiguousarray(face.crop[:, ::-1])) for face in chosen)]


def face_pairs(context: Context, see: See) -> Pairs:
    """Faces in street scenes at every size that the test uses, in other places of other scenes."""
    faces = training_faces(context.data, context.first_unseen, context.limit(1_000_000, quick=6))
    backgrounds = context.data.street()[1::7]
    rng = np.random.default_rng(context.seed)
    seen: list[Image] = []
    clear: list[Image] = []
    owners: list[int] = []
    for side in context.track("attack: making pairs of faces", sides_tried(context)):
        order = rng.permutation(len(faces))
        mixed = [faces[index] for index in order]
        looks = through_camera(mixed, side, backgrounds, see, shift=side)
        seen += [resized(look, PATCH_PX, PATCH_PX) for look in looks]
        clear += [resized(face.crop, PATCH_PX, PATCH_PX) for face in mixed]
        owners += [face.owner for face in mixed]
    return Pairs(np.stack(seen), np.stack(clear), np.array(owners, np.int64))


def patch_pairs(context: Context, see: See, paths: Sequence[Path], per_picture: int = 4) -> Pairs:
    """Square patches of whole pictures at several sizes, brought to one size: plates, text, anything."""
    rng = np.random.default_rng(context.seed + 1)
    seen: list[Image] = []
    clear: list[Image] = []
    for path in context.track("attack: making pairs of patches", paths):
        picture = read_bgr(path)
        look = see(picture).image
        for _ in range(per_picture):
            largest = min(picture.shape[:2])
            side = int(rng.integers(min(48, largest), min(224, largest) + 1))
            top = int(rng.integers(picture.shape[0] - side + 1))
            left = int(rng.integers(picture.shape[1] - side + 1))
            place = np.s_[top : top + side, left : left + side]
            seen.append(resized(look[place], PATCH_PX, PATCH_PX))
            clear.append(resized(picture[place], PATCH_PX, PATCH_PX))
    return Pairs(np.stack(seen), np.stack(clear), np.full(len(seen), -1, np.int64))
