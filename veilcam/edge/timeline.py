"""Who worked when: one lane per worker, one bar per tile, and every frame's latency, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from analytics.pool import PoolResult
from base.errors import MissingDependency
from base.files import atomic_write
from veilcam.edge.draw import colour_of

_WIDTH, _LANE, _LEFT, _TOP, _CURVE, _RIGHT = 1100, 26, 120, 44, 150, 16


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """One frame of a replay: when its tiles were sent, in seconds from the replay's begin."""

    sent_s: float
    result: PoolResult


@dataclass(frozen=True, slots=True)
class Bar:
    """One tile's work at one worker, in seconds."""

    worker: str
    begin_s: float
    end_s: float
    is_look: bool
    is_good: bool


def bars_of(frames: Sequence[Timed]) -> list[Bar]:
    """Every tile as the time it was worked on; where the worker does not say, from sending to its answer."""
    bars = []
    for frame in frames:
        for outcome in frame.result.outcomes:
            if outcome.kind == "pending":
                continue
            end_s = frame.sent_s + outcome.latency_s
            begin_s = frame.sent_s if outcome.busy_s is None else max(frame.sent_s, end_s - outcome.busy_s)
            name = outcome.worker or outcome.tile.worker
            bars.append(Bar(name, begin_s, end_s, outcome.is_look, outcome.kind != "missing"))
    return bars


def write_timeline(path: Path, frames: Sequence[Timed], names: list[str], *, deadline_s: float) -> None:
    """Write the plot: SVG, or whatever else matplotlib writes (by the file's ending).

    Raises:
        MissingDependency: another ending than .svg, and matplotlib (extra ``train``) is not installed.
    """
    if path.suffix.lower() == ".svg":
        atomic_write(path, timeline_svg(frames, names, deadline_s=deadline_s).encode())
    else:
        _with_matplotlib(path, frames, names, deadline_s)


def timeline_svg(frames: Sequence[Timed], names: list[str], *, deadline_s: float) -> str:
    """The plot as one SVG document."""
    bars = bars_of(frames)
    lanes = [*names, *sorted({bar.worker for bar in bars} - set(names))]
    end_s = max([bar.end_s for bar in bars] + [frame.sent_s for frame in frames] + [1e-3])
    curve_top = _TOP + _LANE * len(lanes) + 34
    height = curve_top + _CURVE + 40
    scale = (_WIDTH - _LEFT - _RIGHT) / end_s
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
        ' font-family="system-ui, sans-serif" font-size="12">',
        "<title>Time line of the workers</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="20" font-size="15" font-weight="600">Who worked when</text>',
        f'<text x="{_LEFT}" y="35" fill="#555">solid: tiles; outlined: looks at the whole frame; red: none'
        "</text>",
    ]
    for place, name in enumerate(lanes):
        y = _TOP + _LANE * place
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 17}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<path d="M{_LEFT} {y + _LANE - 1}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
    parts += [_bar_svg(bar, lanes, names, scale) for bar in bars]
    parts += _curve_svg(frames, curve_top, scale, end_s, deadline_s)
    return "\n".join([*parts, "</svg>\n"])


def _bar_svg(bar: Bar, lanes: list[str], names: list[str], scale: float) -> str:
    y = _TOP + _LANE * lanes.index(bar.worker) + 4
    x, width = _LEFT + scale * bar.begin_s, max(0.8, scale * (bar.end_s - bar.begin_s))
    blue, green, red = colour_of(bar.worker, names)
    colour = f"rgb({red},{green},{blue})" if bar.is_good else "#d33"
    fill = "none" if bar.is_look else colour
    size = f'width="{width:.2f}" height="{_LANE - 9}"'
    return f'<rect x="{x:.2f}" y="{y}" {size} fill="{fill}" stroke="{colour}"/>'


def _curve_svg(frames: Sequence[Timed], top: int, scale: float, end_s: float, deadline_s: float) -> list[str]:
    """Latency over time below the lanes, with the deadline and both axes."""
    bottom = top + _CURVE
    highest_s = max([frame.result.latency_s for frame in frames] + [1e-3]) * 1.15
    rise = _CURVE / highest_s
    parts = [f'<text x="{_LEFT}" y="{top - 8}" font-size="15" font-weight="600">Latency of a frame</text>']
    for share in (0.0, 0.5, 1.0):
        y = bottom - _CURVE * share
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#eee"/>')
        text = f"{1000 * highest_s * share:.0f} ms"
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{text}</text>')
    if deadline_s < highest_s:
        y = bottom - rise * deadline_s
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#d33" stroke-dasharray="5 4"/>')
    points = " ".join(
        f"{_LEFT + scale * frame.sent_s:.1f},{bottom - rise * frame.result.latency_s:.1f}" for frame in frames
    )
    parts.append(f'<polyline points="{points}" fill="none" stroke="#2f6f62" stroke-width="1.5"/>')
    for step in range(6):
        x = _LEFT + scale * end_s * step / 5
        text = f"{end_s * step / 5:.1f} s"
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#555">{text}</text>')
    return parts


def _with_matplotlib(path: Path, frames: Sequence[Timed], names: list[str], deadline_s: float) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        message = f"{path.name}: only .svg can be written without matplotlib: pip install 'veilcam[train]'"
        raise MissingDependency(message) from error
    figure = Figure(figsize=(11, 5), layout="constrained")
    lanes, curve = figure.subplots(2, sharex=True)
    bars = bars_of(frames)
    order = [*names, *sorted({bar.worker for bar in bars} - set(names))]
    for bar in bars:
        blue, green, red = colour_of(bar.worker, names)
        colour = (red / 255, green / 255, blue / 255) if bar.is_good else "#d33"
        lanes.broken_barh(
            [(bar.begin_s, bar.end_s - bar.begin_s)],
            (order.index(bar.worker) - 0.35, 0.7),
            facecolors="none" if bar.is_look else colour,
            edgecolors=colour,
        )
    lanes.set_yticks(range(len(order)), order)
    lanes.invert_yaxis()
    curve.plot([frame.sent_s for frame in frames], [1000 * frame.result.latency_s for frame in frames])
    curve.axhline(1000 * deadline_s, linestyle="--", color="#d33", linewidth=0.8)
    curve.set(xlabel="s", ylabel="latency of a frame, ms")
    figure.savefig(path)
