from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import AuthenticationFailed, FormatError, LimitExceeded, UsageError
from forensics.audit import verify_ledger
from forensics.ledger import FIRST_PREVIOUS, Ledger, LedgerEntry, default_ledger_path


def _filled(path: Path, num_entries: int = 3) -> Ledger:
    ledger = Ledger(path, clock=lambda: 1_000_000)
    for index in range(num_entries):
        ledger.append("open", {"input": f"clip {index}"})
    return ledger


def test_the_chain_can_be_checked_with_nothing_but_sha256_and_json(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    _filled(path)
    previous = "0" * 64
    for index, line in enumerate(path.read_text().splitlines()):
        entry = json.loads(line)
        stated = entry.pop("hash")
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert hashlib.sha256(text.encode()).hexdigest() == stated
        assert (entry["prev"], entry["seq"], entry["v"]) == (previous, index, 1)
        assert entry["time"] == "1970-01-01T00:00:01.000000Z"
        previous = stated
    report = verify_ledger(path)
    assert (report.is_intact, report.num_entries, report.head_hash) == (True, 3, previous)


def test_the_ledger_is_private_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "state" / "ledger.jsonl"
    _filled(path, 1)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("victim", [0, 1])
def test_changing_removing_or_moving_an_entry_breaks_the_chain(tmp_path: Path, victim: int) -> None:
    path = tmp_path / "ledger.jsonl"
    _filled(path)
    lines = path.read_bytes().splitlines(keepends=True)

    changed = [*lines]
    changed[victim] = changed[victim].replace(b"clip", b"clap")
    removed = lines[:victim] + lines[victim + 1 :]
    moved = [*lines]
    moved[victim], moved[victim + 1] = moved[victim + 1], moved[victim]
    for broken in (changed, removed, moved):
        path.write_bytes(b"".join(broken))
        assert not verify_ledger(path).is_intact


def test_nothing_is_chained_to_an_entry_that_does_not_verify(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = _filled(path)
    damaged = path.read_bytes().replace(b"clip 2", b"clip 9")
    path.write_bytes(damaged)
    with pytest.raises(AuthenticationFailed):
        ledger.append("open", {})
    assert path.read_bytes() == damaged


@settings(deadline=None, max_examples=15)  # fsync, and shared machines
@given(cut=st.integers(1, 200))
def test_a_torn_line_is_cut_off_and_the_repair_recorded(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("torn") / "ledger.jsonl"
    ledger = _filled(path)
    whole = path.read_bytes()
    last = whole.splitlines()[-1]
    cut = min(cut, len(last) - 1) + 1  # the newline and at least one byte of the line
    torn = last[: len(last) - cut + 1]
    path.write_bytes(whole[:-cut])

    before = verify_ledger(path)
    assert (before.is_intact, before.num_entries, before.torn_bytes) == (True, 2, len(torn))
    entry = ledger.append("open", {"input": "next"})

    after = verify_ledger(path)
    assert (after.is_intact, after.num_entries, after.num_repairs, entry.seq) == (True, 4, 1, 3)
    note = LedgerEntry.parse(path.read_bytes().splitlines()[2])
    assert note.kind == "repair"
    assert note.body == {"removed_bytes": len(torn), "removed_sha256": hashlib.sha256(torn).hexdigest()}


def test_an_entry_that_lost_only_its_newline_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = _filled(path)
    path.write_bytes(path.read_bytes()[:-1])
    assert ledger.append("open", {}).seq == 3
    report = verify_ledger(path)
    assert (report.is_intact, report.num_entries, report.num_repairs) == (True, 4, 0)


def test_zeros_left_by_a_power_cut_are_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = _filled(path, 1)
    path.write_bytes(path.read_bytes() + bytes(200_000))
    assert ledger.append("open", {}).seq == 2
    assert verify_ledger(path).is_intact


def test_threads_and_processes_write_one_unbroken_chain(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    program = (
        "import sys; from pathlib import Path; from forensics.ledger import Ledger\n"
        "for i in range(8): Ledger(Path(sys.argv[1])).append('open', {'i': i})\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", program, str(path)]) for _ in range(2)]
    threads = [threading.Thread(target=_filled, args=(path, 8)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [child.wait(60) for child in children] == [0, 0]
    report = verify_ledger(path)
    assert (report.is_intact, report.num_entries) == (True, 32)


def test_a_failed_write_leaves_no_part_of_an_entry(tmp_path: Path) -> None:
    """A real full disk: RLIMIT_FSIZE makes the kernel refuse after a part of the line."""
    path = tmp_path / "ledger.jsonl"
    _filled(path)
    whole = path.read_bytes()
    program = (
        "import resource, signal, sys; from pathlib import Path; from forensics.ledger import Ledger\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(whole) + 50},) * 2)\n"
        "try: Ledger(Path(sys.argv[1])).append('open', {})\n"
        "except OSError: print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, check=True)
    assert done.stdout == b"refused\n"
    assert path.read_bytes() == whole


def test_an_entry_beyond_the_limit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = _filled(path, 1)
    whole = path.read_bytes()
    with pytest.raises(LimitExceeded):
        ledger.append("open", {"reason": "x" * 70_000})
    assert path.read_bytes() == whole


def test_a_device_cannot_stand_in_for_the_ledger() -> None:
    with pytest.raises(UsageError, match="not a regular file"):
        Ledger(Path(os.devnull)).append("open", {})


def test_openings_without_an_end_are_listed(tmp_path: Path) -> None:
    ledger = _filled(tmp_path / "ledger.jsonl", 2)
    ledger.append("end", {"opening": 0})
    assert verify_ledger(ledger.path).unfinished == (1,)


def test_an_overlong_line_is_a_problem_and_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b"x" * 300_000 + b"\n")
    assert not verify_ledger(path).is_intact
    with pytest.raises(AuthenticationFailed):
        Ledger(path).append("open", {})


def test_the_default_path_follows_the_environment(tmp_path: Path) -> None:
    assert default_ledger_path({"VEILCAM_LEDGER": "/x/y.jsonl"}) == Path("/x/y.jsonl")
    assert default_ledger_path({"XDG_STATE_HOME": "/s"}) == Path("/s/veilcam/ledger.jsonl")
    home = Path.home() / ".local/state/veilcam/ledger.jsonl"
    assert default_ledger_path({}) == default_ledger_path({"XDG_STATE_HOME": "relative"}) == home


@settings(deadline=None)  # fsync, and shared machines
@given(st.binary(max_size=80))
def test_random_bytes_raise_only_format_errors(data: bytes) -> None:
    with pytest.raises(FormatError):
        LedgerEntry.parse(data)


@settings(deadline=None)  # fsync, and shared machines
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.integers(0, 2**40))
def test_entries_read_back_as_written(text: str, seq: int) -> None:
    entry = LedgerEntry(seq, text, "open", FIRST_PREVIOUS, {text: [text, seq]})
    assert LedgerEntry.parse(bytes(entry)) == entry
    assert re.fullmatch("[0-9a-f]{64}", entry.hash)
