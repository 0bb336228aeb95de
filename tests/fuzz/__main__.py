"""Fuzz parsers: ``python -m tests.fuzz TARGET --seconds N``; TARGET is a name, an area, ``all`` or ``list``.

With atheris (the fuzz extra) guided by coverage: libFuzzer reads `tests/fuzz/corpus/TARGET`, stops at the
first crash, at an input above 5 s or at 512 MB, and leaves what it found in the folder of ``--work``.
Without it, inputs are mutated blindly in this process. ``--keep`` copies what widened the coverage into the
corpus, the smallest set only.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.codec.fuzz import mutate
from tests.fuzz.targets import CORPUS, HANG_S, RSS_LIMIT_MB, TARGETS

_NUM_RUNS = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
_PEAK_MB = re.compile(r"stat::peak_rss_mb:\s+(\d+)")
_MAX_KEPT_BYTES = 4096


def main(argv: list[str] | None = None) -> int:
    """Run; 0 if nothing was found, 1 if something was."""
    options = _options(argv)
    names = [n for n, t in TARGETS.items() if options.target in (n, t.area, "all", "list")]
    if options.target == "list":
        print(*(f"{TARGETS[name].area:8} {name}" for name in names), sep="\n")
        return 0
    if not names:
        print(f"fuzz: no target or area called {options.target!r}; `list` shows them", file=sys.stderr)
        return 2
    guided = options.engine == "atheris"
    total = failures = 0
    for name in names:
        work = Path(options.work or tempfile.mkdtemp(prefix="veilcam-fuzz-")) / name
        work.mkdir(parents=True, exist_ok=True)
        seconds = max(options.seconds // len(names), 1)
        count, note, failed = _guided(name, seconds, work) if guided else _blind(name, seconds, options.seed)
        total, failures = total + count, failures + failed
        print(f"{name:20} {count:>10} executions  {note}", flush=True)
        if options.keep and guided and not failed:
            _keep(name, work)
    print(f"{total} executions of {len(names)} targets, {failures} with findings, {options.engine}")
    return 1 if failures else 0


def _options(argv: list[str] | None) -> argparse.Namespace:
    has_atheris = importlib.util.find_spec("atheris") is not None
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
    parser.add_argument(
        "--engine", choices=("atheris", "mutate"), default="atheris" if has_atheris else "mutate"
    )
    parser.add_argument("--work", help="folder for new corpus and crashes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="add what widened coverage to the corpus")
    return parser.parse_args(argv)


def _seed_folder(name: str, work: Path) -> Path:
    folder = work / "seeds"
    folder.mkdir(exist_ok=True)
    for number, sample in enumerate(TARGETS[name].samples):
        (folder / f"sample{number}").write_bytes(sample)
    return folder


def _guided(name: str, seconds: int, work: Path) -> tuple[int, str, bool]:
    grown = work / "corpus"
    grown.mkdir(exist_ok=True)
    folders = [str(grown), str(_seed_folder(name, work))]
    if (CORPUS / name).is_dir():
        folders.append(str(CORPUS / name))
    limits = [
        f"-max_total_time={seconds}",
        f"-max_len={TARGETS[name].max_bytes}",
        f"-rss_limit_mb={RSS_LIMIT_MB}",
        f"-timeout={HANG_S}",
        "-print_final_stats=1",
        "-verbosity=1",
        f"-artifact_prefix={work}/finding-",
    ]
    command = [sys.executable, "-m", "tests.fuzz.one", name, *limits, *folders]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    runs, peak = _NUM_RUNS.search(done.stderr), _PEAK_MB.search(done.stderr)
    if done.returncode:
        sys.stderr.write(done.stderr[-4000:])
        return int(runs[1]) if runs else 0, f"FINDING, see {work}", True
    return int(runs[1]) if runs else 0, f"peak {peak[1] if peak else '?'} MB", False


def _keep(name: str, work: Path) -> None:
    """Merge the grown corpus into the kept one: libFuzzer takes the smallest inputs that add coverage."""
    target = CORPUS / name
    target.mkdir(parents=True, exist_ok=True)
    merged = work / "merged"
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir()
    command = [sys.executable, "-m", "tests.fuzz.one", name, "-merge=1", str(merged), str(target)]
    subprocess.run([*command, str(work / "corpus")], capture_output=True, check=True)
    kept = [path for path in sorted(merged.iterdir()) if path.stat().st_size <= _MAX_KEPT_BYTES]
    if not kept:  # not even the samples' own coverage: the merge did not work
        print(f"{name}: nothing was merged, its corpus is left as it is", file=sys.stderr)
        return
    shutil.rmtree(target)
    target.mkdir()
    for path in kept:
        shutil.copy(path, target / path.name[:16])


def _blind(name: str, seconds: int, seed: int) -> tuple[int, str, bool]:
    rng = random.Random(seed)
    target = TARGETS[name]
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        data = mutate(rng.choice(target.samples), rng)
        try:
            target.execute(data)
        except Exception as error:  # whatever it is, it is the finding
            return count, f"FINDING {type(error).__name__}: {data.hex()[:2000]}", True
        count += 1
    return count, "blind", False


if __name__ == "__main__":
    sys.exit(main())
