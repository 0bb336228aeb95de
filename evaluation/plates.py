"""Licence plates: read by OCR at their exact place, as they are and after the trained inverter."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import numpy as np

from analytics.interface import Image
from base.errors import MissingDependency
from evaluation.context import Context
from evaluation.data import Plate, read_bgr
from evaluation.drawing import captioned, sheet
from evaluation.pictures import resized
from evaluation.reader import RapidReader, Reader, characters_right, guessed_right, plain
from evaluation.results import Part, Row, Sheet, Table
from evaluation.statistics import mean, proportion

MARGIN = 0.08  # of the plate's size, on every side


def split(plates: Sequence[Plate]) -> tuple[list[Plate], list[Plate]]:
    """Those an attacker trains on and those that are tested: every other text, in order of the texts."""
    texts = sorted({plate.text for plate in plates})
    trained = set(texts[::2])
    return [p for p in plates if p.text in trained], [p for p in plates if p.text not in trained]


def crop(picture: Image, plate: Plate) -> Image:
    """The plate with a small margin."""
    left, top, width, height = plate.box_xywh
    across, down = round(MARGIN * width), round(MARGIN * height)
    rows = slice(max(top - down, 0), min(top + height + down, picture.shape[0]))
    columns = slice(max(left - across, 0), min(left + width + across, picture.shape[1]))
    return np.ascontiguousarray(picture[rows, columns])


def square(picture: Image, plate: Plate) -> tuple[Image, tuple[int, int, int]]:
    """The square around a plate that an inverter takes, and its (left, top, side)."""
    left, top, width, height = plate.box_xywh
    side = min(round(1.15 * max(width, height)), *picture.shape[:2])
    x = min(max(left + width // 2 - side // 2, 0), picture.shape[1] - side)
    y = min(max(top + height // 2 - side // 2, 0), picture.shape[0] - side)
    return np.ascontiguousarray(picture[y : y + side, x : x + side]), (x, y, side)


def plates(context: Context) -> Part:
    """The part: clear bound, OCR on protected crops, OCR after the inverter."""
    trained, tested = split(context.data.plates())
    if not tested:
        return Part("plates", skipped="no plates/*/*.txt in the data folder")
    try:
        reader = context.reader or RapidReader()
    except MissingDependency as error:
        return Part("plates", skipped=str(error))
    tested = tested[: context.limit(len(tested), quick=3)]
    notes: list[str] = []
    invert = None
    if not context.data.faces():
        notes.append(
            "No faces in the data folder: no attacker was trained, only the untrained attack was made."
        )
    elif importlib.util.find_spec("torch") is None:
        notes.append("Without the extra 'train' there is no inverter: only the untrained attack was made.")
    else:
        from evaluation.train.attackers import train_inverter  # noqa: PLC0415  (an extra)

        invert = train_inverter(context, context.camera.still)
    clear: list[Image] = []
    seen: list[Image] = []
    guessed: list[Image] = []
    for plate in context.track("plates", tested):
        picture = read_bgr(plate.path)
        look = context.camera.still(picture).image
        clear.append(crop(context.camera.clear_still(picture).image, plate))
        seen.append(crop(look, plate))
        if invert is not None:
            patch, (x, y, side) = square(look, plate)
            whole = look.copy()
            whole[y : y + side, x : x + side] = resized(invert([patch])[0], side, side)
            guessed.append(crop(whole, plate))
    attacks = {"OCR": seen} | ({"inverter, then OCR": guessed} if guessed else {})
    wanted = [plain(plate.text) for plate in tested]
    tables, page = reading_tables(context, reader, wanted, clear, attacks=attacks, name="plates")
    how = f"; the inverter: {invert.trained}" if invert is not None else ""
    notes.append(
        f"{len(tested)} plates are tested, {len(trained)} of other texts the attacker may train on. The "
        "protector may have "
        f"been trained on all of them{how}."
    )
    return Part("plates", tables, sheets=(page,), notes=tuple(notes))


def reading_tables(
    context: Context,
    reader: Reader,
    wanted: list[str],
    clear: list[Image],
    *,
    attacks: dict[str, list[Image]],
    name: str,
) -> tuple[tuple[Table, ...], Sheet]:
    """Tables of texts read exactly and of characters right, and the crops with what was read in them."""
    bound = [plain(text) for text in reader.read(clear)]
    bound_right = [characters_right(*pair) for pair in zip(bound, wanted, strict=True)]
    exact_bound = float(np.mean([pair[0] == pair[1] for pair in zip(bound, wanted, strict=True)]))
    exact: list[Row] = []
    right: list[Row] = []
    tiles: list[tuple[float, Image]] = []
    for attack, crops in attacks.items():
        read = [plain(text) for text in reader.read(crops)]
        shares = [characters_right(*pair) for pair in zip(read, wanted, strict=True)]
        hits = sum(one == other for one, other in zip(read, wanted, strict=True))
        exact.append(
            Row.of(attack, proportion(hits, len(wanted)), clear=exact_bound, chance=0.0, floor=0.0, aim=0.0)
        )
        right.append(
            Row.of(
                attack,
                mean(shares),
                clear=float(np.mean(bound_right)),
                chance=guessed_right(read, wanted),
                floor=0.15,
                aim=0.08,
            )
        )
        tiles += [
            (share, captioned(resized(look, 160, 48), f"{share:.0%} {text}"))
            for share, look, text in zip(shares, crops, read, strict=True)
        ]
    worst = [tile for _, tile in sorted(tiles, key=lambda entry: -entry[0])[:18]]
    page = context.save_sheet(
        name,
        sheet(worst, columns=6, width=160),
        f"{name}: crops as the attacker sees them, best readings (failures) first, with the share that is "
        "right",
    )
    note = (
        f"{reader.name}, crops given. Capital letters and digits only. Chance: the same readings held "
        "against other "
        "texts."
    )
    titles = (f"{name}: read exactly", f"{name}: characters right")
    return (
        Table(titles[0], "share", name, False, tuple(exact), note),
        Table(titles[1], "share", name, False, tuple(right), note),
    ), page
