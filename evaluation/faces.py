"""Faces in protected pictures: found at their exact place and handed to a recogniser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analytics.interface import Image
from base.errors import MissingDependency
from evaluation.camera import CodedPicture
from evaluation.context import Context
from evaluation.data import DataFolder, read_bgr
from evaluation.drawing import captioned, sheet
from evaluation.identify import Attempt, attempt, control_row, identification_row, verification_row
from evaluation.pictures import paste, resized
from evaluation.recogniser import DlibRecogniser, Recogniser, Vectors, distances
from evaluation.results import Part, Row, Sheet, Table
from models.drawn_face import face_mask

SIDES = (48, 80, 128, 224)
"""Pixels of the pasted crop; the face fills about 95 % of it. 224 is half of the frame's height."""
CANVAS_WH = (640, 480)
GREY = 128
See = Callable[[Image], CodedPicture]


@dataclass(frozen=True, slots=True)
class Face:
    """An aligned crop and whose it is: an index into the people in order of their names."""

    owner: int
    crop: Image

    def painted_out(self) -> Face:
        """The crop with grey where the face was: hair, shoulders and the scene may tell people apart, too."""
        kept = 1 - face_mask()[..., None]
        return Face(self.owner, np.asarray(np.rint(GREY + kept * (self.crop - np.float32(GREY))), np.uint8))


@dataclass(frozen=True, slots=True)
class People:
    """One clear crop of everybody (gallery), and crops of people that no training has seen (probes)."""

    gallery: tuple[Face, ...]
    probes: tuple[Face, ...]
    backgrounds: tuple[Path, ...]


def people(data: DataFolder, *, first_unseen: int, limit: int, quick: bool = False) -> People | None:
    """Gallery and probes; probes are spread evenly over the people. None where the data is missing.

    In a quick run the gallery is cut to a dozen people: figures are then much too high for the attacker.
    """
    paths = data.faces()
    backgrounds = data.street()
    if len(paths) <= first_unseen or not backgrounds:
        return None
    known = data.known_people()
    if quick:
        paths, first_unseen = paths[first_unseen : first_unseen + 12], 0
    gallery = tuple(Face(owner, read_bgr(crops[0])) for owner, crops in enumerate(paths))
    rest = [
        (place, owner, crop)
        for owner, crops in enumerate(paths)
        if owner >= first_unseen and crops[0].parent.name not in known
        for place, crop in enumerate(crops[1:])
    ]
    chosen = sorted(rest, key=lambda entry: (entry[0], entry[1]))[:limit]
    probes = tuple(Face(owner, read_bgr(crop)) for _, owner, crop in chosen)
    step = max(1, len(backgrounds) // 40)
    return People(gallery, probes, tuple(backgrounds[::step]))


def through_camera(
    faces: Sequence[Face], side: int, backgrounds: Sequence[Path], see: See, *, shift: int = 0
) -> list[Image]:
    """Every face at ``side`` pixels as it looks in the coded picture, cut out at its exact place."""
    slots = _slots(side)
    seen: list[Image] = []
    for start in range(0, len(faces), len(slots)):
        group = faces[start : start + len(slots)]
        frame, corners = scene(
            group, side, read_bgr(backgrounds[(start // len(slots) + shift) % len(backgrounds)]), shift
        )
        coded = see(frame).image
        seen += [coded[top : top + side, left : left + side].copy() for left, top in corners]
    return seen


def scene(
    group: Sequence[Face], side: int, background: Image, shift: int = 0
) -> tuple[Image, list[tuple[int, int]]]:
    """A background with up to a handful of faces in it, and where they are (left, top)."""
    frame = resized(background, *CANVAS_WH)
    corners = [
        (left + ((face.owner + shift) * 7) % 9, top + ((face.owner + shift) * 5) % 7)
        for face, (left, top) in zip(group, _slots(side), strict=False)
    ]
    for face, (left, top) in zip(group, corners, strict=True):
        paste(frame, face.crop, left, top, side)
    return frame, corners


def _slots(side: int) -> list[tuple[int, int]]:
    if side <= 200:
        return [(left, top) for top in (4, 244) for left in (0, 204, 408)]
    return [(20, 4), (360, 4), (200, 244)]


def sides_tried(context: Context) -> tuple[int, ...]:
    """Sizes of faces that this run tries."""
    return SIDES[1:2] if context.quick else SIDES


def missing_people(context: Context) -> str:
    """Why ``people`` gave None."""
    return f"needs images/street and more than {context.first_unseen} people in faces/lfw_aligned_112"


@dataclass(frozen=True, slots=True)
class Seen:
    """Probes of one size: their clear and protected looks, and the gallery's protected look."""

    side: int
    clear: list[Image]
    protected: list[Image]
    gallery: list[Image]
    painted: list[Image]
    painted_gallery: list[Image]


def look(context: Context, folk: People, side: int) -> Seen:
    """Gallery and probes through the camera at one size."""
    clear, still = context.camera.clear_still, context.camera.still
    probes, gallery = folk.probes, folk.gallery
    faceless = [face.painted_out() for face in probes], [face.painted_out() for face in gallery]
    return Seen(
        side,
        through_camera(probes, side, folk.backgrounds, clear),
        through_camera(probes, side, folk.backgrounds, still),
        through_camera(gallery, side, folk.backgrounds, still, shift=3),
        through_camera(faceless[0], side, folk.backgrounds, clear),
        through_camera(faceless[1], side, folk.backgrounds, clear, shift=3),
    )


def described(context: Context, recogniser: Recogniser, faces: Sequence[Image], what: str) -> Vectors:
    """Describe with progress."""
    batches = [faces[start : start + 8] for start in range(0, len(faces), 8)]
    return np.concatenate([recogniser.describe(batch) for batch in context.track(what, batches)])


def open_recogniser(context: Context) -> DlibRecogniser:
    """dlib's, with its store in the cache of this run."""
    context.cache.mkdir(parents=True, exist_ok=True)
    return DlibRecogniser(context.cache / "faces-dlib.npz")


def faces(context: Context) -> Part:
    """The part: naive (clear gallery) and parrot (gallery protected too), off-the-shelf recogniser."""
    folk = people(context.data, first_unseen=context.first_unseen, limit=context.probes, quick=context.quick)
    if folk is None:
        return Part("faces", skipped=missing_people(context))
    try:
        recogniser = open_recogniser(context)
    except MissingDependency as error:
        return Part("faces", skipped=str(error))
    owners = [face.owner for face in folk.probes]
    gallery = described(context, recogniser, [face.crop for face in folk.gallery], "faces: clear gallery")
    rank1: list[Row] = []
    verified: list[Row] = []
    pages: list[Sheet] = []
    for side in sides_tried(context):
        seen = look(context, folk, side)
        clear = described(context, recogniser, seen.clear, f"faces: {side} px, clear")
        drawn = described(context, recogniser, seen.protected, f"faces: {side} px, protected")
        own = described(context, recogniser, seen.gallery, f"faces: {side} px, protected gallery")
        bound = attempt(distances(clear, gallery), owners)
        attacks = {
            "naive": attempt(distances(drawn, gallery), owners),
            "parrot": attempt(distances(drawn, own), owners),
        }
        for name, attack in attacks.items():
            rank1.append(identification_row(f"{side} px, {name}", attack, bound))
            verified.append(verification_row(f"{side} px, {name}", attack, bound))
        rank1.append(
            control_row(
                f"{side} px, clear but the face painted out, parrot",
                _painted(context, recogniser, seen, owners),
                bound,
            )
        )
        pages.append(_page(context, seen, attacks))
        recogniser.save()
    note = (
        f"{recogniser.name}; gallery: one clear picture each of {len(folk.gallery)} people (identities below "
        f"{context.first_unseen} may have been in training, no probe is of them). Probes pasted into street "
        "scenes of "
        f"{CANVAS_WH[0]}x{CANVAS_WH[1]}, protected, x264 CRF {context.camera.crf:g} veryfast, cut out at "
        "their exact place. "
        "Parrot: the gallery is protected as well. Painted out: nothing is protected but the face gone, in "
        "the gallery too: hair, shoulders and scene find people; no bar applies. Wilson intervals; probes of "
        "one person are not independent."
    )
    return Part(
        "faces",
        (
            Table(
                "Face identification, rank-1, untrained attacker",
                "share",
                "probes",
                False,
                tuple(rank1),
                note,
            ),
            Table(
                "Face verification, true accepts at 1e-3 false accepts, untrained attacker",
                "share",
                "right pairs",
                False,
                tuple(verified),
                note,
            ),
        ),
        sheets=tuple(pages),
    )


def _painted(context: Context, recogniser: Recogniser, seen: Seen, owners: list[int]) -> Attempt:
    """What the recogniser finds where nothing of a face is left and all else is clear."""
    looks = (
        described(context, recogniser, pictures, f"faces: {seen.side} px, painted out")
        for pictures in (seen.painted, seen.painted_gallery)
    )
    return attempt(distances(*looks), owners)


def _page(context: Context, seen: Seen, attacks: dict[str, Attempt]) -> Sheet:
    """Protected probes, those that were identified first."""
    hit = np.any([attack.hits for attack in attacks.values()], axis=0)
    order = np.argsort(~hit, kind="stable")[:12]
    tiles = []
    for index in order.tolist():
        pair = [seen.protected[index]]
        if context.show_clear:
            pair.insert(0, seen.clear[index])
        tile = np.concatenate([resized(one, 112, 112) for one in pair], 1)
        tiles.append(captioned(tile, "identified" if hit[index] else "not"))
    return context.save_sheet(
        f"faces-{seen.side}",
        sheet(tiles, columns=6, width=tiles[0].shape[1] if tiles else 112),
        f"Faces of {seen.side} px as the attacker sees them; identified ones (failures) first",
    )
