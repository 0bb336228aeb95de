"""Pictures of a training: how its figures went, and what the networks draw."""

from __future__ import annotations

import importlib.util
import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor

from base.files import atomic_write

logger = logging.getLogger(__name__)


def plot_history(history: Path, target: Path) -> None:
    """Draw every figure of a history.jsonl over the minutes; nothing if there is none yet."""
    if not history.exists():
        return
    if importlib.util.find_spec("matplotlib") is None:
        logger.info("no %s: matplotlib is not installed", target.name)
        return
    import matplotlib as mpl  # noqa: PLC0415  (an extra, and slow)

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    rows = [json.loads(line) for line in history.read_text(encoding="utf-8").splitlines()]
    names = sorted({name for row in rows for name in row} - {"step", "seconds"})
    columns = 4
    figure, axes = pyplot.subplots(
        max(1, math.ceil(len(names) / columns)), columns, figsize=(16, 3 * math.ceil(len(names) / columns))
    )
    for axis, name in zip(axes.flat, names, strict=False):
        points = [(row["seconds"] / 60, row[name]) for row in rows if name in row]
        axis.plot(*zip(*points, strict=True), linewidth=1)
        axis.set_title(name, fontsize=9)
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    figure.supxlabel("minutes")
    figure.tight_layout()
    temporary = target.with_name(f".{target.name}")
    figure.savefig(temporary, dpi=70, format="png")
    pyplot.close(figure)
    temporary.replace(target)


def write_sheet(target: Path, columns: Sequence[Tensor]) -> None:
    """Write batches of RGB pictures [B, 3, H, W] in 0..1 as JPEG: a row per sample, a column per batch."""
    side_by_side = torch.cat(list(columns), 3)  # [B, 3, H, W * columns]
    sheet = (torch.cat(list(side_by_side), 1).permute(1, 2, 0) * 255).numpy().astype(np.uint8)
    good, data = cv2.imencode(target.suffix, sheet[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 88])
    if good:
        atomic_write(target, bytes(data))
