from __future__ import annotations

import os
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given

from camera.retention import Recording, RetentionRules, apply_retention, expired, list_recordings


def put(folder: Path, name: str, ended_s: int, size: int = 100) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (ended_s, ended_s))
    return path


def names(folder: Path) -> list[str]:
    return [recording.path.name for recording in list_recordings(folder)]


def test_files_older_than_the_limit_go_and_empty_days_with_them(tmp_path: Path) -> None:
    put(tmp_path, "2026-01-01/a.mp4", 1000)
    put(tmp_path, "2026-01-02/b.mp4", 2000)
    assert apply_retention(tmp_path, RetentionRules(max_age_s=500), now_s=2100) == 1
    assert names(tmp_path) == ["b.mp4"]
    assert not (tmp_path / "2026-01-01").exists()


def test_the_oldest_go_first_until_the_total_fits(tmp_path: Path) -> None:
    for number in range(5):
        put(tmp_path, f"day/{9 - number}.mp4", 1000 + number)
    assert apply_retention(tmp_path, RetentionRules(max_bytes=250), now_s=2000) == 3
    assert names(tmp_path) == ["6.mp4", "5.mp4"]


def test_the_open_file_and_foreign_files_are_never_touched(tmp_path: Path) -> None:
    open_file = put(tmp_path, "day/x.mp4.part", 0, 10_000)
    foreign = put(tmp_path, "day/notes.txt", 0)
    assert apply_retention(tmp_path, RetentionRules(max_age_s=1, max_bytes=1), now_s=10**9) == 0
    assert open_file.exists()
    assert foreign.exists()


def test_without_rules_nothing_goes(tmp_path: Path) -> None:
    put(tmp_path, "a.mp4", 0)
    assert apply_retention(tmp_path, RetentionRules(), now_s=10**9) == 0


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 100)), max_size=20),
    st.integers(0, 1000),
    st.integers(0, 1000),
)
def test_what_stays_obeys_both_rules_and_is_the_newest(
    files: list[tuple[int, int]], max_age: int, max_bytes: int
) -> None:
    recordings = [Recording(Path(f"{n}.mp4"), ended, size) for n, (ended, size) in enumerate(sorted(files))]
    gone = expired(recordings, RetentionRules(max_age, max_bytes), now_s=1000)
    assert gone == recordings[: len(gone)]
    kept = recordings[len(gone) :]
    assert all(1000 - recording.ended_s <= max_age for recording in kept)
    assert sum(recording.num_bytes for recording in kept) <= max_bytes
