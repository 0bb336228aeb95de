"""What every part hands back: tables whose rows all carry n, an interval, the clear bound and chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from base.errors import Malformed
from evaluation.statistics import Estimate

Unit = Literal["share", "ratio", "dB", "ssim", "fps", "ms", "times"]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes:
        name: what was measured, on what.
        value: the figure in the table's unit; nan where there was nothing to measure.
        low: lower end of its 95 % interval.
        high: upper end.
        n: how many independent things it comes from (pictures, probes, clips).
        clear: the same measured on clear video after the same codec; None where that has no meaning.
        chance: what guessing reaches; None where that has no meaning.
        floor: the bar that has to be met, aim: the one that is hoped for; None if there is none.
        note: anything a reader has to know to understand the figure.
    """

    name: str
    value: float
    low: float
    high: float
    n: int
    clear: float | None = None
    chance: float | None = None
    floor: float | None = None
    aim: float | None = None
    note: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        estimate: Estimate,
        *,
        clear: float | None = None,
        chance: float | None = None,
        floor: float | None = None,
        aim: float | None = None,
        note: str = "",
    ) -> Row:
        """A row with the value, interval and n of ``estimate``."""
        return cls(
            name, estimate.value, estimate.low, estimate.high, estimate.n, clear, chance, floor, aim, note
        )


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one unit, with what ``n`` counts and which direction is good."""

    title: str
    unit: Unit
    counts: str
    higher_is_better: bool
    rows: tuple[Row, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """Points (x, y) of one line in a plot."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over common axes."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A labelled picture for the report: JPEG in the part's cache, by file name."""

    title: str
    file: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """All that one part of the evaluation found, or why it did not run."""

    name: str
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    sheets: tuple[Sheet, ...] = ()
    skipped: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; numbers that are not finite become None."""
        cleaned = _finite(asdict(self))
        return dict(cleaned)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Part:
        """The part that ``to_json`` wrote.

        Raises:
            Malformed: it is something else.
        """
        try:
            return cls(
                name=str(stored["name"]),
                tables=tuple(_table(one) for one in stored["tables"]),
                plots=tuple(
                    Plot(
                        one["title"],
                        one["x_label"],
                        one["y_label"],
                        tuple(
                            Curve(c["name"], tuple((_number(x), _number(y)) for x, y in c["points"]))
                            for c in one["curves"]
                        ),
                    )
                    for one in stored["plots"]
                ),
                sheets=tuple(Sheet(**one) for one in stored["sheets"]),
                skipped=str(stored["skipped"]),
                seconds=float(stored["seconds"]),
                notes=tuple(str(one) for one in stored["notes"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Malformed(f"stored part: not as this release writes it ({type(error).__name__})") from error


def _table(stored: Mapping[str, Any]) -> Table:
    rows = tuple(
        Row(**{**one, **{name: _number(one[name]) for name in ("value", "low", "high")}, "n": int(one["n"])})
        for one in stored["rows"]
    )
    return Table(
        stored["title"],
        stored["unit"],
        stored["counts"],
        bool(stored["higher_is_better"]),
        rows,
        stored["note"],
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _finite(value: object) -> Any:  # noqa: ANN401  (JSON has no type of its own)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(one) for one in value]
    return value
