"""Any text: lines that OCR reads in clear pictures, looked for again at their exact place."""

from __future__ import annotations

import numpy as np

from analytics.interface import Image
from base.errors import MissingDependency
from evaluation.context import Context
from evaluation.data import read_bgr
from evaluation.plates import reading_tables
from evaluation.reader import RapidReader, plain
from evaluation.results import Part

MIN_SCORE, MIN_LETTERS, MAX_LINES = 0.85, 3, 150


def text(context: Context) -> Part:
    """The part: COCO val and street pictures; what is read surely in clear is the truth."""
    pictures = [one.image for one in context.data.coco(context.limit(86))]
    streets = context.data.street()
    pictures += [read_bgr(path) for path in streets[:: max(1, len(streets) // context.limit(40, quick=1))]]
    if not pictures:
        return Part("text", skipped="no detection/images/val2017 and no images/street in the data folder")
    try:
        reader = RapidReader()
    except MissingDependency as error:
        return Part("text", skipped=str(error))
    clear: list[Image] = []
    seen: list[Image] = []
    wanted: list[str] = []
    for picture in context.track("text", pictures):
        if len(wanted) >= MAX_LINES:
            break
        lines = [
            line
            for line in reader.find(picture)
            if line.score >= MIN_SCORE and len(plain(line.text)) >= MIN_LETTERS
        ]
        if not lines:
            continue
        plain_look = context.camera.clear_still(picture).image
        look = context.camera.still(picture).image
        for line in lines:
            left, top, right, bottom = line.box_xyxy
            place = np.s_[max(top - 2, 0) : bottom + 2, max(left - 2, 0) : right + 2]
            clear.append(np.ascontiguousarray(plain_look[place]))
            seen.append(np.ascontiguousarray(look[place]))
            wanted.append(plain(line.text))
    if not wanted:
        return Part("text", skipped="the reader found no sure text in the clear pictures")
    tables, page = reading_tables(context, reader, wanted, clear, attacks={"OCR": seen}, name="text lines")
    note = (
        "No labels: lines that the same reader finds in the source with a score of "
        f"{MIN_SCORE} and at least {MIN_LETTERS} letters count as the truth, so the clear bound says what "
        "the codec alone "
        "costs."
    )
    return Part("text", tables, sheets=(page,), notes=(note,))
