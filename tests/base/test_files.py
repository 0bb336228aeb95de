from __future__ import annotations

import os
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from base.errors import LimitExceeded, UsageError
from base.files import atomic_file, atomic_write, read_bounded


def test_a_failed_write_leaves_the_old_content_and_no_temporary_file(tmp_path: Path) -> None:
    target = tmp_path / "clip.mp4"
    atomic_write(target, b"old")
    with pytest.raises(RuntimeError, match="disk"), atomic_file(target) as file:
        file.write(b"half of the n")
        raise RuntimeError("disk")
    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["clip.mp4"]


def test_mode_applies_from_the_first_byte(tmp_path: Path) -> None:
    with atomic_file(tmp_path / "key", mode=0o600) as file:
        file.write(b"x")
        (part,) = tmp_path.iterdir()
        assert part.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_a_file_above_the_limit_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "big"
    target.write_bytes(bytes(11))
    assert len(read_bounded(target, 11)) == 11
    with pytest.raises(LimitExceeded, match="limit of 10 bytes"):
        read_bounded(target, 10)


@pytest.mark.timeout(20)
def test_a_pipe_without_a_writer_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(UsageError, match="not a regular file"):
            read_bounded(other, 10)


def test_a_full_disk_is_reported_with_the_name_of_the_file(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match="big") as caught:
            atomic_write(tmp_path / "big", bytes(8192))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename == str(tmp_path / "big")
    assert list(tmp_path.iterdir()) == []


def test_of_all_that_write_one_name_without_replacing_one_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "name"

    def write(number: int) -> bool:
        try:
            atomic_write(path, bytes([number]) * 1000, replace=False)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(write, range(8)))
    assert done.count(True) == 1
    assert path.read_bytes() == bytes([done.index(True)]) * 1000
    assert list(tmp_path.iterdir()) == [path]
