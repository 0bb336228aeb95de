from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from base.errors import AuthenticationFailed, UsageError
from forensics.audit import verify_ledger
from forensics.ledger import Ledger
from forensics.ledger_index import LedgerIndex, Query, index_path, rebuild


def _filled(path: Path) -> Ledger:
    for second, kind, body in (
        (10, "open", {"case": "A-1", "reason": "Theft"}),
        (20, "refused", {"case": "A-2", "grant": "ab" * 16}),
        (30, "open", {"case": "A-2", "grant": "ab" * 16, "reason": "Überfall"}),
    ):
        Ledger(path, clock=lambda second=second: second * 1_000_000).append(kind, body)  # type: ignore[misc]
    return Ledger(path)


def _found(path: Path, query: Query) -> list[int]:
    with LedgerIndex(path) as index:
        return [entry.seq for entry in index.find(query)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(), [2, 1, 0]),
        (Query(limit=1), [2]),
        (Query(case="A-2"), [2, 1]),
        (Query(grant="ab" * 16, kinds=("open",)), [2]),
        (Query(since_us=20_000_000, until_us=30_000_000), [1]),
        (Query(words=("theft",)), [0]),
        (Query(words=("ÜBERFALL", "a-2")), [2]),
        (Query(words=("' OR 1=1 --",)), []),
        (Query(case="nothing"), []),
    ],
)
def test_entries_are_found(tmp_path: Path, query: Query, expected: list[int]) -> None:
    path = tmp_path / "ledger.jsonl"
    _filled(path)
    assert _found(path, query) == expected


def test_the_index_follows_the_log(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = _filled(path)
    assert len(_found(path, Query())) == 3
    ledger.append("open", {})
    assert _found(path, Query()) == [3, 2, 1, 0]
    assert index_path(path).stat().st_mode & 0o777 == 0o600


def test_another_log_in_its_place_is_indexed_anew(tmp_path: Path) -> None:
    path, other = tmp_path / "ledger.jsonl", tmp_path / "other.jsonl"
    _filled(path)
    _found(path, Query())
    Ledger(other).append("open", {"case": "B"})
    path.write_bytes(other.read_bytes())
    assert _found(path, Query()) == [0]
    assert _found(path, Query(case="A-1")) == []
    assert _found(path, Query(case="B")) == [0]


@pytest.mark.parametrize("content", [b"", b"not a database at all " * 100, None])
def test_a_broken_or_missing_index_is_made_again(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ledger.jsonl"
    _filled(path)
    _found(path, Query())
    index_path(path).unlink()
    if content is not None:
        index_path(path).write_bytes(content)
    assert _found(path, Query()) == [2, 1, 0]
    assert rebuild(path) == 3


def test_an_index_that_lies_is_caught_by_the_log(tmp_path: Path) -> None:
    """The index is not authoritative: what it points to is read from the log and checked there."""
    path = tmp_path / "ledger.jsonl"
    _filled(path)
    _found(path, Query())
    connection = sqlite3.connect(index_path(path))
    with connection:
        connection.execute("UPDATE entry SET offset = offset + 3 WHERE seq = 0")
    connection.close()
    with pytest.raises(AuthenticationFailed):
        _found(path, Query(case="A-1"))
    rebuild(path)
    assert _found(path, Query(case="A-1")) == [0]


def test_a_line_that_was_changed_is_not_shown_as_an_entry(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    _filled(path)
    _found(path, Query())
    path.write_bytes(path.read_bytes().replace(b"Theft", b"Thaft"))
    with LedgerIndex(path) as index, pytest.raises(AuthenticationFailed):
        index.entry(0)
    assert not verify_ledger(path).is_intact
    with LedgerIndex(path) as index, pytest.raises(UsageError, match="there is none"):
        index.entry(99)


def test_readers_and_writers_share_ledger_and_index(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = _filled(path)
    counts: list[int] = []

    def search() -> None:
        counts.extend(len(_found(path, Query())) for _ in range(5))

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        ledger.append("open", {})
    for thread in threads:
        thread.join()
    assert len(counts) == 15
    assert len(_found(path, Query())) == 8
