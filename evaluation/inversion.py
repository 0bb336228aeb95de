"""Faces against trained attackers: a learned inverter, and a recogniser fine-tuned on protected faces."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import numpy as np

from analytics.interface import Image
from base.errors import MissingDependency
from evaluation.context import Context
from evaluation.drawing import captioned, sheet
from evaluation.faces import (
    People,
    described,
    missing_people,
    open_recogniser,
    people,
    sides_tried,
    through_camera,
)
from evaluation.identify import Attempt, attempt, identification_row, verification_row
from evaluation.pictures import resized
from evaluation.quality import psnr
from evaluation.recogniser import distances
from evaluation.results import Part, Row, Sheet, Table
from evaluation.statistics import mean

PX = 112


def needs_training(context: Context) -> People:
    """The people, where trained attackers can run.

    Raises:
        MissingDependency: no torch, or nobody to train on; the message says which.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingDependency("trained attackers need the extra 'train': pip install 'veilcam[train]'")
    folk = people(context.data, first_unseen=context.first_unseen, limit=context.probes, quick=context.quick)
    if folk is None:
        raise MissingDependency(missing_people(context))
    return folk


def inversion(context: Context) -> Part:
    """The part: U-Net from protected to clear, then the off-the-shelf recogniser on what it guesses."""
    folk = needs_training(context)
    from evaluation.train.attackers import train_inverter  # noqa: PLC0415  (an extra)

    recogniser = open_recogniser(context)
    invert = train_inverter(context, context.camera.still)
    gallery = described(context, recogniser, [face.crop for face in folk.gallery], "inversion: clear gallery")
    owners = [face.owner for face in folk.probes]
    tables = _Tables()
    fidelity: list[Row] = []
    pages: list[Sheet] = []
    for side in sides_tried(context):
        clear = through_camera(folk.probes, side, folk.backgrounds, context.camera.clear_still)
        seen = through_camera(folk.probes, side, folk.backgrounds, context.camera.still)
        own = through_camera(folk.gallery, side, folk.backgrounds, context.camera.still, shift=3)
        guessed, own_guessed = invert(seen), invert(own)
        vectors = described(context, recogniser, guessed, f"inversion: {side} px")
        parrot = described(context, recogniser, own_guessed, f"inversion: {side} px, gallery")
        bound = attempt(
            distances(described(context, recogniser, clear, f"inversion: {side} px, clear"), gallery), owners
        )
        attacks = {
            f"{side} px, inverted": attempt(distances(vectors, gallery), owners),
            f"{side} px, inverted, gallery inverted too": attempt(distances(vectors, parrot), owners),
        }
        tables.add(attacks, bound)
        fidelity += _fidelity(folk, side, seen, guessed)
        pages.append(_page(context, side, seen, guessed, next(iter(attacks.values()))))
        recogniser.save()
    note = (
        f"{invert.trained}, of the first {context.first_unseen} identities (those that the defender had), "
        "street "
        "scenes and training pictures; tested on other people. The protector takes no key, so the "
        "attacker's pairs are "
        "the twin camera's pairs: he runs the same weights."
    )
    faces_back = Table(
        "Faces: protected and inverted against the clear crop, luma PSNR",
        "dB",
        "faces",
        False,
        tuple(fidelity),
        "The inverter's gain over the protected pixels is what learning gives back. " + note,
    )
    return Part("inversion", (*tables.done("learned inversion", note), faces_back), sheets=tuple(pages))


def student(context: Context) -> Part:
    """The part: a recogniser that learned to describe protected faces as dlib describes the clear ones."""
    folk = needs_training(context)
    from evaluation.train.attackers import train_student, unit  # noqa: PLC0415  (an extra)

    recogniser = open_recogniser(context)
    learned = train_student(context, context.camera.still)
    clear_gallery = [face.crop for face in folk.gallery]
    gallery = unit(described(context, recogniser, clear_gallery, "student: clear gallery"))
    before = learned.describe(clear_gallery, clear=True)
    owners = [face.owner for face in folk.probes]
    tables = _Tables()
    for side in sides_tried(context):
        clear = through_camera(folk.probes, side, folk.backgrounds, context.camera.clear_still)
        seen = learned.describe(through_camera(folk.probes, side, folk.backgrounds, context.camera.still))
        own = learned.describe(
            through_camera(folk.gallery, side, folk.backgrounds, context.camera.still, shift=3)
        )
        bound = attempt(distances(learned.describe(clear, clear=True), before), owners)
        tables.add(
            {
                f"{side} px, fine-tuned, clear gallery": attempt(distances(seen, gallery), owners),
                f"{side} px, fine-tuned, protected gallery (parrot)": attempt(distances(seen, own), owners),
                f"{side} px, fine-tuned, both galleries": attempt(
                    distances(seen, gallery) + distances(seen, own), owners
                ),
            },
            bound,
        )
    note = (
        f"A small network {learned.trained}; the people are the first {context.first_unseen} identities, "
        "tested on "
        "others. Clear: the same network before fine-tuning, on clear faces: what this attacker can do at "
        "all."
    )
    return Part("student", tables.done("recogniser fine-tuned on protected faces", note))


class _Tables:
    """Rank-1 and verification rows side by side."""

    def __init__(self) -> None:
        self._rank1: list[Row] = []
        self._verified: list[Row] = []

    def add(self, attacks: dict[str, Attempt], bound: Attempt) -> None:
        """One row of each kind per attack."""
        self._rank1 += [identification_row(name, attack, bound) for name, attack in attacks.items()]
        self._verified += [verification_row(name, attack, bound) for name, attack in attacks.items()]

    def done(self, how: str, note: str) -> tuple[Table, Table]:
        """Both tables."""
        return (
            Table(f"Face identification, rank-1, {how}", "share", "probes", False, tuple(self._rank1), note),
            Table(
                f"Face verification, true accepts at 1e-3 false accepts, {how}",
                "share",
                "right pairs",
                False,
                tuple(self._verified),
                note,
            ),
        )


def _fidelity(folk: People, side: int, seen: Sequence[Image], guessed: Sequence[Image]) -> list[Row]:
    truth = [resized(face.crop, PX, PX) for face in folk.probes]
    protected = [resized(look, PX, PX) for look in seen]
    values = {
        name: [psnr(_luma(one), _luma(other)) for one, other in zip(looks, truth, strict=True)]
        for name, looks in (("protected", protected), ("inverted", guessed))
    }
    return [Row.of(f"{side} px, {name}", mean(found)) for name, found in values.items()]


def _luma(bgr: Image) -> Image:
    weights = np.array([0.114, 0.587, 0.299])
    return np.asarray(np.clip(bgr @ weights, 0, 255), np.uint8)


def _page(context: Context, side: int, seen: list[Image], guessed: list[Image], attack: Attempt) -> Sheet:
    order = np.argsort(~attack.hits, kind="stable")[:12].tolist()
    tiles = [
        captioned(
            np.concatenate([resized(seen[index], PX, PX), guessed[index]], 1),
            "identified" if attack.hits[index] else "not",
        )
        for index in order
    ]
    return context.save_sheet(
        f"inversion-{side}",
        sheet(tiles, columns=5, width=2 * PX),
        f"Faces of {side} px: protected, and what the inverter makes of it; identified ones (failures) first",
    )
