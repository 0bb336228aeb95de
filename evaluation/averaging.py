"""Many frames against one face: aligned and averaged over a video, then recognised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from analytics.interface import Image
from base.errors import MissingDependency
from base.frames import ClearFrame
from evaluation.context import Context
from evaluation.data import read_bgr
from evaluation.drawing import captioned, sheet
from evaluation.faces import (
    CANVAS_WH,
    Face,
    described,
    missing_people,
    open_recogniser,
    people,
)
from evaluation.identify import attempt, identification_row, verification_row
from evaluation.pictures import paste, resized, to_bgr, to_clear
from evaluation.recogniser import distances
from evaluation.results import Curve, Part, Plot, Row, Sheet, Table

RATE = 25
COUNTS = (1, 4, 16, 64)
SIDES = (80, 160)
NOISE = 2.0  # standard deviation of the sensor's noise, in grey levels


def averaging(context: Context) -> Part:
    """The part: people who drift through a noisy scene, protected and coded as a video."""
    folk = people(context.data, first_unseen=context.first_unseen, limit=context.probes, quick=context.quick)
    if folk is None:
        return Part("averaging", skipped=missing_people(context))
    try:
        recogniser = open_recogniser(context)
    except MissingDependency as error:
        return Part("averaging", skipped=str(error))
    counts = COUNTS[:2] if context.quick else COUNTS
    probes = folk.probes[:: max(1, len(folk.probes) // context.limit(60, quick=4))]
    gallery = described(context, recogniser, [face.crop for face in folk.gallery], "averaging: gallery")
    owners = [face.owner for face in probes]
    rank1: list[Row] = []
    verified: list[Row] = []
    curves: list[Curve] = []
    pages: list[Sheet] = []
    for side in SIDES[: context.limit(2, quick=1)]:
        clear, seen = _averages(context, probes, side, folk.backgrounds[1:], counts)
        bound = attempt(
            distances(described(context, recogniser, clear, f"averaging: {side} px, clear"), gallery), owners
        )
        points = []
        for count, looks in seen.items():
            vectors = described(context, recogniser, looks, f"averaging: {side} px, {count} frames")
            attack = attempt(distances(vectors, gallery), owners)
            name = f"{side} px, mean of {count} frames"
            rank1.append(identification_row(name, attack, bound))
            verified.append(verification_row(name, attack, bound))
            points.append((float(np.log2(count)), attack.rank1().value))
        curves.append(Curve(f"{side} px", tuple(points)))
        pages.append(_page(context, side, seen))
        recogniser.save()
    note = (
        f"{recogniser.name}, clear gallery of {len(folk.gallery)}. Faces drift by a pixel per frame over a "
        "still scene with "
        f"sensor noise of {NOISE:g} grey levels; protected as `camera run` does, x264 CRF "
        f"{context.camera.crf:g}, P frames; "
        "the attacker knows where the face is in every frame and averages the crops. Clear: one coded clear "
        "frame."
    )
    titles = (
        "Face identification, rank-1, frames averaged",
        "Face verification, true accepts at 1e-3 false accepts, frames averaged",
    )
    return Part(
        "averaging",
        (
            Table(titles[0], "share", "probes", False, tuple(rank1), note),
            Table(titles[1], "share", "right pairs", False, tuple(verified), note),
        ),
        (Plot("Averaging frames", "frames, log2", "rank-1", tuple(curves)),),
        tuple(pages),
    )


def _averages(
    context: Context,
    probes: Sequence[Face],
    side: int,
    backgrounds: Sequence[Path],
    counts: Sequence[int],
) -> tuple[list[Image], dict[int, list[Image]]]:
    """One clear coded crop of every face, and its protected mean over so many frames."""
    clear: list[Image] = []
    seen: dict[int, list[Image]] = {count: [] for count in counts}
    slots = [(40, 20), (370, 20), (40, 250), (370, 250)]
    starts = list(range(0, len(probes), len(slots)))
    for start in context.track(f"averaging: {side} px", starts):
        group = probes[start : start + len(slots)]
        background = backgrounds[(start // len(slots)) % len(backgrounds)]
        frames, places = _scene(
            group, side, background, slots=slots, count=max(counts), seed=context.seed + start
        )
        plain = context.camera.clear_still(frames[0]).image
        clear += [plain[y : y + side, x : x + side].copy() for x, y in places[0]]
        coded = context.camera.video(_timed(frames), RATE).frames
        looks = [to_bgr(frame) for frame in coded]
        for slot in range(len(group)):
            total = np.zeros((side, side, 3))
            for number, (look, corners) in enumerate(zip(looks, places, strict=True), 1):
                x, y = corners[slot]
                total += look[y : y + side, x : x + side]
                if number in seen:
                    seen[number].append(np.asarray(np.rint(total / number), np.uint8))
    return clear, seen


def _scene(
    group: Sequence[Face],
    side: int,
    background: Path,
    *,
    slots: Sequence[tuple[int, int]],
    count: int,
    seed: int,
) -> tuple[list[Image], list[list[tuple[int, int]]]]:
    """Frames and, for each, the corner of every face: to and fro by 16 pixels across, 8 down."""
    rng = np.random.default_rng(seed)
    still = resized(read_bgr(background), *CANVAS_WH)
    frames, places = [], []
    for number in range(count):
        across, down = abs(16 - number % 32), abs(8 - (number // 2) % 16)
        corners = [(x + across, y + down) for x, y in slots[: len(group)]]
        frame = still.copy()
        for face, (x, y) in zip(group, corners, strict=True):
            paste(frame, face.crop, x, y, side)
        noisy = frame + rng.normal(0, NOISE, frame.shape)
        frames.append(np.asarray(np.clip(np.rint(noisy), 0, 255), np.uint8))
        places.append(corners)
    return frames, places


def _timed(frames: Sequence[Image]) -> Iterator[ClearFrame]:
    for number, frame in enumerate(frames):
        yield to_clear(frame, number * 1_000_000 // RATE)


def _page(context: Context, side: int, seen: dict[int, list[Image]]) -> Sheet:
    tiles = [
        captioned(resized(look, 112, 112), f"{count} frames")
        for row in range(min(4, len(next(iter(seen.values())))))
        for count, looks in seen.items()
        for look in looks[row : row + 1]
    ]
    return context.save_sheet(
        f"averaging-{side}",
        sheet(tiles, columns=len(seen), width=112),
        f"Faces of {side} px averaged over frames",
    )
