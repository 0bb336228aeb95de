"""Readings, splits, and the reader that quick runs use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.data import Plate
from evaluation.plates import MARGIN, crop, split
from evaluation.reader import characters_right, edits, guessed_right, plain
from evaluation.sample import GlyphReader, draw_plate

WORDS = st.text("AB1", max_size=6)


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [("KITTEN", "SITTING", 3), ("", "ABC", 3), ("FLAW", "LAWN", 2), ("SAME", "SAME", 0)],
)
def test_edits_of_the_usual_examples(first: str, second: str, count: int) -> None:
    assert edits(first, second) == edits(second, first) == count


@settings(deadline=None)
@given(WORDS, WORDS, WORDS)
def test_edits_are_a_distance(one: str, two: str, three: str) -> None:
    assert edits(one, two) <= edits(one, three) + edits(three, two)
    assert (edits(one, two) == 0) == (one == two)
    assert abs(len(one) - len(two)) <= edits(one, two) <= max(len(one), len(two))


def test_characters_right_and_chance() -> None:
    assert characters_right("AB123", "AB123") == 1
    assert characters_right("AB12", "AB123") == pytest.approx(0.8)
    assert characters_right("", "AB123") == characters_right("XYZWVUTSRQ", "AB123") == 0
    # Each reading against the other's text: both share one of four letters with it.
    assert guessed_right(["AAAB", "CCCB"], ["AAAB", "CCCB"]) == pytest.approx(0.25)


def test_only_letters_and_digits_count() -> None:
    assert plain("b-ab 12·é") == "BAB12"


def test_no_text_is_on_both_sides_of_the_split() -> None:
    plates = [Plate(Path(f"{i}.jpg"), (0, 0, 9, 9), text, "eu") for i, text in enumerate("CABDBEA")]
    trained, tested = split(plates)
    assert {p.text for p in trained} == {"A", "C", "E"}
    assert {p.text for p in tested} == {"B", "D"}
    assert len(trained) + len(tested) == len(plates)


def test_the_quick_reader_reads_what_is_not_protected_and_not_what_is_flat() -> None:
    plate = draw_plate("K3AM7X")
    picture = np.full((120, 300, 3), 90, np.uint8)
    picture[40 : 40 + plate.shape[0], 50 : 50 + plate.shape[1]] = plate
    place = Plate(Path("x"), (50, 40, plate.shape[1], plate.shape[0]), "K3AM7X", "drawn")
    cut = crop(picture, place)
    assert cut.shape[1] == plate.shape[1] + 2 * round(MARGIN * plate.shape[1])
    assert GlyphReader().read([cut]) == ["K3AM7X"]
    flat = np.full_like(cut, 128)
    assert characters_right(GlyphReader().read([flat])[0], "K3AM7X") < 0.5
