from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import Malformed, UsageError
from codec.container import Fmp4Writer, read_access_units, recover_part
from codec.recovery import is_cut_short
from tests.codec.media import FRAME_US, HEIGHT, WIDTH, ffprobe, kept_nals, protected_units

UNITS = protected_units()
SEGMENT = 8


@contextmanager
def growing(folder: Path, count: int) -> Iterator[Fmp4Writer]:
    """A writer that stops as a power cut would stop it."""
    writer = Fmp4Writer(folder / "a.mp4", WIDTH, HEIGHT, growing=True)
    for unit in UNITS[:count]:
        writer.write(unit)
    yield writer
    writer.abort()


def cut_part(folder: Path, count: int) -> Path:
    """What is on the disk after ``count`` units and the end of the last one's segment."""
    with growing(folder, count) as writer:
        writer.end_segment()
    return writer.part_path


def test_finished_segments_are_in_the_part_while_it_grows(tmp_path: Path) -> None:
    with growing(tmp_path, SEGMENT) as writer:
        writer.end_segment()
        assert writer.part_path == tmp_path / "a.mp4.part"
        assert writer.part_path.stat().st_size == writer.bytes_written
        assert kept_nals(read_access_units(writer.part_path)) == kept_nals(UNITS[:SEGMENT])
        writer.write(UNITS[SEGMENT])
        writer.close()
    assert not writer.part_path.exists()
    assert kept_nals(read_access_units(writer.path)) == kept_nals(UNITS[: SEGMENT + 1])


def test_segment_ends_by_itself_at_the_next_key_unit(tmp_path: Path) -> None:
    with growing(tmp_path, 2 * SEGMENT + 1) as writer:
        assert kept_nals(read_access_units(writer.part_path)) == kept_nals(UNITS[: 2 * SEGMENT])


def test_part_is_kept_on_errors_and_the_hidden_file_is_not(tmp_path: Path) -> None:
    for is_growing, left in ((True, ["a.mp4.part"]), (False, [])):
        with (
            pytest.raises(RuntimeError),
            Fmp4Writer(tmp_path / "a.mp4", WIDTH, HEIGHT, growing=is_growing) as writer,
        ):
            writer.write(UNITS[0])
            writer.end_segment()
            raise RuntimeError
        assert [path.name for path in tmp_path.iterdir()] == left
        for path in tmp_path.iterdir():
            path.unlink()


def test_recovered_file_equals_one_that_was_closed_after_its_last_whole_segment(tmp_path: Path) -> None:
    for folder in ("closed", "cut"):
        (tmp_path / folder).mkdir()
    with growing(tmp_path / "closed", 2 * SEGMENT) as writer:
        writer.close()
    closed = writer.path.read_bytes()
    part = cut_part(tmp_path / "cut", 2 * SEGMENT)
    with part.open("ab") as file:  # a power cut in the middle of the third segment's fragment
        file.write(closed[1000:3000])
    path = recover_part(part)
    assert path == tmp_path / "cut" / "a.mp4"
    assert path.read_bytes() == closed
    assert float(ffprobe(path)["format"]["duration"]) == pytest.approx(2 * SEGMENT * FRAME_US / 1e6)


@pytest.mark.parametrize("missing", [1, 1000, 60_000])
def test_recovery_drops_the_segment_that_is_not_whole(tmp_path: Path, missing: int) -> None:
    part = cut_part(tmp_path, 2 * SEGMENT)
    with part.open("r+b") as file:
        file.truncate(part.stat().st_size - missing)
    path = recover_part(part)
    assert path is not None
    with read_access_units(path) as reader:
        assert kept_nals(reader) == kept_nals(UNITS[:SEGMENT])
        assert reader.problems == ()


@pytest.mark.parametrize("length", [0, 5, 600, 5000])
def test_part_without_a_whole_segment_is_removed(tmp_path: Path, length: int) -> None:
    part = cut_part(tmp_path, SEGMENT)
    with part.open("r+b") as file:
        file.truncate(length)
    assert recover_part(part) is None
    assert list(tmp_path.iterdir()) == []


def test_writer_that_never_got_a_unit_leaves_a_part_that_recovery_removes(tmp_path: Path) -> None:
    assert recover_part(cut_part(tmp_path, 0)) is None


def test_other_files_are_not_recovered(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ends in \.part"):
        recover_part(tmp_path / "a.mp4")
    box = b"\x00\x00\x00\x08"
    stranger = tmp_path / "a.mp4.part"
    stranger.write_bytes(box + b"moov" + box + b"moof" + box + b"mdat")
    with pytest.raises(Malformed, match="not laid out as ours"):
        recover_part(stranger)
    assert stranger.exists()


def test_closed_writer_takes_no_units(tmp_path: Path) -> None:
    with Fmp4Writer(tmp_path / "a.mp4", WIDTH, HEIGHT) as writer:
        writer.write(UNITS[0])
    with pytest.raises(UsageError, match="is closed"):
        writer.write(UNITS[1])
    writer.close()  # once more does nothing
    assert kept_nals(read_access_units(writer.path)) == kept_nals(UNITS[:1])


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_never_more_than_malformed(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    for head in (b"", b"\x00\x00\x00\x08moov", b"\x1a\x45\xdf\xa3"):
        is_cut_short(io.BytesIO(head + data))
        path = tmp_path_factory.getbasetemp() / "random.part"
        path.write_bytes(head + data)
        try:
            recover_part(path)
        except Malformed:
            continue


@pytest.mark.parametrize(
    ("data", "is_cut"),
    [
        (b"", False),
        (b"\x00\x00\x00\x08ftyp" + b"\x00\x00\x00\x10mdat12345678", False),
        (b"\x00\x00\x00\x08ftyp" + b"\x00\x00\x00\x10mdat1234567", True),
        (b"\x00\x00\x00\x08ftyp" + b"\x00\x00\x00\x00mdat1234567", False),  # 0: up to the end
        (b"\x00\x00\x00\x08ftyp" + b"\x00\x00\x00\x01mdat\x00\x00\x00\x00\x00\x00\x00\x12ab", False),
        (b"\x00\x00\x00\x08ftyp" + b"\x00\x00\x00\x01mdat\x00\x00\x00\x00\x00\x00\x00\x13ab", True),
        (b"\x1a\x45\xdf\xa3\x81a\x18\x53\x80\x67\x82ab", False),
        (b"\x1a\x45\xdf\xa3\x81a\x18\x53\x80\x67\x83ab", True),
        (b"\x1a\x45\xdf\xa3\x81a\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xffab", False),  # size unknown
        (b"\x1a\x45\xdf\xa3\x81a\x18\x53\x80\x67\x40\x03ab", True),
        (b"GIF89a", False),
    ],
)
def test_cut_is_told_from_sizes(data: bytes, is_cut: bool) -> None:
    assert is_cut_short(io.BytesIO(data)) is is_cut
