"""The sample clip (see NOTICE for where it comes from)."""

from __future__ import annotations

from pathlib import Path

SAMPLE = Path(__file__).with_name("sample.mp4")
