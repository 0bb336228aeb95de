"""Measures a protector: utility, privacy under trained attack, recovery, bandwidth, speed.

What is measured and how: docs/evaluation.md.

run.py        the parts in order, each cached; report.py, html.py: what they found
camera.py     protected video as the camera makes it: protector, real x264, decoder
data.py       the folder of labelled data that a run is given
utility.py, pose.py, faces.py, averaging.py, inversion.py, plates.py, text.py, reid.py, recovery.py,
bandwidth.py, speed.py: one part each
tradeoff.py, sample.py: every strength; data for a quick run
train/        attackers that are trained, rivals (the extra ``train``)
"""

from __future__ import annotations

from evaluation.pixel_path import PixelPath
from evaluation.results import Part, Row, Table
from evaluation.run import EvaluationSettings, evaluate

__all__ = ["EvaluationSettings", "Part", "PixelPath", "Row", "Table", "evaluate"]
