"""Line plots as inline SVG."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import numpy as np

from evaluation.results import Plot

Place = Callable[[float, float], tuple[float, float]]
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
_WIDTH, _HEIGHT = 460, 280
_LEFT, _BOTTOM, _TOP, _RIGHT = 52, 40, 12, 12


def line_plot(plot: Plot) -> str:
    """One plot with axes, grid and legend; curves of finite points only."""
    curves = [
        (curve.name, [(x, y) for x, y in curve.points if np.isfinite(x) and np.isfinite(y)])
        for curve in plot.curves
    ]
    points = [point for _, found in curves for point in found]
    if not points:
        return ""
    x_ticks, y_ticks = (_ticks([point[axis] for point in points]) for axis in (0, 1))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        up = (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _BOTTOM - _TOP)

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(plot.title)}">']
    parts += [_grid(place, x_ticks, y_ticks)]
    for index, (name, found) in enumerate(curves):
        colour = _COLOURS[index % len(_COLOURS)]
        placed = [place(*point) for point in sorted(found)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"/>' for x, y in placed]
        y_text = _HEIGHT - _BOTTOM - 8 - 14 * (len(curves) - 1 - index)
        parts.append(
            f'<text x="{_WIDTH - _RIGHT - 6}" y="{y_text}" fill="{colour}" text-anchor="end">'
            f"{escape(name)}</text>"
        )
    middle = _LEFT + (_WIDTH - _LEFT - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(plot.x_label)}</text>')
    parts.append(
        f'<text x="12" y="{_HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 12 {_HEIGHT / 2})">'
        f"{escape(plot.y_label)}</text></svg>"
    )
    return "".join(parts)


def _grid(place: Place, x_ticks: list[float], y_ticks: list[float]) -> str:
    found = []
    for value in x_ticks:
        x, bottom = place(value, y_ticks[0])
        top = place(value, y_ticks[-1])[1]
        found.append(f'<path d="M{x:.1f} {bottom:.1f}V{top:.1f}" stroke="#ddd"/>')
        found.append(f'<text x="{x:.1f}" y="{bottom + 14:.1f}" text-anchor="middle">{value:g}</text>')
    for value in y_ticks:
        left, y = place(x_ticks[0], value)
        right = place(x_ticks[-1], value)[0]
        found.append(f'<path d="M{left:.1f} {y:.1f}H{right:.1f}" stroke="#ddd"/>')
        found.append(f'<text x="{left - 5:.1f}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    return "".join(found)


def _ticks(values: list[float]) -> list[float]:
    """Round numbers around the values: steps of 1, 2 or 5 times a power of ten."""
    low, high = min(values), max(values)
    spread = (high - low) or abs(high) or 1.0
    power = 10.0 ** np.floor(np.log10(spread / 4))
    step = min((factor * power for factor in (1, 2, 5, 10)), key=lambda one: abs(spread / one - 4.5))
    first, last = np.floor(low / step), np.ceil(high / step)
    if last == first:
        last += 1
    return [float(round(index * step, 10)) for index in np.arange(first, last + 1)]
