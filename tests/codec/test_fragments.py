from __future__ import annotations

import io
from pathlib import Path

import av
import hypothesis.strategies as st
import pytest
from hypothesis import given

from base.errors import FormatError, Malformed
from codec.container import Fmp4Writer, read_access_units
from codec.fragments import protected_fragment, read_index
from codec.h264 import ProtectedEncoder
from tests.codec.media import FRAME_US, HEIGHT, RATE, WIDTH, kept_nals, protected_frame, protected_units

GOP, COUNT = 8, 24


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fragments") / "a.mp4"
    with Fmp4Writer(path, WIDTH, HEIGHT) as writer:
        for unit in protected_units(COUNT, GOP):
            writer.write(unit)
    return path


def test_the_index_says_where_and_when_every_segment_is(recording: Path) -> None:
    with recording.open("rb") as file:
        index = read_index(file)
    assert (index.width, index.height) == (WIDTH, HEIGHT)
    assert [(f.start_us, f.duration_us) for f in index.fragments] == [
        (n * GOP * FRAME_US, GOP * FRAME_US) for n in range(COUNT // GOP)
    ]
    assert index.duration_us == COUNT * FRAME_US
    for fragment in index.fragments:
        assert recording.read_bytes()[fragment.offset + 4 : fragment.offset + 8] == b"moof"
    # RFC 6381: profile, constraint flags and level of the SPS in hex; 66 is baseline (H.264, A.2.1).
    with ProtectedEncoder(WIDTH, HEIGHT, rate=RATE) as encoder:
        sps = encoder.encode(protected_frame(0), True).parameter_sets()[0]
    assert index.codec == f"avc1.{sps[1:4].hex()}"
    assert index.codec.startswith("avc1.42")


def test_a_growing_file_is_read_up_to_its_last_whole_segment(recording: Path) -> None:
    data = recording.read_bytes()
    whole = read_index(io.BytesIO(data))
    last = whole.fragments[-1]
    cut = read_index(io.BytesIO(data[: last.offset + last.num_bytes - 1]))
    assert cut.fragments == whole.fragments[:-1]


def test_a_segment_plays_alone_without_its_ciphertext_and_keeps_its_times(recording: Path) -> None:
    data = recording.read_bytes()
    index = read_index(io.BytesIO(data))
    for number, place in enumerate(index.fragments):
        fragment = protected_fragment(data[place.offset : place.offset + place.num_bytes], number + 1)
        with read_access_units(io.BytesIO(index.head + fragment)) as reader:
            units = list(reader)
            assert not reader.problems
        sent = protected_units(COUNT, GOP)[number * GOP : (number + 1) * GOP]
        assert kept_nals(units) == kept_nals([unit.without_sealed() for unit in sent])
        assert [unit.pts_us for unit in units] == [place.start_us + n * FRAME_US for n in range(GOP)]
        assert len(fragment) < place.num_bytes / 5
        with av.open(io.BytesIO(index.head + fragment), "r") as container:
            assert sum(1 for _ in container.decode(video=0)) == GOP


def test_another_file_is_refused() -> None:
    with pytest.raises(Malformed):
        read_index(io.BytesIO(b"\0\0\0\x10ftypmp42\0\0\0\0"))
    with pytest.raises(Malformed):
        protected_fragment(b"\0\0\0\x08moov\0\0\0\x08mdat", 1)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (lambda: read_index(io.BytesIO(data)), lambda: protected_fragment(data, 1)):
        try:
            read()
        except FormatError:
            continue


@given(st.data())
def test_damage_is_read_or_refused(recording: Path, data: st.DataObject) -> None:
    good = bytearray(recording.read_bytes()[:6000])
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    moof = good.find(b"moof") - 4
    for read in (
        lambda: read_index(io.BytesIO(bytes(good))),
        lambda: protected_fragment(bytes(good[max(moof, 0) :]), 1),
    ):
        try:
            read()
        except FormatError:
            continue
