from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.veilcam.cli import ROOT, environment

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = ("base", "keys", "models", "codec", "analytics", "camera", "forensics", "veilcam")


def _shipped(package: str) -> set[Path]:
    patterns = PROJECT["tool"]["setuptools"]["package-data"].get(package, [])
    return {path for pattern in patterns for path in (ROOT / package).glob(pattern) if path.is_file()}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_data_file_is_in_the_wheel(package: str) -> None:
    data = {
        path
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"} and "__pycache__" not in path.parts
    }
    assert {str(path.relative_to(ROOT)) for path in data - _shipped(package)} == set()


def test_the_base_install_pulls_neither_torch_nor_agpl_code() -> None:
    base = " ".join(PROJECT["project"]["dependencies"])
    assert not any(name in base for name in ("torch", "ultralytics", "openvino"))


def test_licence_and_notice_are_complete() -> None:
    licence = (ROOT / "LICENSE").read_text()
    assert "Apache License" in licence
    assert "END OF TERMS AND CONDITIONS" in licence
    notice = (ROOT / "NOTICE").read_text()
    for word in ("opencv-doc", "ultralytics", "AGPL", "libx264", "YOLOX"):
        assert word in notice


def test_folders_named_like_our_packages_do_not_hide_them(tmp_path: Path) -> None:
    """Where veilcam is installed; an editable install is the delicate case."""
    if importlib.metadata.packages_distributions().get("veilcam") is None:
        pytest.skip("required: veilcam is not installed (make test installs it)")
    for package in PACKAGES[:-1]:
        (tmp_path / package).mkdir()
    env = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    for argv in ([sys.executable, "-m", "veilcam"], [str(Path(sys.executable).with_name("veilcam"))]):
        done = subprocess.run(
            [*argv, "keys", "camera", "keys/gate"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        for path in (tmp_path / "keys").iterdir():
            path.unlink()


def test_make_lists_every_target_and_documents_it() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("demo", "test", "lint", "type", "layers", "fix", "bench", "build"):
        assert f"make {target} " in listed


def _make(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=cwd, capture_output=True, text=True, check=False)


def test_make_names_an_interpreter_that_is_too_old(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\ncase "$*" in *version_info*) exit 1;; *-V*) echo Python 3.9.2;; esac\n')
    old.chmod(0o755)
    done = _make(f"PYTHON={old}", f"VENV={tmp_path / 'venv'}", "demo")
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stderr
    assert "3.9.2" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_make_names_the_debian_package_when_venv_is_missing(tmp_path: Path) -> None:
    bare = tmp_path / "python3.11"
    bare.write_text('#!/bin/sh\ncase "$*" in *ensurepip*) exit 1;; esac\n')
    bare.chmod(0o755)
    done = _make(f"PYTHON={bare}", f"VENV={tmp_path / 'venv'}", "test")
    assert done.returncode != 0
    assert "python3-venv" in done.stderr


def test_make_names_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    done = _make("PYTHON=python9.9", f"VENV={tmp_path / 'venv'}", "lint")
    assert done.returncode != 0
    assert "python9.9 not found" in done.stderr


def test_ci_is_executable_and_valid_bash() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(script)], check=True)
