from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import given

from base.errors import MediaError
from camera.sources.ledger import MAX_PICTURES_WAITED, PacketLedger, Taken
from codec.packets import SealedStream, StreamKind
from tests.support.media import sealed


def data(taken: Taken) -> str:
    return b"".join(packet.data for packet in taken.packets).decode()


def test_a_key_packet_waits_for_its_picture() -> None:
    ledger = PacketLedger()
    ledger.add(sealed(0, b"I", 0, key=True), key_pts=0, is_video_key=True)
    ledger.add(sealed(0, b"P", 1))
    first = ledger.take(0, picture_is_key=True)
    assert (data(first), first.boundary, first.source_key) == ("IP", 0, True)
    ledger.add(sealed(1, b"a"))
    ledger.add(sealed(0, b"J", 2, key=True), key_pts=2, is_video_key=True)
    ledger.add(sealed(0, b"Q", 3))
    second = ledger.take(1, picture_is_key=False)
    assert (data(second), second.boundary) == ("a", None)
    third = ledger.take(2, picture_is_key=True)
    assert (data(third), third.boundary, third.source_key) == ("JQ", 0, True)


def test_late_packets_before_a_key_packet_are_told_from_those_after() -> None:
    ledger = PacketLedger()
    ledger.add(sealed(0, b"I", 0, key=True), key_pts=0, is_video_key=True)
    ledger.take(0, picture_is_key=True)
    ledger.add(sealed(1, b"a"))
    ledger.add(sealed(1, b"b"))
    ledger.add(sealed(0, b"J", 5, key=True), key_pts=5, is_video_key=True)
    taken = ledger.take(5, picture_is_key=True)
    assert (data(taken), taken.boundary) == ("abJ", 2)


def test_a_picture_after_a_lost_key_picture_takes_its_place() -> None:
    ledger = PacketLedger()
    ledger.add(sealed(0, b"I", 0, key=True), key_pts=0, is_video_key=True)
    ledger.add(sealed(0, b"P", 1))
    taken = ledger.take(1, picture_is_key=False)
    assert (data(taken), taken.boundary, taken.source_key) == ("IP", 0, True)


def test_packets_without_times_wait_for_a_key_picture() -> None:
    ledger = PacketLedger()
    ledger.add(sealed(0, b"P", None))
    ledger.add(sealed(0, b"I", None, key=True), key_pts=None, is_video_key=True)
    assert data(ledger.take(None, picture_is_key=False)) == "P"
    assert data(ledger.take(None, picture_is_key=True)) == "I"


def test_a_boundary_that_no_picture_reaches_is_given_up() -> None:
    ledger = PacketLedger()
    ledger.add(sealed(0, b"I", 10**9, key=True), key_pts=10**9, is_video_key=True)
    takes = [data(ledger.take(number, picture_is_key=False)) for number in range(MAX_PICTURES_WAITED + 1)]
    assert "".join(takes) == "I"


def test_a_discontinuity_is_reached_by_the_next_picture() -> None:
    ledger = PacketLedger()
    ledger.add(sealed(0, b"x", 900))
    ledger.mark_discontinuity()
    ledger.add(sealed(0, b"I", 1000, key=True), key_pts=1000, is_video_key=True)
    taken = ledger.take(1000, picture_is_key=True)
    assert (data(taken), taken.boundary, taken.source_key, taken.discontinuity) == ("xI", 1, True, True)


def test_packets_without_a_picture_are_bounded() -> None:
    ledger = PacketLedger(max_pending_bytes=100)
    with pytest.raises(MediaError, match="without a picture"):
        for _ in range(3):
            ledger.add(sealed(0, bytes(40)))


@given(
    st.lists(st.tuples(st.sampled_from("IPag"), st.integers(0, 30), st.booleans()), max_size=60),
    st.booleans(),
)
def test_nothing_is_lost_and_the_order_stays(script: list[tuple[str, int, bool]], has_times: bool) -> None:
    """I: video key packet, P: other video, a: audio, g: gap; then maybe a picture of that time."""
    ledger = PacketLedger()
    fed, got = b"", b""
    for number, (kind, pts, shows) in enumerate(script):
        stamp = pts if has_times else None
        if kind == "g":
            ledger.mark_discontinuity()
        else:
            payload = bytes([number])
            fed += payload
            ledger.add(sealed(int(kind == "a"), payload, stamp), key_pts=stamp, is_video_key=kind == "I")
        if shows:
            taken = ledger.take(stamp, picture_is_key=kind == "I")
            assert taken.boundary is None or 0 <= taken.boundary <= len(taken.packets)
            got += b"".join(packet.data for packet in taken.packets)
    got += b"".join(packet.data for packet in ledger.rest())
    assert got == fed


def test_new_stream_descriptions_come_into_force_with_their_own_picture() -> None:
    old = (SealedStream(0, StreamKind.VIDEO, "h264", Fraction(1, 25), width=64, height=48),)
    new = (replace(old[0], width=128),)
    ledger = PacketLedger()
    ledger.begin(old)
    ledger.add(sealed(0, b"I", 0, key=True), key_pts=0, is_video_key=True)
    ledger.add(sealed(0, b"J", 1, key=True), key_pts=1, is_video_key=True, streams=new)
    first = ledger.take(0, picture_is_key=True)
    assert (data(first), first.streams, first.discontinuity) == ("I", old, False)
    second = ledger.take(1, picture_is_key=True)
    assert (data(second), second.streams, second.discontinuity, second.source_key) == ("J", new, True, True)
