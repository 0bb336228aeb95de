from __future__ import annotations

import logging
from dataclasses import replace
from fractions import Fraction

import pytest

from base.errors import LimitExceeded, UsageError
from codec.access_unit import AccessUnit
from codec.chunks import sealed_bodies
from codec.digests import header_digest
from codec.limits import LIVE_UNIT_CAP_BYTES, Limits
from codec.nal import nal_type
from codec.packets import SealedPacket
from codec.records import SealedMode, SegmentHeader, SignatureRecord
from codec.sealer import SealedUnit, SealerParams, SegmentSealer
from codec.segments import SegmentView, read_segments, view_unit
from codec.sei import SeiKind, veilcam_kind
from codec.unseal import OpenedSegment, open_segment
from keys import EpochRing
from tests.support.streams import (
    AUDIO,
    PPS,
    SPS,
    VIDEO,
    build_stream,
    camera_key,
    packets_for,
    picture,
    recipient,
)

KEY = camera_key()
PUBLIC, IDENTITY = recipient()
PARAMS = SealerParams(64, 48, Fraction(1, 90_000), b"\x22" * 8, 3, SealedMode.COPY, (VIDEO, AUDIO))


def _sealer(
    cap: int = LIVE_UNIT_CAP_BYTES, limits: Limits | None = None, ring: EpochRing | None = None
) -> SegmentSealer:
    return SegmentSealer(
        KEY,
        ring or EpochRing(KEY.camera_id, [PUBLIC]),
        PARAMS,
        unit_cap_bytes=cap,
        limits=limits or Limits(),
    )


def _video(num_bytes: int, *, is_key: bool = False) -> SealedPacket:
    return SealedPacket(0, is_key, 0, 0, 1, bytes(num_bytes))


def _run(sealer: SegmentSealer, plan: str, num_bytes: int) -> list[SealedUnit]:
    done: list[SealedUnit] = []
    for number, kind in enumerate(plan):
        done += sealer.push(picture(kind, number), [_video(num_bytes)], starts_segment=kind == "K")
    return done + sealer.finish()


def _views(done: list[SealedUnit]) -> list[SegmentView]:
    return list(read_segments(sealed.unit for sealed in done))


def _open(view: SegmentView) -> OpenedSegment:
    return open_segment(view, [IDENTITY])


def _header(done: list[SealedUnit], index: int = 0) -> SegmentHeader:
    header = _views(done)[index].header()
    assert header is not None
    return header


def test_one_unit_is_held_back_and_the_last_one_is_known() -> None:
    sealer = _sealer()
    assert sealer.push(picture("K", 0), starts_segment=True) == []
    (first,) = sealer.push(picture("P", 1), starts_segment=False)
    (second,) = sealer.push(picture("K", 2), starts_segment=True)
    (third,) = sealer.finish()
    assert [(s.starts_segment, s.is_last, s.segment_index) for s in (first, second, third)] == [
        (True, False, 0),
        (False, True, 0),
        (True, True, 1),
    ]
    assert sealer.finish() == []


def test_a_unit_is_parameter_sets_then_meta_then_sealed_then_slices() -> None:
    unit = build_stream("KP").units[0]
    kinds = [veilcam_kind(nal) or nal_type(nal) for nal in unit.nals]
    assert kinds == [7, 8, SeiKind.META, SeiKind.SEALED, 5]


def test_late_packets_go_into_the_segment_before() -> None:
    sealer = _sealer()
    done = sealer.push(picture("K", 0), packets_for("K", 0, 50), starts_segment=True)
    late = packets_for("P", 1, 60)
    done += sealer.push(picture("K", 2), packets_for("K", 2, 50), starts_segment=True, late_packets=late)
    done += sealer.finish()
    first, second = (_open(view) for view in _views(done))
    assert first.packets == tuple(packets_for("K", 0, 50) + late)
    assert second.packets == tuple(packets_for("K", 2, 50))


def test_each_segment_declares_its_streams_and_ends() -> None:
    for view in build_stream("KP|KP").views():
        opened = open_segment(view, [IDENTITY])
        assert opened.streams == (VIDEO, AUDIO)
        assert opened.is_complete


def test_no_unit_but_a_segments_last_exceeds_the_cap() -> None:
    cap = 20_000
    sealer = _sealer(cap)
    done = _run(sealer, "KPPPPPPPPP" * 3, 18_500)
    sizes = [sealed.unit.num_bytes for sealed in done]
    assert max(size for size, sealed in zip(sizes, done, strict=True) if not sealed.is_last) <= cap
    assert [len(_open(view).packets) for view in _views(done)] == [10] * 3
    assert all(_open(view).is_complete for view in _views(done))


def test_what_does_not_fit_is_spread_and_the_rest_flushed_counted_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "codec.sealer")
    sealer = _sealer(10_000)
    done = _run(sealer, "KPPP", 15_000)
    sizes = [sealed.unit.num_bytes for sealed in done]
    assert [9_800 < size <= 10_000 for size in sizes] == [True, True, True, False]
    assert sizes[-1] > 30_000
    assert sealer.stats.units_over_cap == 1
    assert sealer.stats.largest_unit_bytes == sizes[-1]
    assert "above the cap of 10000" in caplog.text
    (view,) = _views(done)
    assert len(_open(view).packets) == 4


def test_a_unit_that_is_too_large_by_itself_gets_no_chunk_and_loses_nothing() -> None:
    sealer = _sealer(2_000)
    big = AccessUnit.from_nals([SPS, PPS, b"\x65" + b"\x11" * 3_000], 0)
    done = sealer.push(big, [_video(100, is_key=True)], starts_segment=True)
    done += sealer.push(picture("P", 1), [_video(100)], starts_segment=False)
    done += sealer.push(picture("P", 2), [_video(100)], starts_segment=False)
    done += sealer.finish()
    assert [len(sealed_bodies(sealed.unit)) for sealed in done] == [0, 1, 1]
    (view,) = _views(done)
    assert _open(view).is_complete


def test_the_backlog_stays_small_enough_for_the_last_unit_to_be_readable() -> None:
    limits = Limits(max_unit_bytes=400_000)
    done = _run(_sealer(10_000, limits), "K" + "P" * 9, 90_000)
    assert max(sealed.unit.num_bytes for sealed in done) <= 400_000
    (view,) = read_segments([sealed.unit for sealed in done], limits)
    assert len(open_segment(view, [IDENTITY], limits=limits).packets) == 10


def test_more_than_readers_accept_is_refused_and_not_written() -> None:
    sealer = _sealer(10_000, Limits(max_unit_bytes=100_000))
    with pytest.raises(LimitExceeded, match="readers accept 100000"):
        _run(sealer, "KP", 300_000)
    with pytest.raises(LimitExceeded, match="more than 2 pictures"):
        _run(_sealer(limits=Limits(max_frames_per_segment=2)), "KPPP", 10)
    with pytest.raises(LimitExceeded, match="more than 1000 bytes"):
        _run(_sealer(limits=Limits(max_segment_bytes=1000)), "KPPP", 400)
    with pytest.raises(LimitExceeded, match="sealed packet: 2000 bytes"):
        _run(_sealer(limits=Limits(max_packet_bytes=2000)), "KPPP", 2000)
    with pytest.raises(LimitExceeded, match="more than 4 records"):
        _run(_sealer(limits=Limits(max_records_per_segment=4)), "KPPP", 10)


def test_signatures_chain_and_verify_with_the_cameras_key() -> None:
    views = build_stream("KPP|KP|K").views()
    previous = bytes(32)
    for index, view in enumerate(views):
        header = view.header()
        last = view.units[-1].meta
        assert header is not None
        assert last is not None
        signature = SignatureRecord.parse(last.signature or b"")
        assert header.previous_digest == previous
        assert signature.segment_index == header.segment_index == index
        assert signature.header_digest == header_digest(view.header_body or b"")
        KEY.public.verify(signature.signature, signature.message)
        previous = signature.digest


def test_no_nonce_is_used_twice_under_one_key() -> None:
    """Chunk indices count up within a segment, and every segment has a key of its own."""
    sealer = _sealer(1_000)
    done = _run(sealer, "KPPPP" * 2, 900)
    for view in _views(done):
        indices = [
            int.from_bytes(body[8:12], "big") for unit in view.units for body in sealed_bodies(unit.unit)
        ]
        assert indices == list(range(len(indices)))
    ciphers = [b"".join(sealed_bodies(view.units[1].unit))[12:40] for view in _views(done)]
    assert len(set(ciphers)) == 2


def test_the_header_tells_whether_the_sealed_part_starts_with_a_key() -> None:
    for is_key in (True, False):
        sealer = _sealer()
        done = sealer.push(picture("K", 0), [_video(9, is_key=is_key)], starts_segment=True) + sealer.finish()
        assert _header(done).starts_with_key is is_key


def test_every_segment_asks_for_the_epoch_so_that_rotation_takes_effect() -> None:
    ring = EpochRing(KEY.camera_id, [PUBLIC])
    sealer = _sealer(ring=ring)
    done = sealer.push(picture("K", 0), starts_segment=True)
    before = ring.current().epoch_id
    after = ring.rotate().epoch_id
    done += sealer.push(picture("K", 1), [_video(5)], starts_segment=True) + sealer.finish()
    assert [_header(done, 0).epoch_id, _header(done, 1).epoch_id] == [before, after]
    assert all(_open(view).is_complete for view in _views(done))


def test_parameters_change_with_the_next_segment() -> None:
    sealer = _sealer()
    done = sealer.push(picture("K", 0), starts_segment=True)
    sealer.params = replace(PARAMS, strength=9)
    done += sealer.push(picture("K", 1), starts_segment=True) + sealer.finish()
    assert [_header(done, 0).strength, _header(done, 1).strength] == [3, 9]


def test_streams_of_two_sealers_differ() -> None:
    assert _sealer().stream_id != _sealer().stream_id


def test_without_a_sealed_layer_no_recipient_is_needed() -> None:
    stream = build_stream("KP", mode=SealedMode.NONE)
    assert all(not sealed_bodies(unit) for unit in stream.units)
    assert stream.letters() == "AA"
    with pytest.raises(UsageError, match="needs recipients"):
        SegmentSealer(KEY, None, PARAMS)
    sealer = SegmentSealer(KEY, None, replace(PARAMS, sealed_mode=SealedMode.NONE))
    with pytest.raises(UsageError, match="needs recipients"):
        sealer.params = PARAMS
    with pytest.raises(UsageError, match="cannot be sealed"):
        sealer.push(picture("K", 0), [_video(1)], starts_segment=True)


def test_misuse_is_refused() -> None:
    sealer = _sealer()
    with pytest.raises(UsageError, match="no segment is open"):
        sealer.push(picture("P", 0), starts_segment=False)
    with pytest.raises(UsageError, match="IDR picture"):
        sealer.push(picture("P", 0), starts_segment=True)
    with pytest.raises(UsageError, match="SPS and PPS"):
        sealer.push(AccessUnit.from_nals([b"\x65\x88"], 0), starts_segment=True)
    sealer.push(picture("K", 0), starts_segment=True)
    with pytest.raises(UsageError, match="late packets"):
        sealer.push(picture("P", 1), starts_segment=False, late_packets=[_video(1)])
    with pytest.raises(UsageError, match="model id"):
        replace(PARAMS, model_id=b"")


def test_the_frame_record_holds_the_capture_time() -> None:
    frames = [view_unit(unit).frame for unit in build_stream("KPP").units]
    times = [frame.time_us for frame in frames if frame]
    assert times == [picture("P", number).pts_us for number in range(3)]
