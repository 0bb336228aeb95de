"""What fuzzing found worth keeping: every input of the corpus runs against its target."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.codec.fuzz import mutate
from tests.fuzz.targets import CORPUS, TARGETS

AREAS = {"stream", "header", "grant", "share", "ledger", "config", "keys", "worker"}


def inputs(name: str) -> list[bytes]:
    folder = CORPUS / name
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


def test_every_parser_has_a_target() -> None:
    assert {target.area for target in TARGETS.values()} == AREAS


def test_every_folder_of_the_corpus_belongs_to_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir() if path.is_dir()} <= set(TARGETS)
    assert sum(path.stat().st_size for path in CORPUS.rglob("*")) < 4_000_000


@pytest.mark.parametrize("name", TARGETS)
def test_samples_and_corpus_raise_nothing_but_our_errors(name: str) -> None:
    for data in (*TARGETS[name].samples, *inputs(name)):
        TARGETS[name].execute(data)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_samples_and_strangers_raise_nothing_but_our_errors(name: str) -> None:
    rng = random.Random(name)
    target = TARGETS[name]
    for sample in target.samples:
        for _ in range(25):
            target.execute(mutate(sample, rng))
    for other in TARGETS.values():
        target.execute(other.samples[0][: target.max_bytes])


@pytest.mark.parametrize("engine", ["atheris", "mutate"])
def test_the_driver_runs_and_counts(engine: str, tmp_path: Path) -> None:
    if engine == "atheris" and importlib.util.find_spec("atheris") is None:
        pytest.skip("needs the fuzz extra")
    command = [sys.executable, "-m", "tests.fuzz", "time-range", "--seconds", "1", "--work", str(tmp_path)]
    done = subprocess.run(
        [*command, "--engine", engine], capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"executions of 1 targets, 0 with findings, {engine}" in done.stdout
    assert not done.stdout.startswith("0 executions")
