"""A quick run without data: real protector, real x264, cached parts, a report that stands alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from base.errors import UsageError
from evaluation import EvaluationSettings, Part, Row, Table, evaluate
from evaluation.report import write_report
from evaluation.results import Curve, Plot, Sheet
from evaluation.run import PARTS
from evaluation.sample import GlyphReader, make_sample

CLIP = Path(__file__).parents[2] / "veilcam" / "assets" / "sample.mp4"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sample(CLIP, tmp_path_factory.mktemp("sample"))


def settings(sample: Path, out: Path, *only: str, seed: int = 0) -> EvaluationSettings:
    return EvaluationSettings(data=sample, out=out, only=only, quick=True, clip_frames=8, seed=seed)


def test_a_finished_part_is_kept_until_something_changes(sample: Path, tmp_path: Path) -> None:
    reader = GlyphReader()
    (first,) = evaluate(settings(sample, tmp_path, "plates"), reader=reader).parts
    steps: list[str] = []

    def note(what: str, _done: int, _total: int) -> None:
        steps.append(what)

    (again,) = evaluate(settings(sample, tmp_path, "plates"), reader=reader, progress=note).parts
    assert again == first
    assert steps == []
    evaluate(settings(sample, tmp_path, "plates", seed=1), reader=reader, progress=note)
    assert steps  # other settings: measured again
    steps.clear()
    (tmp_path / "cache" / "plates.json").write_text("{cut")
    evaluate(settings(sample, tmp_path, "plates", seed=1), reader=reader, progress=note)
    assert steps  # a damaged cache counts as none


def test_clear_plates_are_read_and_protected_ones_reported(sample: Path, tmp_path: Path) -> None:
    (part,) = evaluate(settings(sample, tmp_path, "plates"), reader=GlyphReader()).parts
    exact, right = part.tables
    assert exact.rows[0].clear == 1.0  # the reader is able to: after the same codec, without protection
    assert right.rows[0].clear == 1.0
    assert right.rows[0].n == 3
    assert right.rows[0].chance is not None
    assert right.rows[0].value < 1.0
    assert part.sheets


def test_the_report_needs_nothing_else(sample: Path, tmp_path: Path) -> None:
    result = evaluate(settings(sample, tmp_path, "plates", "faces", "keys"), reader=GlyphReader())
    document, page = write_report(result, tmp_path)
    text = page.read_text()
    sources = re.findall(r"(?:src|href)=[\"']?([^\"'> ]{0,11})", text)
    assert set(sources) == {"data:image/"}
    assert "data:image/jpeg;base64," in text
    assert "A quick run" in text
    assert "Not measured: needs images/street" in text
    stored = json.loads(document.read_text())
    assert [part["name"] for part in stored["parts"]] == ["faces", "keys", "plates"]
    assert str(sample) not in text + document.read_text()
    assert not list(tmp_path.glob(".*.part"))


def test_groups_and_parts_are_chosen_by_name(sample: Path, tmp_path: Path) -> None:
    assert settings(sample, tmp_path).chosen() == list(PARTS)
    assert settings(sample, tmp_path, "privacy").chosen() == [
        name for name, (group, _) in PARTS.items() if group == "privacy"
    ]
    assert settings(sample, tmp_path, "speed", "utility").chosen() == ["utility", "pose", "speed"]
    with pytest.raises(UsageError, match=r"expected some of utility, .*got 'fun'"):
        settings(sample, tmp_path, "fun").chosen()


def test_a_part_survives_its_json() -> None:
    row = Row("a", 0.5, float("nan"), float("nan"), 7, clear=1.0, chance=None, note="n")
    part = Part(
        "x",
        (Table("t", "share", "things", False, (row,), "note"),),
        (
            Plot(
                "p",
                "x",
                "y",
                (
                    Curve(
                        "c",
                        ((1.0, 2.0), (3.0, float("inf"))),
                    ),
                ),
            ),
        ),
        (Sheet("s", "s.jpg"),),
        notes=("one",),
    )
    back = Part.from_json(json.loads(json.dumps(part.to_json(), allow_nan=False)))
    assert back.to_json() == part.to_json()
    assert back.tables[0].rows[0].clear == 1.0
