"""The report: one HTML file with everything in it."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from html import escape
from pathlib import Path

from base.files import read_bounded
from evaluation.results import Part, Row, Sheet, Table, Unit
from evaluation.run import PARTS, Evaluation
from evaluation.svg import line_plot

MAX_PICTURE_BYTES = 32 * 1024 * 1024
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:.6em 0 1.2em;width:100%}
th,td{padding:.25em .6em;text-align:right;border-bottom:1px solid #ddd}
th:first-child,td:first-child,td:last-child,th:last-child{text-align:left}th{background:#f3f3f3}
.aim{background:#d9f2d9}.floor{background:#eef7dd}.miss{background:#fbdcdc}.note{color:#555;font-size:.9em}
img{max-width:100%;image-rendering:auto}svg{width:460px;max-width:48%;font:11px system-ui,sans-serif}
.skipped{background:#fff3cd;padding:.5em .8em}details{margin:.6em 0}
"""
_QUICK = (
    "<p class=skipped>A quick run: a handful of pictures, a gallery of a dozen people, attackers that hardly "
    "trained. It shows that everything works, not how well.</p>"
)
_FORMATS: dict[Unit, Callable[[float], str]] = {
    "share": lambda value: f"{value:.2%}",
    "ratio": lambda value: f"{value:.3f}",
    "dB": lambda value: f"{value:.2f}",
    "ssim": lambda value: f"{value:.3f}",
    "fps": lambda value: f"{value:.1f}",
    "ms": lambda value: f"{value:.1f}",
    "times": lambda value: f"{value:.2f}",
}
_UNIT_TEXT: dict[Unit, str] = {
    "share": "share",
    "ratio": "ratio",
    "dB": "dB",
    "ssim": "SSIM",
    "fps": "pictures a second",
    "ms": "milliseconds",
    "times": "times",
}


def render(evaluation: Evaluation, pictures: Path) -> bytes:
    """The whole report in UTF-8. ``pictures`` is the folder with the parts' sheets.

    Raises:
        LimitExceeded: a picture is larger than a report should hold.
    """
    described = evaluation.described
    weights = described["weights"]
    settings = ", ".join(f"{name} {value}" for name, value in described["settings"].items())
    head = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>veilcam evaluation</title>",
        f"<style>{_STYLE}</style><h1>veilcam evaluation</h1>",
        f"<p>Protector {escape(weights['name'])}, model id {weights['model_id']}; data "
        f"{described['data_sha256'][:16]}; "
        f"veilcam {escape(described['veilcam'])}, {escape(described['machine'])}, {described['date']}.<br>"
        f"<span class=note>{escape(settings)}</span></p>",
        "<p class=note>Colours: green where the aim is met, pale green where the floor is met, red where it "
        "is missed, by "
        "the value, not by its interval. <em>Clear</em> is the same figure for clear video after the same "
        "codec, "
        "<em>chance</em> what guessing reaches; a dash means that the figure has none. Protected means "
        "pseudonymised: the "
        "video remains personal data.</p>",
        _QUICK if described["settings"]["quick"] else "",
        _summary(evaluation.parts),
    ]
    body = [_part(part, pictures) for part in evaluation.parts]
    return "\n".join([*head, *body, "</html>\n"]).encode()


def _summary(parts: tuple[Part, ...]) -> str:
    """Every row that has a bar, in one table of misses first."""
    rows = [
        (table, row) for part in parts for table in part.tables for row in table.rows if _verdict(table, row)
    ]
    if not rows:
        return ""
    counts = {
        verdict: sum(_verdict(t, r) == verdict for t, r in rows) for verdict in ("aim", "floor", "miss")
    }
    missed = [(table, row) for table, row in rows if _verdict(table, row) == "miss"]
    lines = "".join(
        f"<tr><td>{escape(table.title)}: "
        f"{escape(row.name)}<td>{_shown(table, row.value)}<td>{_shown(table, row.floor)}"
        f"<td>{_shown(table, row.aim)}"
        for table, row in missed
    )
    unsure = sum(_is_unsure(row) for _, row in rows)
    tally = (
        f"{counts['aim']} at the aim, {counts['floor']} at the floor, {counts['miss']} missed. The interval "
        "of "
        f"{unsure} reaches across the floor: more data would be needed to be sure of them."
    )
    text = f"<h2>Bars</h2><p>{tally}</p>"
    if not missed:
        return text
    return f"{text}<table><tr><th>missed<th>value<th>floor<th>aim{lines}</table>"


def _part(part: Part, pictures: Path) -> str:
    group = PARTS[part.name][0] if part.name in PARTS else ""
    title = part.name if group == part.name else f"{group}: {part.name}"
    if part.skipped:
        return f"<h2>{escape(title)}</h2><p class=skipped>Not measured: {escape(part.skipped)}</p>"
    blocks = [f"<h2>{escape(title)}</h2><p class=note>{part.seconds:.0f} s</p>"]
    blocks += [f"<p>{escape(note)}</p>" for note in part.notes]
    blocks += [_table(table) for table in part.tables]
    blocks += [f"<figure style=display:inline>{line_plot(plot)}</figure>" for plot in part.plots]
    blocks += [_sheet(one, pictures) for one in part.sheets]
    return "\n".join(blocks)


def _table(table: Table) -> str:
    names = (_UNIT_TEXT[table.unit], "value", "95 % interval", "clear", "chance", "n", "floor", "aim", "")
    head = "<tr>" + "".join(f"<th>{name}" for name in names)
    lines = "".join(_row(table, row) for row in table.rows)
    better = "higher is better" if table.higher_is_better else "lower is better"
    note = f" {escape(table.note)}" if table.note else ""
    return (
        f"<h3>{escape(table.title)}</h3><table>{head}{lines}</table>"
        f"<p class=note>{better}; n counts {escape(table.counts)}.{note}</p>"
    )


def _row(table: Table, row: Row) -> str:
    interval = (
        "-"
        if math.isnan(row.low) or math.isnan(row.high)
        else f"{_shown(table, row.low)} to {_shown(table, row.high)}"
    )
    cells = [
        escape(row.name),
        _shown(table, row.value),
        interval,
        _shown(table, row.clear),
        _shown(table, row.chance),
        str(row.n),
        _shown(table, row.floor),
        _shown(table, row.aim),
        escape(row.note),
    ]
    return f'<tr class="{_verdict(table, row)}">' + "".join(f"<td>{cell}" for cell in cells)


def _verdict(table: Table, row: Row) -> str:
    """``aim``, ``floor``, ``miss``, or nothing where there is no bar or no figure."""
    if row.floor is None or row.aim is None or math.isnan(row.value):
        return ""
    sign = 1 if table.higher_is_better else -1
    for name, bar in (("aim", row.aim), ("floor", row.floor)):
        if sign * row.value >= sign * bar:
            return name
    return "miss"


def _is_unsure(row: Row) -> bool:
    """Whether the floor lies inside the interval, so that chance may have decided the verdict."""
    return row.floor is not None and row.low < row.floor < row.high


def _shown(table: Table, value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return "equal" if math.isinf(value) else _FORMATS[table.unit](value)


def _sheet(one: Sheet, pictures: Path) -> str:
    data = base64.b64encode(read_bounded(pictures / one.file, MAX_PICTURE_BYTES)).decode()
    note = f"<p class=note>{escape(one.note)}</p>" if one.note else ""
    picture = f'<img alt="{escape(one.title)}" src="data:image/jpeg;base64,{data}">'
    return f"<details open><summary>{escape(one.title)}</summary>{note}{picture}</details>"
