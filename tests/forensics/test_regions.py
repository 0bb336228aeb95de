from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import FormatError, UsageError
from codec.access_unit import AccessUnit
from codec.chunks import SealedChunk, sealed_bodies, split_chunk_number
from codec.container import read_access_units
from codec.records import SealedMode
from codec.regions import RegionGrid
from codec.segments import read_segments
from forensics.audit import verify_ledger
from forensics.decode import DecodeOptions, decode, report_path, tiles_path
from forensics.decode_report import DecodeReport, Outcome
from forensics.ledger import Ledger
from forensics.region_choice import RegionChoice, parse_box, parse_sightings, read_track
from forensics.verdict import Verdict
from keys import Identity, SecretBytes, SegmentKeys
from keys.grant import Grant
from keys.grant_payload import GrantPayload
from keys.grant_terms import GrantRequest, TimeSpan
from keys.signer import SignerKey
from keys.source import IdentityKeys, KeySource
from keys.suite import Suite
from tests.forensics.recordings import FRAME_US, GOP, START_US, authority, camera_key, payloads
from tests.forensics.region_recording import (
    GRID,
    SomeRegions,
    original,
    sound,
    units,
    write,
)

Luma = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def lossless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("regions") / "in.mp4", units())


def _open(
    path: Path,
    out: Path,
    ledger: Ledger,
    *asked: str,
    keys: KeySource | None = None,
    tiles: bool = False,
    choice: RegionChoice | None = None,
) -> DecodeReport:
    return decode(
        path,
        out,
        keys or [authority()[1]],
        camera=camera_key().public,
        ledger=ledger,
        options=DecodeOptions(regions=choice or RegionChoice(tuple(map(parse_box, asked))), tiles=tiles),
    )


def _planes(frame: av.VideoFrame) -> list[Luma]:
    planes = []
    for plane in frame.planes:
        rows = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)
        planes.append(rows[: plane.height, : plane.width])
    return planes


def _pictures(path: Path) -> list[list[Luma]]:
    with av.open(str(path)) as container:
        return [_planes(frame.reformat(format="yuv420p")) for frame in container.decode(video=0)]


def _shown(picture: list[Luma], number: int) -> frozenset[int]:
    """Regions that are the original sample by sample; the others have to be the dark protected video."""
    found = set()
    wanted = _planes(original(number))
    for region, tile in enumerate(GRID.tiles()):
        parts = []
        for step, have, want in zip((1, 2, 2), picture, wanted, strict=True):
            place = np.s_[
                tile.y // step : (tile.y + tile.height) // step,
                tile.x // step : (tile.x + tile.width) // step,
            ]
            parts.append((have[place], want[place]))
        if all(np.array_equal(have, want) for have, want in parts):
            found.add(region)
        else:
            assert parts[0][0].max() < 75
    return frozenset(found)


def _runs(report: DecodeReport) -> list[list[tuple[str, tuple[int, ...]]]]:
    assert report.regions is not None
    return [[(run.frames, run.regions) for run in segment.runs] for segment in report.regions.segments]


def test_the_custodian_gets_the_whole_picture_pixel_exact_and_the_sound(
    lossless: Path, tmp_path: Path, ledger: Ledger
) -> None:
    report = _open(lossless, tmp_path / "out.mkv", ledger)
    assert (report.verdict, report.exit_code) == (Verdict.AUTHENTIC, 0)
    pictures = _pictures(tmp_path / "out.mkv")
    assert [_shown(picture, number) for number, picture in enumerate(pictures)] == [frozenset(range(6))] * 30
    assert b"".join(payloads(tmp_path / "out.mkv")["audio"]) == b"".join(map(sound, range(30)))
    assert _runs(report) == [[("0-9", (0, 1, 2, 3, 4, 5))]] * 3
    with av.open(str(tmp_path / "out.mkv")) as container:
        starts = {s.type: float((s.start_time or 0) * (s.time_base or 0)) for s in container.streams}
        assert abs(starts["video"] - starts["audio"]) < 0.002
    assert (tmp_path / "out.mkv").stat().st_mode & 0o777 == 0o600


def test_a_grant_of_regions_shows_these_over_the_protected_video_and_no_sound(
    lossless: Path, tmp_path: Path, ledger: Ledger
) -> None:
    report = _open(lossless, tmp_path / "out.mkv", ledger, keys=SomeRegions(1, 4), tiles=True)
    assert report.exit_code == 0
    pictures = _pictures(tmp_path / "out.mkv")
    assert {_shown(picture, number) for number, picture in enumerate(pictures)} == {frozenset({1, 4})}
    assert "audio" not in payloads(tmp_path / "out.mkv")
    assert [track.index for track in report.tracks] == [1, 4]
    assert "region 4  ffv1, 30 packets" in report.text()


def test_a_real_grant_of_one_person_s_tiles_opens_these_alone_for_its_segments(
    lossless: Path, tmp_path: Path, ledger: Ledger
) -> None:
    investigator = Identity("iris", Suite.X25519, SecretBytes(b"\x22" * 32))
    custodian = IdentityKeys([authority()[1]])
    payload, now_us = GrantPayload(), ledger.now_us()
    with read_access_units(lossless) as reader:
        for index, view in enumerate(read_segments(reader)):
            header = view.header()
            assert header is not None
            keys = custodian.segment_keys(header)
            assert isinstance(keys, SegmentKeys)
            name = (header.stream_id, header.epoch_id, header.segment_index)
            times = [frame.time_us for frame, _ in view.own_units()]
            if index != 1:
                payload.add(name, keys, min(times), max(times), (3, 4) if index else (4,))
    request = GrantRequest.new(
        camera_key().camera_id,
        [TimeSpan(START_US, START_US + 3_000_000)],
        investigator.recipient,
        case="2026-117",
        reason="access request",
        made_us=now_us,
        expires_us=now_us + 10**9,
        uses=2,
    )
    signer = SignerKey("dora", SecretBytes(b"\x07" * 32))
    grant = Grant.parse(bytes(Grant.issue(request, payload, signer, issued_us=now_us)))
    report = _open(lossless, tmp_path / "out.mkv", ledger, keys=grant.open([investigator]))
    assert report.output is not None
    pictures = _pictures(tmp_path / "out.mkv")
    numbers = [*range(10), *range(20, 30)]
    assert [_shown(picture, number) for picture, number in zip(pictures, numbers, strict=True)] == (
        [frozenset({4})] * 10 + [frozenset({3, 4})] * 10
    )


def test_the_tiles_as_sealed_are_written_beside_it_bit_for_bit(
    lossless: Path, tmp_path: Path, ledger: Ledger
) -> None:
    out = tmp_path / "out.mp4"
    report = _open(lossless, out, ledger, "100,10,50,150", tiles=True)
    with av.open(str(tiles_path(out))) as container:
        streams = list(container.streams)
        assert [stream.codec_context.name for stream in streams] == ["ffv1", "ffv1"]
        packets: dict[int, list[bytes]] = {}
        for packet in container.demux():
            if packet.size:
                packets.setdefault(packet.stream_index, []).append(bytes(packet))
    for track, region, data in zip(report.tracks, (1, 4), packets.values(), strict=True):
        assert (track.index, track.num_packets, len(data)) == (region, 30, 30)
        assert track.sha256 == hashlib.sha256(b"".join(data)).hexdigest()
    for stream_index, region in ((0, 1), (1, 4)):
        tile = GRID.tile(region)
        with av.open(str(tiles_path(out))) as container:
            for number, frame in enumerate(container.decode(container.streams.video[stream_index])):
                luma = _planes(original(number))[0]
                assert np.array_equal(
                    _planes(frame)[0], luma[tile.y : tile.y + tile.height, tile.x : tile.x + tile.width]
                )
    written = json.loads(report_path(out).read_text())["regions"]
    assert written["tiles"]["sha256"] == hashlib.sha256(tiles_path(out).read_bytes()).hexdigest()
    assert written["asked"] == ["100,10,50,150"]
    assert written["segments"][0]["grid"]["x_edges"] == list(GRID.x_edges)


@pytest.mark.parametrize("mode", [SealedMode.H264, SealedMode.HEVC, SealedMode.AV1])
def test_lossy_tiles_show_the_original_too(mode: SealedMode, tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "in.mp4", units(mode, GOP))
    report = _open(path, tmp_path / "out.mkv", ledger, "0,0,10,10")
    assert report.exit_code == 0
    assert _runs(report) == [[("0-9", (0,))]]
    tile = GRID.tile(0)
    for number, picture in enumerate(_pictures(tmp_path / "out.mkv")):
        luma = _planes(original(number))[0].astype(int)
        inside = np.s_[: tile.height, : tile.width]
        assert np.abs(luma[inside] - picture[0][inside]).mean() < 12
        assert picture[0][:, tile.width + 8 :].max() < 75


def test_boxes_have_times_and_the_report_tells_every_picture(
    lossless: Path, tmp_path: Path, ledger: Ledger
) -> None:
    report = _open(lossless, tmp_path / "out.mkv", ledger, "0,0,20,20@0.5-1.2", "200,150,500,500@2.0-")
    expected = [
        frozenset({0} if 5 <= number < 12 else ()) | frozenset({5} if number >= 20 else ())
        for number in range(30)
    ]
    pictures = _pictures(tmp_path / "out.mkv")
    assert [_shown(picture, number) for number, picture in enumerate(pictures)] == expected
    assert _runs(report) == [[("0-4", ()), ("5-9", (0,))], [("0-1", (0,)), ("2-9", ())], [("0-9", (5,))]]
    assert report.exit_code == 0
    # kept of a region's packets is no more than decoding to the last picture asked for takes
    assert [(track.index, track.num_packets) for track in report.tracks] == [(0, 10 + 2), (5, 10)]


def test_a_track_moves_through_the_tiles(lossless: Path, tmp_path: Path, ledger: Ledger) -> None:
    lines = [
        json.dumps(
            {
                "frame": number,
                "time_s": number * FRAME_US / 1e6,
                "detections": [
                    {"label": "person", "id": "7", "box_xyxy": [8 * number, 5, 8 * number + 10, 60]},
                    {"label": "person", "id": "8", "box_xyxy": [0, 120, 256, 192]},
                ],
            }
        )
        for number in range(0, 30, 3)
    ]
    path = tmp_path / "tracks.jsonl"
    path.write_text("\n".join(lines))
    choice = RegionChoice((read_track(path, "7"),))
    report = _open(lossless, tmp_path / "out.mkv", ledger, choice=choice)
    pictures = _pictures(tmp_path / "out.mkv")
    for number, picture in enumerate(pictures):
        before, after = number - number % 3, min(number + -number % 3, 27)
        left, right = 8 * min(before, after), 8 * max(before, after) + 10
        expected = GRID.touching(left, 5, right, 60) if number <= 27 else frozenset()
        assert _shown(picture, number) == expected
    assert report.regions is not None
    assert report.regions.asked == ("track 7 of tracks.jsonl",)


def test_regions_outside_of_a_grant_stay_closed_and_the_report_says_so(
    lossless: Path, tmp_path: Path, ledger: Ledger
) -> None:
    report = _open(lossless, tmp_path / "out.mkv", ledger, "0,0,256,20", keys=SomeRegions(1))
    assert {_shown(p, n) for n, p in enumerate(_pictures(tmp_path / "out.mkv"))} == {frozenset({1})}
    assert report.exit_code == 3
    assert {row.outcome for row in report.opened} == {Outcome.PARTLY}
    assert "regions 0, 2: the keys given do not open them" in report.opened[0].problems


def test_damage_to_one_tile_leaves_the_others_whole(tmp_path: Path, ledger: Ledger) -> None:
    made = units()
    position, region = GOP + 4, 2  # a unit holds the packets of the next picture
    made[position] = _without_part(made[position], region + 1)
    report = _open(write(tmp_path / "in.mp4", made), tmp_path / "out.mkv", ledger)
    assert report.verdict is Verdict.AUTHENTIC  # a chunk that is gone is no tampering
    assert report.exit_code == 3
    assert [row.outcome for row in report.opened] == [Outcome.DELIVERED, Outcome.PARTLY, Outcome.DELIVERED]
    whole = frozenset(range(6))
    for number, picture in enumerate(_pictures(tmp_path / "out.mkv")):
        assert _shown(picture, number) == (whole - {region} if number == position + 1 else whole)
    assert _runs(report)[1] == [("0-4,6-9", (0, 1, 2, 3, 4, 5)), ("5", (0, 1, 3, 4, 5))]


def _without_part(unit: AccessUnit, part: int) -> AccessUnit:
    gone = [
        SealedChunk.parse(body).nal()
        for body in sealed_bodies(unit)
        if split_chunk_number(SealedChunk.parse(body).chunk_index)[0] == part
    ]
    return replace(unit, nals=tuple(nal for nal in unit.nals if nal not in gone))


def test_tiles_do_not_stand_in_a_picture_that_the_camera_did_not_make(tmp_path: Path, ledger: Ledger) -> None:
    made = units()
    foreign = made[12].nals[-1][:-3] + b"\x55\x55\x80"
    made[13] = replace(made[13], nals=(*made[13].nals[:-1], foreign))
    report = _open(write(tmp_path / "in.mp4", made), tmp_path / "out.mkv", ledger, "0,0,10,10")
    assert report.verdict is Verdict.TAMPERED
    pictures = _pictures(tmp_path / "out.mkv")
    assert all((picture[0][:, 120:] == 64).all() for picture in pictures[13:20])
    assert (pictures[12][0][:, 120:] != 64).any()
    assert (pictures[20][0][:, 120:] != 64).any()
    assert _shown(pictures[13], 13) == {0}
    assert _shown(pictures[14], 14) == frozenset()  # sealed in the unit of picture 13, and bound to it


def test_the_ledger_holds_what_was_asked_for_before_it_is_opened(
    lossless: Path, tmp_path: Path, ledger: Ledger
) -> None:
    _open(lossless, tmp_path / "out.mkv", ledger, "1,2,3,4@0-2")
    entries = [json.loads(line) for line in ledger.path.read_text().splitlines()]
    assert [each["body"]["regions"] for each in entries if each["kind"] == "open"] == [["1,2,3,4@0-2"]]
    assert verify_ledger(ledger.path).is_intact


def test_the_same_input_gives_the_same_bytes(lossless: Path, tmp_path: Path, ledger: Ledger) -> None:
    digests = set()
    for name in ("a.mp4", "b.mp4"):
        _open(lossless, tmp_path / name, ledger, "0,0,10,10")
        digests.add(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert len(digests) == 1


def test_a_whole_original_says_that_it_cannot_be_opened_by_regions(tmp_path: Path, ledger: Ledger) -> None:
    from tests.forensics.recordings import make_source, seal_copy, write_units  # noqa: PLC0415

    path = write_units(tmp_path / "in.mp4", seal_copy(make_source(tmp_path / "s.mp4", seconds=2)))
    report = _open(path, tmp_path / "out.mp4", ledger, "0,0,10,10")
    assert report.output is None
    assert report.exit_code == 3
    assert {row.problems for row in report.opened} == {
        ("its original is not split into regions; decode it with a range of its own",)
    }


# What can be asked for


@pytest.mark.parametrize(
    "text",
    [
        "", "1,2,3", "1,2,3,4,5", "a,b,c,d", "0,0,0,5", "0,0,5,-1", "nan,0,1,1", "0,0,inf,1", "1,2,3,4@x",
        "1,2,3,4@5", "1,2,3,4@1-2-3", "1,2,3,4@2026-01-01/2026-01-02",
    ],
)  # fmt: skip
def test_a_box_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_box(text)


def test_times_of_a_box_may_be_absolute() -> None:
    rule = parse_box("0,0,16,16@2023-11-14T22:13:21Z/2023-11-14T22:13:22Z")
    choice = RegionChoice((rule,)).at_start(START_US)
    grid = RegionGrid.even(256, 192, 2, 2)
    at = [choice.regions_at(START_US + s * 1_000_000, grid, 256, 192) for s in range(3)]
    assert at == [frozenset(), {0}, frozenset()]


def test_an_empty_range_is_refused_before_anything_is_opened(
    lossless: Path, tmp_path: Path, ledger: Ledger
) -> None:
    with pytest.raises(UsageError, match="not before its end"):
        _open(lossless, tmp_path / "out.mkv", ledger, "0,0,5,5@2-1")
    assert not (tmp_path / "out.mkv").exists()


def test_boxes_are_scaled_where_the_original_is_larger_than_the_protected_picture() -> None:
    choice = RegionChoice((parse_box("130,10,20,20"),)).at_start(0)
    assert choice.regions_at(0, RegionGrid.even(512, 384, 2, 2), 256, 192) == {1}
    assert choice.regions_at(0, RegionGrid.even(257, 193, 2, 1), 256, 192) == {1}


def test_events_of_a_camera_and_flat_lines_are_tracks_too() -> None:
    lines = [
        '{"type": "new", "after": {"id": "a-1", "box": [1, 2, 3, 4], "frame_time": 1700000000.5}}',
        '{"type": "notice", "kind": "live"}',
        "",
        '{"track": "a-1", "time_s": 3, "box_xyxy": [5, 6, 7, 8]}',
        '{"id": 12, "time_s": 3, "box_xyxy": [5, 6, 7, 8]}',
    ]
    first, second = parse_sightings(lines, "a-1")
    assert (first.time.micros, first.time.is_absolute) == (1_700_000_000_500_000, True)
    assert (second.time.micros, second.time.is_absolute) == (3_000_000, False)
    assert len(list(parse_sightings(lines, "12"))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "{", "[]", "7", '{"id": "a", "time_s": "x", "box": [1, 2, 3, 4]}',
        '{"id": "a", "time_s": 1, "box": [1, 2, 3]}', '{"id": "a", "time_s": -1, "box": [1, 2, 3, 4]}',
        '{"id": "a", "time_s": 1, "box": [1, 2, 3, 1e999]}',
        '{"id": "a", "time_s": true, "box": [1, 2, 3, 4]}', '{"id": "a", "box": [1, 2, 3, 4]}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_line_that_means_nothing_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(FormatError, match="line 2"):
        list(parse_sightings(["", line], "a", "tracks"))


@given(st.text(max_size=80) | st.binary(max_size=40).map(lambda data: data.decode("latin-1")))
def test_any_line_is_passed_over_read_or_refused(line: str) -> None:
    with contextlib.suppress(FormatError):
        list(parse_sightings([line], "a"))


def test_a_track_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"id": "a", "time_s": 1, "box": [1, 2, 3, 4]}\n')
    with pytest.raises(UsageError, match="nothing about the track 'b'"):
        read_track(path, "b")
    with pytest.raises(UsageError, match="No such file"):
        read_track(tmp_path / "none", "b")
