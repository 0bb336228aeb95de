"""What a WHEP client sends, checked before aiortc sees it. Pure: bytes in, values out.

Everything is bounded: a description has at most 64 KiB, 2000 lines, 8 media sections and 64 candidates.
Two kinds of line are taken out of an offer on purpose:

* candidates with an mDNS name (``.local``): the client checks towards us anyway and is then found as a
  peer-reflexive candidate, while resolving names on its behalf costs seconds and opens multicast sockets;
* ``end-of-candidates``: without the named ones the list would look empty and ICE would fail at once. How
  long we wait for a client is our own time limit (see ``viewer``), not its claim.

Sources: RFC 8866 (SDP), RFC 8839 (candidates), RFC 8840 (trickle fragments), RFC 6184 (H.264),
draft-ietf-wish-whep-03.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from base.errors import LimitExceeded, Malformed

MAX_SDP_BYTES = 64 * 1024
MAX_SDP_LINES = 2000
MAX_LINE_CHARS = 4096
MAX_MEDIA = 8
MAX_CANDIDATES = 64

_H264 = re.compile(r"a=rtpmap:(\d{1,3}) H264/90000", re.IGNORECASE)
_TRANSPORT = ("ice-ufrag", "ice-pwd", "fingerprint", "setup")
_DIRECTIONS = ("sendrecv", "sendonly", "recvonly", "inactive")


@dataclass(frozen=True, slots=True)
class Media:
    """One media section of an offer."""

    kind: str
    mid: str
    direction: str
    has_h264: bool


@dataclass(frozen=True, slots=True)
class Offer:
    """A checked offer: the text for aiortc and what decides about accepting it."""

    text: str
    media: tuple[Media, ...]
    ufrag: str
    bundle_mid: str  # the section whose transport all others share

    @property
    def video(self) -> tuple[Media, ...]:
        """Video sections."""
        return tuple(media for media in self.media if media.kind == "video")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A trickle fragment: whose candidates these are (``ufrag`` is empty when not said) and which.

    A candidate is the text after ``candidate:``. Its section does not matter: WHEP sessions are bundled.
    """

    ufrag: str
    candidates: tuple[str, ...]


def parse_offer(data: bytes) -> Offer:
    """Check an SDP offer.

    Raises:
        LimitExceeded: larger than the limits above.
        Malformed: not an SDP description with ICE and DTLS parameters.
    """
    lines = _lines(data)
    if not lines or lines[0] != "v=0":
        message = "offer: expected an SDP description that begins with v=0"
        raise Malformed(message)
    kept = [line for line in lines if not _is_left_out(line)]
    sections = _sections(kept)
    if not sections[1:]:
        message = "offer: no media section"
        raise Malformed(message)
    media = tuple(_media(section) for section in sections[1:])
    bundled = _bundled(sections[0], media)
    carrier = next(
        (lines for lines, one in zip(sections[1:], media, strict=True) if one.mid in bundled[:1]), []
    )
    for section, described in zip(sections[1:], media, strict=True):
        if described.mid in bundled[1:]:  # it may leave out what is the first one's (RFC 8829, 5.2.1)
            _copy_transport(sections[0] + carrier, section)
        _require_transport(sections[0] + section)
    bundle_mid = bundled[0] if bundled else media[0].mid
    text = "\r\n".join(line for section in sections for line in section) + "\r\n"
    return Offer(text, media, _first(kept, "ice-ufrag"), bundle_mid)


def _copy_transport(carrier: list[str], section: list[str]) -> None:
    """Give a section what it lacks of its carrier's transport: aiortc looks at any section of a bundle."""
    lacks = [name for name in _TRANSPORT if not _first(section, name) and _first(carrier, name)]
    section += [f"a={name}:{_first(carrier, name)}" for name in lacks]


def _require_transport(lines: list[str]) -> None:
    for name in _TRANSPORT[:3]:
        if not _first(lines, name):
            message = f"offer: no a={name}"
            raise Malformed(message)


def _bundled(session: list[str], media: tuple[Media, ...]) -> list[str]:
    """The mids that share one transport (RFC 9143), the first of which carries it.

    Raises:
        Malformed: no section has such a mid, or two have: aiortc would connect nothing, and not end it.
    """
    mids = [section.mid for section in media]
    groups = [line.split() for line in session if line.startswith("a=group:BUNDLE")]
    bundled = [mid for group in groups for mid in group[1:]]
    if any(mids.count(mid) > 1 for mid in mids if mid):
        message = f"offer: expected mids that differ, got {mids!r:.80}"
        raise Malformed(message)
    if len(groups) > 1 or len(set(bundled)) < len(bundled) or not set(bundled) <= set(mids):
        message = f"offer: expected one BUNDLE group of mids that sections have, got {bundled!r:.80}"
        raise Malformed(message)
    return bundled


def parse_fragment(data: bytes) -> Fragment:
    """Read a trickle-ice-sdpfrag body.

    Raises:
        LimitExceeded: larger than the limits above.
        Malformed: not text, or a line that is not ``x=...``.
    """
    lines = _lines(data)
    texts = (line[len("a=candidate:") :] for line in lines if line.startswith("a=candidate:"))
    return Fragment(_first(lines, "ice-ufrag"), tuple(text for text in texts if not _is_mdns(text)))


def _lines(data: bytes) -> list[str]:
    if len(data) > MAX_SDP_BYTES:
        message = f"description: {len(data)} bytes, limit is {MAX_SDP_BYTES}"
        raise LimitExceeded(message)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = "description: not UTF-8"
        raise Malformed(message) from error
    lines = [line.rstrip("\r") for line in text.split("\n")]
    lines = [line for line in lines if line]
    if len(lines) > MAX_SDP_LINES or any(len(line) > MAX_LINE_CHARS for line in lines):
        message = f"description: more than {MAX_SDP_LINES} lines or a line over {MAX_LINE_CHARS} characters"
        raise LimitExceeded(message)
    for line in lines:
        if line[1:2] != "=" or not line[0].isalpha() or not line.isprintable():
            message = f"description: expected lines of the form x=..., got {line[:20]!r}"
            raise Malformed(message)
    if sum(line.startswith("a=candidate:") for line in lines) > MAX_CANDIDATES:
        message = f"description: more than {MAX_CANDIDATES} candidates"
        raise LimitExceeded(message)
    return lines


def _sections(lines: list[str]) -> list[list[str]]:
    """Session part first (maybe empty), then one list per media section."""
    sections: list[list[str]] = [[]]
    for line in lines:
        if line.startswith("m="):
            sections.append([])
        sections[-1].append(line)
    if len(sections) - 1 > MAX_MEDIA:
        message = f"description: {len(sections) - 1} media sections, limit is {MAX_MEDIA}"
        raise LimitExceeded(message)
    return sections


def _media(section: list[str]) -> Media:
    kind = section[0][2:].split(" ")[0]
    direction = next((name for name in _DIRECTIONS if f"a={name}" in section), "sendrecv")
    formats = set(section[0].split(" ")[3:])
    matches = (_H264.match(line) for line in section)
    has_h264 = any(match is not None and match[1] in formats for match in matches)
    return Media(kind, _first(section, "mid"), direction, has_h264)


def _first(lines: list[str], name: str) -> str:
    prefix = f"a={name}:"
    return next((line[len(prefix) :].strip() for line in lines if line.startswith(prefix)), "")


def _is_left_out(line: str) -> bool:
    return line == "a=end-of-candidates" or (line.startswith("a=candidate:") and _is_mdns(line))


def _is_mdns(candidate: str) -> bool:
    fields = candidate.split(" ")
    return len(fields) > 4 and fields[4].lower().endswith(".local")
