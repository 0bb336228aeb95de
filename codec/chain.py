"""Places a segment after those read before it: gaps, repeats, disorder and splices.

Only verified segments move the chain: an unsigned claim must not make later segments look old.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from codec.evidence import Chain, Finding, LastSegment, Reason
from codec.limits import Limits
from codec.records import SegmentHeader
from codec.segments import SegmentKey


def place_segment(
    chain: Chain, key: SegmentKey, header: SegmentHeader | None, start_us: int | None, *, is_verified: bool
) -> Iterator[Finding]:
    """What is wrong with the place of segment ``key``.

    Args:
        chain: of the segments before.
        key: the segment's own claim.
        header: the segment's, if it is here and undamaged.
        start_us: capture time of its first picture.
        is_verified: whether its own signature was valid.
    """
    last = chain.streams.get(key.stream_id)
    other = chain.previous_key is not None and chain.previous_key[0] != key.stream_id
    if other:
        yield from _enter_stream(chain, key, last, start_us, is_verified=is_verified)
    elif chain.previous_key == key:
        yield Finding(Reason.SEGMENT_REPEATED, f"segment {key.segment_index} comes twice in a row")
        return
    if last is not None and last.ends_stream and key.segment_index > last.segment_index:
        yield Finding(Reason.BEHIND_END, f"segment {key.segment_index}, the last one is {last.segment_index}")
    if last is None:
        yield from _first_of_stream(chain, key, is_other=other)
    elif key.segment_index == last.segment_index:
        yield Finding(Reason.SEGMENT_REPEATED, f"segment {key.segment_index} was here before")
    elif key.segment_index < last.segment_index:
        detail = f"segment {key.segment_index} comes after segment {last.segment_index}"
        yield Finding(Reason.SEGMENT_OUT_OF_ORDER, detail)
    else:
        yield from _follow(chain, key, header, last)


def _enter_stream(
    chain: Chain, key: SegmentKey, last: LastSegment | None, start_us: int | None, *, is_verified: bool
) -> Iterator[Finding]:
    if last is not None:
        yield Finding(Reason.SPLICED, f"stream {key.stream_id.hex()} was left for another and comes back")
        return
    yield Finding(Reason.NEW_STREAM, f"stream {key.stream_id.hex()}")
    latest_us = max((segment.end_us for segment in chain.streams.values()), default=None)
    if is_verified and latest_us is not None and start_us is not None and start_us < latest_us:
        detail = f"filmed {(latest_us - start_us) / 1e6:.1f} s before the end of the stream ahead of it"
        yield Finding(Reason.SPLICED, detail)


def _first_of_stream(chain: Chain, key: SegmentKey, *, is_other: bool) -> Iterator[Finding]:
    seen = chain.previous_key
    expected = seen[1] + 1 if seen is not None and not is_other else 0
    if expected and key.segment_index < expected:
        yield Finding(Reason.SEGMENT_OUT_OF_ORDER, f"segment {key.segment_index} comes after {expected - 1}")
    elif key.segment_index > expected and seen is not None:
        yield _missing(expected, key.segment_index)
    elif key.segment_index > expected:
        yield Finding(Reason.STARTS_LATE, f"with segment {key.segment_index}")


def _follow(
    chain: Chain, key: SegmentKey, header: SegmentHeader | None, last: LastSegment
) -> Iterator[Finding]:
    expected = last.segment_index + 1
    if chain.previous_key is not None and chain.previous_key[0] == key.stream_id:
        seen = chain.previous_key[1]
        expected = max(expected, seen + 1) if seen < key.segment_index else expected
    if key.segment_index > expected:
        yield _missing(expected, key.segment_index)
    elif key.segment_index != last.segment_index + 1:
        yield Finding(Reason.CHAIN_UNKNOWN, f"segment {key.segment_index - 1} is not verified")
    elif header is not None and header.previous_digest != last.signature_digest:
        yield Finding(Reason.CHAIN_BROKEN, f"its header names another segment {last.segment_index}")


def _missing(start: int, stop: int) -> Finding:
    names = f"segment {start}" if stop == start + 1 else f"segments {start} to {stop - 1}"
    return Finding(Reason.SEGMENTS_MISSING, names)


def extend_chain(chain: Chain, key: SegmentKey | None, verified: LastSegment | None, limits: Limits) -> Chain:
    """The chain after one more segment; ``verified`` if its signature holds and its place is right."""
    if key is None:
        return chain
    streams = dict(chain.streams)
    if verified is not None:
        known = streams.pop(key.stream_id, None)
        if known is None or known.segment_index < verified.segment_index:
            known = verified
        streams[key.stream_id] = known
        while len(streams) > limits.max_known_streams:
            del streams[next(iter(streams))]
    return Chain(MappingProxyType(streams), (key.stream_id, key.segment_index))
