from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from base.canonical import JsonValue
from base.errors import AuthenticationFailed, FormatError, KeyUnavailable, LimitExceeded, UsageError
from forensics.audit import make_checkpoint, verify_ledger
from forensics.ledger import FIRST_PREVIOUS, Ledger, LedgerEntry, Past, default_ledger_path
from forensics.ledger_key import key_path, render
from forensics.ledger_key import parse as parse_key
from forensics.selection import iso_time
from keys import SecretBytes
from keys.signer import SignerKey

KEY = SignerKey("ledger", SecretBytes(b"\x07" * 32))


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
        stated, signature = entry.pop("hash"), bytes.fromhex(entry.pop("sig"))
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert hashlib.sha256(text.encode()).hexdigest() == stated
        message = b"veilcam ledger entry v1" + bytes.fromhex(stated)
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(entry["key"])).verify(signature, message)
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


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: thousands of fsyncs wait for a shared disk for minutes."""
    if not os.access("/dev/shm", os.W_OK):  # noqa: S108
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_a_line_torn_at_any_byte_is_cut_off_and_the_repair_recorded(memory_path: Path) -> None:
    """A power cut at every byte of the last line: the finished entries stay, the next one follows them."""
    path = memory_path / "ledger.jsonl"
    ledger = _filled(path)
    whole = path.read_bytes()
    kept = whole[: whole.rindex(b"\n", 0, -1) + 1]
    for cut in range(len(kept), len(whole) - 1):
        path.write_bytes(whole[:cut])
        torn = whole[len(kept) : cut]
        if cut % 16 == 0:
            before = verify_ledger(path)
            assert (before.is_intact, before.num_entries, before.torn_bytes) == (True, 2, len(torn))
        ledger.append("open", {"input": "next"})
        after = verify_ledger(path)
        repairs = 1 if torn else 0
        assert (after.is_intact, after.num_entries, after.num_repairs) == (True, 3 + repairs, repairs)
        assert path.read_bytes().startswith(kept)
        note = LedgerEntry.parse(path.read_bytes().splitlines()[2])
        if torn:
            digest = hashlib.sha256(torn).hexdigest()
            assert (note.kind, note.body) == (
                "repair",
                {"removed_bytes": len(torn), "removed_sha256": digest},
            )


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

    def write() -> None:
        # With the system's clock as the processes have: a fixed one would show time running back.
        for index in range(8):
            Ledger(path).append("open", {"i": index})

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [child.wait(60) for child in children] == [0, 0]
    report = verify_ledger(path)
    assert (report.problems, report.num_entries) == ((), 32)


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
    ledger = _filled(path, 1)
    path.write_bytes(b"x" * 300_000 + b"\n")
    assert not verify_ledger(path).is_intact
    with pytest.raises(AuthenticationFailed):
        ledger.append("open", {})


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
@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.integers(0, 2**40),
    st.integers(0, 2**47),
)
def test_entries_read_back_as_written(text: str, seq: int, time_us: int) -> None:
    body: dict[str, JsonValue] = {text: [text, seq]}
    entry = LedgerEntry.signed(
        seq=seq, time=iso_time(time_us), kind="open", prev=FIRST_PREVIOUS, body=body, key=KEY
    )
    again = LedgerEntry.parse(bytes(entry))
    again.verify()
    assert (again, again.time_us) == (entry, time_us)
    assert re.fullmatch("[0-9a-f]{64}", entry.hash)


def _forged(line: bytes, change: Callable[[LedgerEntry], LedgerEntry]) -> bytes:
    """A line whose hash is right again after the change: what an attacker without the key can write."""
    return bytes(change(LedgerEntry.parse(line)))


def test_an_entry_that_was_changed_with_its_hash_made_right_has_no_signature(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    _filled(path)
    lines = path.read_bytes().splitlines()
    lines[-1] = _forged(lines[-1], lambda entry: replace(entry, body={"input": "another"}))
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    report = verify_ledger(path)
    assert not report.is_intact
    assert "signature" in report.problems[0]


def test_a_ledger_written_anew_by_another_key_is_not_the_expected_one(tmp_path: Path) -> None:
    path, forged = tmp_path / "ledger.jsonl", tmp_path / "forged" / "ledger.jsonl"
    _filled(path)
    _filled(forged)
    key = verify_ledger(path).key
    assert verify_ledger(path, key=key).is_intact
    assert verify_ledger(forged).is_intact
    assert not verify_ledger(forged, key=key).is_intact


def test_two_ledgers_joined_into_one_file_are_detected(tmp_path: Path) -> None:
    path, other = tmp_path / "ledger.jsonl", tmp_path / "other.jsonl"
    _filled(path)
    _filled(other)
    lines = path.read_bytes().splitlines(keepends=True)
    others = other.read_bytes().splitlines(keepends=True)
    interleaved = [line for pair in zip(lines, others, strict=True) for line in pair]
    for joined in ([*lines, *others], [*others, *lines], interleaved):
        path.write_bytes(b"".join(joined))
        assert not verify_ledger(path).is_intact


def test_a_copy_that_went_on_by_itself_is_detected_with_a_checkpoint_of_either(tmp_path: Path) -> None:
    """A fork: both ledgers verify alone, and neither agrees with what the other signed."""
    path, fork = tmp_path / "ledger.jsonl", tmp_path / "fork.jsonl"
    ledger = _filled(path)
    fork.write_bytes(path.read_bytes())
    key_path(fork).write_bytes(key_path(path).read_bytes())
    key_path(fork).chmod(0o600)
    ledger.append("open", {"input": "here"})
    Ledger(fork).append("open", {"input": "there"})
    checkpoint, _, _ = make_checkpoint(path)
    assert verify_ledger(path, checkpoints=[checkpoint]).is_intact
    assert verify_ledger(fork).is_intact
    assert not verify_ledger(fork, checkpoints=[checkpoint]).is_intact


def test_entries_cut_off_the_end_are_detected_with_a_checkpoint_kept_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    _filled(path, 5)
    checkpoint, _, _ = make_checkpoint(path)
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in range(5):
        path.write_bytes(b"".join(lines[:kept]))
        assert verify_ledger(path).is_intact  # the chain alone cannot tell
        report = verify_ledger(path, checkpoints=[checkpoint])
        assert "cut off" in report.problems[0]


def test_time_that_runs_back_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    for second in (100, 99, 200, 100):
        Ledger(path, clock=lambda second=second: second * 1_000_000).append("open", {})  # type: ignore[misc]
    report = verify_ledger(path)
    assert report.clock_steps == (1, 3)
    assert report.problems == ("line 4: entry 3: time ran back by 100.000 s",)


def test_a_guard_sees_the_past_and_its_refusal_writes_nothing(tmp_path: Path) -> None:
    ledger = _filled(tmp_path / "ledger.jsonl")
    seen: list[object] = []

    def guard(past: Past) -> None:
        seen.extend([past.now_us, *(entry.seq for entry in past.entries_with("clip 1"))])
        raise UsageError("no")

    late = Ledger(ledger.path, clock=lambda: 1)  # set back: the past says that it is later
    with pytest.raises(UsageError, match="no"):
        late.append("open", {}, guard=guard)
    assert seen == [1_000_000, 1]
    assert verify_ledger(ledger.path).num_entries == 3


def test_the_key_of_a_ledger_is_needed_and_private(tmp_path: Path) -> None:
    ledger = _filled(tmp_path / "ledger.jsonl", 1)
    key = key_path(ledger.path)
    assert key.stat().st_mode & 0o777 == 0o600
    key.chmod(0o644)
    with pytest.raises(KeyUnavailable, match="chmod 600"):
        ledger.append("open", {})
    key.unlink()
    with pytest.raises(KeyUnavailable, match="missing"):
        ledger.append("open", {})
    key.write_bytes(render(SignerKey.generate("ledger")))
    key.chmod(0o600)
    with pytest.raises(KeyUnavailable, match="another key"):
        ledger.append("open", {})
    assert verify_ledger(ledger.path).num_entries == 1


def test_an_entry_that_would_not_read_back_is_not_written(tmp_path: Path) -> None:
    ledger = _filled(tmp_path / "ledger.jsonl", 1)
    with pytest.raises(FormatError):
        ledger.append("Not a kind", {})
    with pytest.raises(UsageError):
        Ledger(ledger.path, clock=lambda: 2**62).append("open", {})
    assert verify_ledger(ledger.path).num_entries == 1


@given(st.binary(max_size=300))
def test_random_bytes_are_no_ledger_key(data: bytes) -> None:
    for prefix in (b"", b"veilcam-ledger-key v1\nname: ledger\n"):
        with pytest.raises(FormatError):
            parse_key(prefix + data)


def test_writers_killed_at_any_moment_leave_a_ledger_that_verifies_and_goes_on(memory_path: Path) -> None:
    """kill -9, again and again, of two processes that write as fast as they can."""
    path = memory_path / "ledger.jsonl"
    program = (
        "import sys; from pathlib import Path; from forensics.ledger import Ledger\n"
        "ledger = Ledger(Path(sys.argv[1]))\n"
        "while True: print(ledger.append('open', {'input': 'x' * 200}).seq, flush=True)\n"
    )
    promised = -1
    for delay_ms in (0, 1, 3, 7, 13):
        command = [sys.executable, "-c", program, str(path)]
        children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()  # it writes by now
        time.sleep(delay_ms / 1000)
        for child in children:
            child.kill()
        said = [child.communicate()[0].splitlines() for child in children]
        promised = max([promised, *(int(line) for lines in said for line in lines[:-1])])
        report = verify_ledger(path)
        assert report.is_intact, report.problems
        assert report.num_entries > promised  # what was said to be written is there
    assert Ledger(path).append("end", {}).seq > promised
    assert verify_ledger(path).is_intact
