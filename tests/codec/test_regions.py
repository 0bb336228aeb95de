from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import (
    AuthenticationFailed,
    FormatError,
    KeyUnavailable,
    Malformed,
    UnknownVersion,
    UsageError,
)
from codec.access_unit import AccessUnit
from codec.chunks import SealedChunk, chunk_cost, chunk_room, sealed_bodies, split_chunk_number
from codec.digests import chunk_aad, header_digest, unit_digest
from codec.limits import DEFAULT_LIMITS
from codec.packets import SealedPacket, SealedStream, StreamKind, read_extensions
from codec.reader import Reader
from codec.records import SealedMode, SegmentHeader
from codec.regions import RegionGrid, Tile
from codec.sealed_reader import Loss
from codec.sealer import SealerParams, SegmentSealer
from codec.segments import SegmentView, read_segments
from codec.stream_info import clock_of, region_extensions, region_of
from codec.unseal import OpenedSegment, open_segment, unwrap_segment_epoch
from codec.verify import Verdict, check_segment
from keys import EpochRing, RegionKeys, SegmentKeys
from keys.schedule import chunk_nonce, hkdf_sha256
from tests.support.streams import AUDIO, camera_key, picture, recipient

KEY = camera_key()
PUBLIC, IDENTITY = recipient()
GRID = RegionGrid.even(256, 192, 2, 2)
TILES = tuple(
    SealedStream(
        region, StreamKind.VIDEO, "h264", Fraction(1, 1_000_000), tile.width, tile.height,
        extensions=region_extensions(region, 5_000),
    )
    for region, tile in enumerate(GRID.tiles())
)  # fmt: skip
SOUND = replace(AUDIO, index=4, extensions=region_extensions(None, 5_000))
PARAMS = SealerParams(
    256, 192, Fraction(1, 1_000_000), b"\x22" * 8, 3, SealedMode.H264, (*TILES, SOUND), GRID
)  # fmt: skip
TILE_BYTES = 2_500  # above what a part waits for: a chunk in every unit


def _packets(number: int, *, is_key: bool, num_bytes: int = TILE_BYTES) -> list[SealedPacket]:
    time = number * 40_000
    tiles = [
        SealedPacket(region, is_key, time, time, None, bytes([region + 1]) * num_bytes) for region in range(4)
    ]
    return [*tiles, SealedPacket(SOUND.index, True, number * 1024, None, 1024, b"sound %d" % number)]


def _units(plan: str = "KPPP|KPPP", *, cap: int = 160_000, num_bytes: int = TILE_BYTES) -> list[AccessUnit]:
    ring = EpochRing(KEY.camera_id, [PUBLIC])
    sealer = SegmentSealer(KEY, ring, PARAMS, unit_cap_bytes=cap)
    units: list[AccessUnit] = []
    for number, kind in enumerate(plan.replace("|", "")):
        packets = _packets(number, is_key=kind == "K", num_bytes=num_bytes)
        done = sealer.push(picture(kind, number), packets, starts_segment=kind == "K")
        units += [each.unit for each in done]
    return units + [each.unit for each in sealer.finish()]


def _views(units: list[AccessUnit]) -> list[SegmentView]:
    return list(read_segments(units))


def _header(view: SegmentView) -> SegmentHeader:
    header = view.header()
    assert header is not None
    return header


def _segment_keys(view: SegmentView) -> SegmentKeys:
    header = _header(view)
    epoch = unwrap_segment_epoch(header, [IDENTITY])
    return epoch.segment(header.camera_id, header.stream_id, header.epoch_id, header.segment_index)


def _grant(view: SegmentView, *regions: int) -> RegionKeys:
    keys = _segment_keys(view)
    return RegionKeys({region: keys.region_key(region) for region in regions})


def _payloads(opened: OpenedSegment) -> dict[int, list[bytes]]:
    return {each.region: [packet.data for packet in each.packets] for each in opened.regions}


UNITS = tuple(_units())


# The grid


def test_borders_are_multiples_of_16_and_cover_the_picture() -> None:
    grid = RegionGrid.even(1280, 720, 4, 4)
    assert grid.x_edges == (0, 320, 640, 960, 1280)
    assert grid.y_edges == (0, 176, 352, 544, 720)  # 180 and 540 lie half way: to the even multiple
    assert grid.tile(6) == Tile(640, 176, 320, 176)
    assert sum(tile.width * tile.height for tile in grid.tiles()) == 1280 * 720


def test_a_box_touches_the_tiles_that_it_shares_a_pixel_with() -> None:
    grid = RegionGrid.even(1280, 720, 4, 4)
    assert grid.touching(0, 0, 320, 176) == {0}
    assert grid.touching(319.5, 175, 320.5, 177) == {0, 1, 4, 5}
    assert grid.touching(-50, -50, 10_000, 10_000) == set(range(16))
    for nothing in ((5, 5, 5, 9), (9, 0, 5, 9), (-9, 0, 0, 9), (1280, 0, 1300, 9), (0, 0, float("nan"), 9)):
        assert grid.touching(*nothing) == frozenset()


@pytest.mark.parametrize(("columns", "rows"), [(0, 2), (9, 8), (65, 1), (-1, -1), (10, 1), (1, 7)])
def test_a_grid_that_cannot_be_is_refused(columns: int, rows: int) -> None:
    with pytest.raises(UsageError, match="sealed regions"):
        RegionGrid.even(600, 400, columns, rows)


@given(st.integers(64, 8192), st.integers(64, 8192), st.integers(1, 8), st.integers(1, 8))
def test_a_grid_comes_back(width: int, height: int, columns: int, rows: int) -> None:
    try:
        grid = RegionGrid.even(width, height, columns, rows)
    except UsageError:
        return
    assert RegionGrid.parse(bytes(grid)) == grid
    assert all(tile.width >= 64 and tile.height >= 64 for tile in grid.tiles())


@given(st.binary(max_size=60))
def test_any_bytes_are_a_grid_or_a_format_error(body: bytes) -> None:
    try:
        grid = RegionGrid.parse(body)
    except FormatError:
        return
    assert bytes(grid) == body


@pytest.mark.parametrize(
    "body",
    [
        "000001000000 00c0 02 01 00000088",  # a border of 136 pixels
        "000001000000 00c0 02 01 00000100",  # a border on the edge
        "000001000000 00c0 00 01",
        "000001000000 00c0 41 01",
        "000000000000 00c0 01 01",
        "000001000000 00c0 01 01 00",
    ],
)
def test_a_damaged_grid_is_refused(body: str) -> None:
    with pytest.raises(Malformed):
        RegionGrid.parse(bytes.fromhex(body))


# Headers


def test_a_header_says_how_the_picture_is_split() -> None:
    view = _views(_units())[0]
    assert _header(view).regions == GRID
    with pytest.raises(UnknownVersion):  # what a reader without regions does with it
        read_extensions(Reader(bytes(GRID.record()), "HEADER record"), DEFAULT_LIMITS)


def test_a_header_with_two_grids_or_with_one_for_nothing_coded_is_refused() -> None:
    header = _header(_views(_units())[0])
    two = replace(header, extensions=(GRID.record(), GRID.record()))
    with pytest.raises(Malformed, match="two REGIONS"):
        SegmentHeader.parse(bytes(two))
    for mode in (SealedMode.NONE, SealedMode.COPY):
        with pytest.raises(Malformed, match="regions with sealed mode"):
            SegmentHeader.parse(bytes(replace(header, sealed_mode=mode)))


# Opening


def test_the_recipient_gets_every_tile_and_the_sound() -> None:
    for index, view in enumerate(_views(_units())):
        opened = open_segment(view, [IDENTITY])
        assert opened.is_complete
        assert opened.streams == (SOUND,)
        assert [packet.data for packet in opened.packets] == [b"sound %d" % (4 * index + n) for n in range(4)]
        assert _payloads(opened) == {region: [bytes([region + 1]) * TILE_BYTES] * 4 for region in range(4)}
        assert [region_of(each.streams[0]) for each in opened.regions] == [0, 1, 2, 3]
        assert clock_of(opened.regions[0].streams[0]) == 5_000


def test_keys_of_some_regions_open_these_and_neither_the_others_nor_the_sound() -> None:
    view = _views(_units())[1]
    opened = open_segment(view, _grant(view, 1))
    assert opened.is_complete
    assert (opened.streams, opened.packets) == ((), ())
    assert _payloads(opened) == {1: [bytes([2]) * TILE_BYTES] * 4}


def test_regions_can_be_opened_that_are_fewer_than_the_key_opens() -> None:
    view = _views(_units())[0]
    opened = open_segment(view, _grant(view, 1, 2), regions={2, 3})
    assert set(_payloads(opened)) == {2}
    opened = open_segment(view, [IDENTITY], regions={3})
    assert set(_payloads(opened)) == {3}
    assert opened.packets == ()
    with pytest.raises(KeyUnavailable, match="regions"):
        open_segment(view, _grant(view, 1), regions={3})
    with pytest.raises(KeyUnavailable, match="regions"):
        open_segment(view, RegionKeys({}))


def test_a_key_of_regions_does_not_open_a_segment_that_is_not_split() -> None:
    ring = EpochRing(KEY.camera_id, [PUBLIC])
    sealer = SegmentSealer(KEY, ring, replace(PARAMS, regions=None, streams=(SOUND,)))
    sealer.push(picture("K", 0), [], starts_segment=True)
    (view,) = _views([each.unit for each in sealer.finish()])
    with pytest.raises(KeyUnavailable, match="no region"):
        open_segment(view, _grant(view, 0))


def test_a_modified_client_with_the_content_of_a_grant_opens_nothing_else() -> None:
    """Every chunk, every key that follows from what the grant holds, every claim about the chunk's place."""
    view = _views(_units())[0]
    header, body = _header(view), view.header_body
    assert body is not None
    held = _segment_keys(view).region_key(1)
    derived = [
        held,
        *(SegmentKeys(held).region_key(region) for region in range(4)),
        hkdf_sha256(held, b"veilcam sealed layer v1"),
        hkdf_sha256(held, b"veilcam segment key v1"),
    ]
    ciphers = [RegionKeys({0: key}).region_cipher(0) for key in derived]
    num_closed = 0
    for frame, viewed in view.own_units():
        digest = unit_digest(bytes(frame), viewed.unit)
        for chunk in map(SealedChunk.parse, sealed_bodies(viewed.unit)):
            if split_chunk_number(chunk.chunk_index)[0] == 1 + 1:
                continue
            num_closed += 1
            for claim in {chunk.chunk_index, chunk.chunk_index & 0xFFFFFF | 2 << 24}:
                aad = chunk_aad(header_digest(body), header.camera_id, 0, claim, digest)
                for cipher in ciphers:
                    with pytest.raises(AuthenticationFailed):
                        cipher.open(chunk_nonce(claim), chunk.ciphertext, aad)
    assert num_closed == 3 * 4 + 1  # three tiles in every unit, the sound in the last one


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 7), st.integers(0, 3), st.integers(0, 10_000))
def test_damage_to_one_tile_leaves_the_others_whole(position: int, which: int, byte: int) -> None:
    units = list(UNITS)
    unit = units[position]
    sealed = [place for place, nal in enumerate(unit.nals) if nal[:2] == b"\x06\x05"][1:]
    nals = list(unit.nals)
    changed = bytearray(nals[sealed[which]])
    changed[-(2 + byte % (len(changed) - 60))] ^= 1  # within the ciphertext
    nals[sealed[which]] = bytes(changed)
    units[position] = replace(unit, nals=tuple(nals))
    hit = split_chunk_number(SealedChunk.parse(sealed_bodies(unit)[which]).chunk_index)[0]
    view = _views(units)[position // 4]
    opened = open_segment(view, [IDENTITY])
    for region in opened.regions:
        assert region.is_complete == (region.region != hit - 1)
        assert len(region.packets) == 4 or region.region == hit - 1
    assert hit or opened.problems
    assert check_segment(view, KEY.public).verdict is Verdict.TAMPERED


def test_a_chunk_of_a_region_that_the_grid_has_not_is_noted() -> None:
    unit = UNITS[1]
    stray = SealedChunk(0, 9 << 24, bytes(40)).nal()
    units = [UNITS[0], replace(unit, nals=(*unit.nals, stray)), *UNITS[2:]]
    opened = open_segment(_views(units)[0], [IDENTITY])
    assert [problem.loss for problem in opened.problems] == [Loss.CHUNK_REFUSED]
    assert "region 8, the segment has 4" in str(opened.problems[0])
    assert all(region.is_complete for region in opened.regions)


# Signing and sizes


def test_the_signature_covers_the_chunks_of_every_region() -> None:
    evidence = None
    for view in _views(list(UNITS)):
        evidence = check_segment(view, KEY.public, evidence)
        assert (evidence.verdict, evidence.letters) == (Verdict.AUTHENTIC, "AAAA")
    unit = UNITS[2]
    bodies = sealed_bodies(unit)
    assert len(bodies) == 4
    without_one = replace(
        unit, nals=tuple(nal for nal in unit.nals if nal != SealedChunk.parse(bodies[2]).nal())
    )
    view = _views([*UNITS[:2], without_one, *UNITS[3:4]])[0]
    assert check_segment(view, KEY.public).letters == "AASA"


@pytest.mark.parametrize("num_bytes", [10, 700, 3_000])
def test_units_stay_below_the_cap_and_no_region_starves(num_bytes: int) -> None:
    cap = 4_000
    units = _units("K" + "P" * 39, cap=cap, num_bytes=num_bytes)
    assert max(unit.num_bytes for unit in units[:-1]) <= cap
    (view,) = _views(units)
    opened = open_segment(view, [IDENTITY])
    assert opened.is_complete
    assert _payloads(opened) == {region: [bytes([region + 1]) * num_bytes] * 40 for region in range(4)}
    if num_bytes == 3_000:  # about a fifth of it fits: each part has its turns before the last unit
        early = [split_chunk_number(SealedChunk.parse(body).chunk_index) for unit in units[:-1]
                 for body in sealed_bodies(unit)]  # fmt: skip
        turns = [sum(1 for part, _ in early if part == wanted) for wanted in range(1, 5)]
        assert min(turns) >= 5


@given(st.integers(0, 2_000_000))
def test_the_cost_of_a_chunk_is_not_below_what_its_room_counts(free_bytes: int) -> None:
    assert chunk_room(chunk_cost(chunk_room(free_bytes))) >= chunk_room(free_bytes) - 1


def test_small_tiles_share_chunks_over_some_units_and_all_comes_before_the_segment_ends() -> None:
    units = _units("K" + "P" * 39, num_bytes=100)
    assert sum(len(sealed_bodies(unit)) for unit in units) <= 5 * (40 // 4 + 1)
    (view,) = _views(units)
    assert _payloads(open_segment(view, [IDENTITY])) == {
        region: [bytes([region + 1]) * 100] * 40 for region in range(4)
    }


def test_a_stream_of_a_region_that_the_grid_has_not_is_refused() -> None:
    ring = EpochRing(KEY.camera_id, [PUBLIC])
    stray = replace(TILES[0], index=7, extensions=region_extensions(4, 0))
    sealer = SegmentSealer(KEY, ring, replace(PARAMS, streams=(*TILES, stray)))
    with pytest.raises(UsageError, match="region 4, the grid has 4"):
        sealer.push(picture("K", 0), [], starts_segment=True)


def test_keys_of_a_whole_segment_open_all_of_its_parts() -> None:
    view = _views(list(UNITS))[0]
    opened = open_segment(view, _segment_keys(view))
    assert len(opened.regions) == 4
    assert opened.packets
    assert opened.is_complete
