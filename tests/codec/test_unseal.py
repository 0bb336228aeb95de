from __future__ import annotations

from dataclasses import replace

import pytest

from base.errors import AuthenticationFailed, NoMatchingIdentity
from codec.chunks import SealedChunk, chunk_room, sealed_bodies
from codec.limits import Limits
from codec.packets import RecordKind
from codec.reader import Tlv
from codec.records import SealedMode
from codec.segments import SegmentView
from codec.sei import VEILCAM_UUID, SeiKind, pack_veilcam, veilcam_kind
from codec.unseal import Loss, OpenedSegment, open_segment, unwrap_segment_epoch
from keys import EpochKey
from keys.secret import SecretBytes
from tests.support.streams import AUDIO, VIDEO, Stream, build_stream, recipient

SPREAD = build_stream("KPPPPPPP", num_bytes=2_000, unit_cap_bytes=1_500)


def _opened(stream: Stream) -> list[OpenedSegment]:
    return [open_segment(view, [stream.identity]) for view in stream.views()]


def _losses(opened: OpenedSegment) -> set[Loss]:
    return {problem.loss for problem in opened.problems}


def _view(stream: Stream) -> SegmentView:
    (view,) = stream.views()
    return view


@pytest.mark.parametrize("num_bytes", [0, 1, 300, 5_000, 200_000])
def test_every_packet_comes_back_bit_for_bit(num_bytes: int) -> None:
    stream = build_stream("KPPP|KPP|K", num_bytes=num_bytes)
    opened = _opened(stream)
    assert tuple(packet for segment in opened for packet in segment.packets) == stream.packets
    assert all(segment.is_complete and segment.streams == (VIDEO, AUDIO) for segment in opened)
    assert [segment.num_intact_packets for segment in opened] == [8, 6, 2]


def test_records_that_cross_chunks_come_back() -> None:
    assert len([b for unit in SPREAD.units for b in sealed_bodies(unit)]) > 5
    (opened,) = _opened(SPREAD)
    assert opened.packets == SPREAD.packets
    assert opened.is_complete


def test_the_epoch_key_opens_as_the_identity_does() -> None:
    stream = build_stream("KPP")
    view = _view(stream)
    header = view.header()
    assert header is not None
    key = unwrap_segment_epoch(header, [stream.identity])
    assert open_segment(view, key).packets == stream.packets
    keys = key.segment(header.camera_id, header.stream_id, header.epoch_id, header.segment_index)
    assert open_segment(view, keys).packets == stream.packets


def test_a_segment_opens_alone() -> None:
    stream = build_stream("KP|KPP|KP").cut(2, 5)
    (opened,) = _opened(stream)
    assert opened.is_complete
    assert len(opened.packets) == 6


def test_somebody_elses_identity_does_not_open() -> None:
    _, other = recipient(2)
    with pytest.raises(NoMatchingIdentity):
        open_segment(_view(build_stream("KP")), [other])
    with pytest.raises(NoMatchingIdentity):
        open_segment(_view(build_stream("KP")), [])


def test_a_wrong_epoch_key_opens_nothing_and_says_so() -> None:
    opened = open_segment(_view(build_stream("KP")), EpochKey(SecretBytes(bytes(32))))
    assert opened.packets == ()
    assert _losses(opened) == {Loss.CHUNK_REFUSED, Loss.STRIPPED, Loss.END_MISSING}


def test_what_precedes_and_follows_a_lost_unit_still_opens() -> None:
    (whole,) = _opened(SPREAD)
    for lost in range(1, 8):
        (opened,) = _opened(SPREAD.drop(lost))
        assert opened.packets[: opened.num_intact_packets] == whole.packets[: opened.num_intact_packets]
        assert set(opened.packets) < set(whole.packets)
        assert Loss.END_MISSING in _losses(opened) or _losses(opened) == {
            Loss.CHUNK_MISSING,
            Loss.RECORDS_MISSING,
        }
    (opened,) = _opened(SPREAD.drop(3))
    assert 0 < opened.num_intact_packets < len(opened.packets)
    assert opened.packets[-1] == whole.packets[-1]


def test_without_its_first_chunk_a_segment_has_packets_but_no_streams() -> None:
    stream = build_stream("KPP", num_bytes=300)
    only_first = stream.edit(0, stream.units[0].without_sealed())
    (opened,) = _opened(only_first)
    assert opened.streams == ()
    assert opened.num_intact_packets == 0
    assert opened.packets == stream.packets[-len(opened.packets) :]
    assert opened.packets


def test_a_chunk_opens_only_with_the_picture_that_carried_it() -> None:
    stream = build_stream("KPPP")
    (opened,) = _opened(stream.flip_bit(2))
    assert Loss.CHUNK_REFUSED in _losses(opened)
    assert opened.packets == stream.packets[:6]


def test_a_chunk_moved_to_another_segment_is_refused() -> None:
    stream = build_stream("KP|KP")
    nal = stream.units[1].nals[1]
    moved = stream.edit(3, stream.units[3].without_sealed().with_sei([nal]))
    second = _opened(moved)[1]
    assert Loss.CHUNK_REFUSED in _losses(second)


def test_a_header_from_another_segment_is_refused() -> None:
    stream = build_stream("KP|KP")
    first, third = stream.units[0], stream.units[2]
    swapped = stream.edit(2, third.without_veilcam().with_sei([first.nals[2], third.nals[3]]))
    views = swapped.views()
    assert len(views) == 3
    opened = [open_segment(view, [stream.identity]) for view in views if view.key]
    assert Loss.HEADER_MISSING in _losses(opened[-1])


def test_missing_damaged_and_absent_layers_are_told_apart() -> None:
    stream = build_stream("KPP")
    assert _losses(_opened(stream.drop(0))[0]) == {Loss.HEADER_MISSING}
    version_at = stream.units[0].nals[2].index(stream.camera.camera_id) - 1
    assert _losses(_opened(stream.flip_bit(0, nal=2, byte=version_at))[0]) == {Loss.HEADER_DAMAGED}
    assert _losses(_opened(stream.without_sealed())[0]) == {Loss.STRIPPED, Loss.END_MISSING}
    assert _losses(_opened(build_stream("KPP", mode=SealedMode.NONE))[0]) == {Loss.NOT_SEALED}
    assert _losses(_opened(stream.drop(2))[0]) == {Loss.END_MISSING}


def test_a_wrapped_key_that_was_changed_is_an_authentication_failure() -> None:
    stream = build_stream("KP")
    body = _view(stream).header_body or b""
    at = stream.units[0].nals[2].index(body[-60:-20])
    with pytest.raises(AuthenticationFailed):
        open_segment(_view(stream.flip_bit(0, nal=2, byte=at)), [stream.identity])


def _broken(sealed: bytes, damage: str) -> bytes:
    version_at = sealed.index(VEILCAM_UUID) + len(VEILCAM_UUID)
    return {
        "version": sealed[:version_at] + b"\x7f" + sealed[version_at + 1 :],
        "stop bit": sealed[:-1] + b"\x01",
        "second message": sealed[:-1] + b"\x05\x01x" + sealed[-1:],
        "empty": pack_veilcam(SeiKind.SEALED, b""),
    }[damage]


@pytest.mark.parametrize("damage", ["version", "stop bit", "second message", "empty"])
@pytest.mark.parametrize("is_before", [True, False])
def test_a_broken_message_costs_no_other_chunk_of_its_unit(damage: str, is_before: bool) -> None:
    unit = SPREAD.units[3]
    (place,) = (at for at, nal in enumerate(unit.nals) if veilcam_kind(nal) == SeiKind.SEALED)
    at = place if is_before else place + 1
    nals = (*unit.nals[:at], _broken(unit.nals[place], damage), *unit.nals[at:])
    (opened,) = _opened(SPREAD.edit(3, replace(unit, nals=nals)))
    assert opened.packets == SPREAD.packets
    assert _losses(opened) == {Loss.CHUNK_REFUSED}
    assert len(opened.problems) == 1


def test_of_more_chunks_than_a_unit_may_hold_the_first_ones_open() -> None:
    unit = SPREAD.units[3]
    more = tuple(SealedChunk(0, index, bytes(40)).nal() for index in range(1_000, 1_003))
    (view,) = SPREAD.edit(3, replace(unit, nals=unit.nals + more)).views()
    opened = open_segment(view, [SPREAD.identity], limits=Limits(max_chunks_per_unit=2))
    assert opened.packets == SPREAD.packets
    details = [problem.detail for problem in opened.problems]
    assert len(details) == 2
    assert "more than 2 sealed chunks" in details[1]


def test_duplicated_units_change_nothing() -> None:
    stream = build_stream("KPPP")
    (opened,) = _opened(stream.repeat(1, 3, 4))
    assert opened.packets == stream.packets
    assert opened.is_complete


def test_limits_bound_what_an_authentic_segment_may_ask_for() -> None:
    stream = build_stream("KPPP")
    opened = open_segment(_view(stream), [stream.identity], limits=Limits(max_records_per_segment=5))
    assert Loss.RECORD_DAMAGED in _losses(opened)
    opened = open_segment(_view(stream), [stream.identity], limits=Limits(max_packet_bytes=100))
    assert Loss.RECORD_DAMAGED in _losses(opened)
    opened = open_segment(_view(stream), [stream.identity], limits=Limits(max_streams=1))
    assert [known.index for known in opened.streams] == [0]
    opened = open_segment(_view(stream), [stream.identity], limits=Limits(max_segment_bytes=700))
    assert Loss.CHUNK_REFUSED in _losses(opened)


def test_secrets_and_content_stay_out_of_reprs() -> None:
    stream = build_stream("KP", num_bytes=20)
    opened = open_segment(_view(stream), [stream.identity])
    assert "audio" not in repr(opened)
    assert "x00" not in repr(SealedChunk(0, 0, bytes(40)))


def test_room_for_a_chunk_counts_every_byte_of_its_message() -> None:
    for free in (0, 100, 125, 1_000, 100_000, 160_000):
        count = chunk_room(free)
        nal = SealedChunk(2**63, 2**31, b"\x55" * (count + 4 + 16)).nal()
        assert count == 0 or len(nal) + 4 <= free
    assert chunk_room(160_000) > 159_000


def test_padding_is_a_record_that_readers_skip() -> None:
    assert bytes(Tlv(RecordKind.PAD, bytes(3))).hex() == "0300000003000000"
