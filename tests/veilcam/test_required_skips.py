from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.veilcam.cli import ROOT

MODULE = """
import pytest

def test_required():
    pytest.skip("required: chromium is not installed")

def test_optional():
    pytest.skip("no camera attached")

@pytest.mark.skipif(True, reason="required: marked")
def test_marked():
    pass
"""


def _run(folder: Path, value: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "test_it.py").write_text(MODULE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-W",
            "ignore",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(folder),
            str(folder),
        ],
        env={**os.environ, "VEILCAM_REQUIRE_ALL": value},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("value", "exit_code", "line"), [("1", 1, "1 failed, 1 skipped, 1 error"), ("", 0, "3 skipped")]
)
def test_ci_fails_on_required_skips_only(tmp_path: Path, value: str, exit_code: int, line: str) -> None:
    done = _run(tmp_path, value)
    assert done.returncode == exit_code, done.stdout
    assert line in done.stdout


def test_ci_fails_when_a_whole_required_module_skips(tmp_path: Path) -> None:
    (tmp_path / "test_module.py").write_text(
        'import pytest\npytest.skip("required: ffmpeg is not installed", allow_module_level=True)\n'
    )
    done = _run(tmp_path, "1")
    assert done.returncode != 0
    assert "required: ffmpeg" in done.stdout
