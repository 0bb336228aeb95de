"""Checking what a WHEP client sends. The offer is Chromium 156's, its interfaces hidden (mDNS)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import FormatError, LimitExceeded, Malformed
from camera.webrtc.offer import MAX_CANDIDATES, MAX_SDP_BYTES, Fragment, parse_fragment, parse_offer

CHROMIUM = (Path(__file__).parent / "offers" / "chromium.sdp").read_bytes()


def test_chromiums_offer_is_one_audio_and_one_video_section_with_h264() -> None:
    offer = parse_offer(CHROMIUM)
    assert [(m.kind, m.mid, m.direction, m.has_h264) for m in offer.media] == [
        ("audio", "0", "recvonly", False),
        ("video", "1", "recvonly", True),
    ]
    assert offer.bundle_mid == "0"
    assert f"a=ice-ufrag:{offer.ufrag}\r\n".encode() in CHROMIUM


def test_names_of_hidden_interfaces_are_left_out_and_addresses_stay() -> None:
    address = b"a=candidate:7 1 udp 2113937151 192.0.2.9 40000 typ host\r\n"
    end = b"a=end-of-candidates\r\n"
    assert b".local" in CHROMIUM
    text = parse_offer(CHROMIUM + address + end).text
    assert ".local" not in text
    assert "end-of-candidates" not in text
    assert address.decode() in text


def test_h264_counts_only_where_the_section_offers_its_payload_type() -> None:
    lines = CHROMIUM.decode().splitlines()
    video = next(i for i, line in enumerate(lines) if line.startswith("m=video"))
    lines[video] = "m=video 9 UDP/TLS/RTP/SAVPF 96"
    assert not parse_offer("\n".join(lines).encode()).video[0].has_h264


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", Malformed),
        (b"hello", Malformed),
        (b"v=0\r\n", Malformed),
        (b"v=0\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\n", Malformed),
        (b"\xff\xfe", Malformed),
        (CHROMIUM.replace(b"a=fingerprint", b"a=footprint", 1), Malformed),
        (CHROMIUM.replace(b"a=group:BUNDLE 0 1\r\n", b"").replace(b"a=ice-pwd:", b"a=x:", 1), Malformed),
        (CHROMIUM.replace(b"BUNDLE 0 1", b"BUNDLE 7 1"), Malformed),
        (CHROMIUM.replace(b"BUNDLE 0 1", b"BUNDLE 0 1 2"), Malformed),
        (CHROMIUM.replace(b"BUNDLE 0 1", b"BUNDLE 1 1"), Malformed),
        (CHROMIUM.replace(b"a=mid:0", b"a=mid:1"), Malformed),
        (CHROMIUM.replace(b"a=group:", b"a=group:BUNDLE 0\r\na=group:"), Malformed),
        (CHROMIUM.replace(b"v=0", b"v=1", 1), Malformed),
        (CHROMIUM.replace(b"a=fingerprint", b"a=footprint"), Malformed),
        (CHROMIUM.replace(b"a=ice-pwd", b"a=ice-pwt"), Malformed),
        (CHROMIUM + b"a=x\x00y\r\n", Malformed),
        (CHROMIUM + b"no equals sign\r\n", Malformed),
        (CHROMIUM + b"a=" + b"x" * 5000 + b"\r\n", LimitExceeded),
        (CHROMIUM + b"a=x\r\n" * 2000, LimitExceeded),
        (CHROMIUM + b"m=video 9 UDP/TLS/RTP/SAVPF 96\r\n" * 8, LimitExceeded),
        (CHROMIUM + b"a=candidate:1 1 udp 1 192.0.2.1 9 typ host\r\n" * (MAX_CANDIDATES + 1), LimitExceeded),
        (b"x" * (MAX_SDP_BYTES + 1), LimitExceeded),
    ],
)
def test_a_bad_offer_is_refused_for_its_reason(data: bytes, error: type[FormatError]) -> None:
    with pytest.raises(error):
        parse_offer(data)


def test_a_trickle_fragment_gives_credentials_and_usable_candidates() -> None:
    fragment = parse_fragment(
        b"a=ice-ufrag:abcd\r\na=ice-pwd:0123456789012345678901\r\nm=audio 9 RTP/AVP 0\r\na=mid:0\r\n"
        b"a=candidate:1 1 udp 2130706431 192.0.2.9 40000 typ host\r\n"
        b"a=candidate:2 1 udp 2130706431 aaaa.local 40000 typ host\r\n"
        b"a=end-of-candidates\r\n"
    )
    assert fragment == Fragment("abcd", ("1 1 udp 2130706431 192.0.2.9 40000 typ host",))


@given(st.binary(max_size=2000))
def test_random_bytes_raise_only_format_errors(data: bytes) -> None:
    for parse in (parse_offer, parse_fragment):
        try:
            parse(data)
        except FormatError:
            continue


@given(st.integers(0, len(CHROMIUM) - 1), st.integers(0, 255), st.integers(1, 200))
def test_a_damaged_offer_raises_only_format_errors(at: int, value: int, length: int) -> None:
    damaged = CHROMIUM[:at] + bytes([value]) * (length % 3) + CHROMIUM[at + length :]
    try:
        offer = parse_offer(damaged)
    except FormatError:
        return
    assert parse_offer(offer.text.encode()) == offer


def test_a_bundled_section_without_a_transport_of_its_own_gets_the_first_ones() -> None:
    head, separator, rest = CHROMIUM.partition(b"m=video")
    transport = (b"a=ice-ufrag", b"a=ice-pwd", b"a=fingerprint", b"a=setup")
    bare = b"\r\n".join(line for line in rest.split(b"\r\n") if not line.startswith(transport))
    offer = parse_offer(head + separator + bare)
    audio, video = (set(part.splitlines()) for part in offer.text.split("m=")[1:])
    given = {line for line in audio if line.startswith(tuple(name.decode() for name in transport))}
    assert len(given) == 4
    assert given <= video
