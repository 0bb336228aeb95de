"""Writes what a run found: results.json and report.html, each complete or not at all."""

from __future__ import annotations

import json
from pathlib import Path

from base.files import atomic_write
from evaluation.html import render
from evaluation.run import Evaluation

JSON_NAME, HTML_NAME = "results.json", "report.html"


def write_report(evaluation: Evaluation, out: Path) -> tuple[Path, Path]:
    """Both files in ``out``; returns their paths (JSON, HTML).

    Raises:
        OSError: the folder cannot be written.
    """
    paths = out / JSON_NAME, out / HTML_NAME
    atomic_write(paths[0], json.dumps(evaluation.to_json(), indent=1).encode() + b"\n")
    atomic_write(paths[1], render(evaluation, out / "cache" / "pictures"))
    return paths
