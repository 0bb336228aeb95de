"""The second reading: decrypts the planned segments one at a time and writes their packets."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

from base.errors import (
    AuthenticationFailed,
    FormatError,
    KeyUnavailable,
    MediaError,
    Truncated,
    VeilError,
)
from codec.limits import Limits
from codec.packets import SealedPacket, SealedStream, StreamKind
from codec.remux import write_packets
from codec.segments import SegmentView, read_segments
from codec.unseal import OpenedRegion, OpenedSegment, open_segment
from forensics.decode_report import OpenedRow, Outcome, TrackDigest
from forensics.gate import PacketGate
from forensics.input_file import Advance, Evidence
from forensics.plan import Candidate, Plan, follows
from keys import RegionKeys, SegmentKeys
from keys.source import KeySource

_MAX_PROBLEMS = 20
_MAX_WITHOUT_STREAMS = 4

_Opened: TypeAlias = tuple[Candidate, OpenedSegment]


class Reading:
    """One reading that opens what the plan says, and what came of it.

    Attributes:
        rows: what became of each planned segment.
        delivered: the segments of which something is in the output, in its order.
        notes: for people.
    """

    def __init__(
        self,
        evidence: Evidence,
        plan: Plan,
        source: KeySource,
        limits: Limits,
        advance: Advance,
    ) -> None:
        self._evidence = evidence
        self._plan = plan
        self._source = source
        self._limits = limits
        self._advance = advance
        self._hashes: dict[int, TrackHash] = {}
        self.rows: list[OpenedRow] = []
        self.delivered: list[Candidate] = []
        self.notes: list[str] = []

    @property
    def recipient_ids(self) -> tuple[str, ...]:
        """Identities that opened something, in hexadecimal."""
        return self._source.used_ids


class Extraction(Reading):
    """Writes the packets as they were sealed. Runs once: `write`, then look at what it did."""

    @property
    def tracks(self) -> tuple[TrackDigest, ...]:
        """Hashes of the output's tracks."""
        return tuple(track.digest() for track in self._hashes.values())

    def write(self, path: Path) -> bool:
        """Write the output to ``path``; False if there was nothing to write.

        Raises:
            UsageError: the container cannot hold the original.
            MediaError: the output cannot be written.
        """
        opened = self._opened_segments()
        first, streams = self._first_with_streams(opened)
        if not streams:
            for candidate, _ in first:
                self._add_row(candidate, Outcome.NOT_OPENED, problems=("its stream records are lost",))
            return False
        try:
            report = write_packets(path, streams, self._packets(streams, itertools.chain(first, opened)))
        except VeilError:
            raise
        except (OverflowError, TypeError, ValueError) as error:  # numbers that libav's fields cannot hold
            message = "the original's stream parameters cannot be written to a file"
            raise MediaError(message) from error
        self._note_writing(report.left_out, report.num_jumps, report.num_nudged)
        return bool(self.delivered)

    def _first_with_streams(
        self, opened: Iterator[_Opened]
    ) -> tuple[list[_Opened], tuple[SealedStream, ...]]:
        """Take segments until one tells the streams: the first may have lost them."""
        taken: list[_Opened] = []
        for candidate, segment in opened:
            taken.append((candidate, segment))
            if segment.streams:
                return taken, segment.streams
            if len(taken) > _MAX_WITHOUT_STREAMS:
                lost, _ = taken.pop(0)
                self._add_row(lost, Outcome.NOT_OPENED, problems=("its stream records are lost",))
        return taken, ()

    def _note_writing(self, left_out: Sequence[int], num_jumps: int, num_nudged: int) -> None:
        if left_out:
            self.notes.append(f"{len(left_out)} streams are neither video nor audio and are left out")
        if num_jumps:
            self.notes.append(f"the original's clock went back {num_jumps} times; the output moves on")
        if num_nudged:
            self.notes.append(
                f"{num_nudged} packets had no times, or times that did not rise; they got new ones"
            )

    def _opened_segments(self) -> Iterator[_Opened]:
        """Open the planned segments in order; those that do not open leave a row."""
        order = self._plan.order
        for number, (candidate, view) in enumerate(planned_views(self._evidence, order, self._limits)):
            self._advance(number / len(order))
            if candidate.grid is not None:
                why = "its original is split into regions; decode it with a range of its own"
                self._add_row(candidate, Outcome.NOT_OPENED, problems=(why,))
                continue
            try:
                key = segment_keys(self._source, view)
                opened = open_segment(trusted_view(view, candidate), key, limits=self._limits)
            except (KeyUnavailable, AuthenticationFailed, FormatError) as error:
                self._add_row(candidate, Outcome.NOT_OPENED, problems=(str(error),))
                continue
            if opened.packets or opened.is_complete:
                yield candidate, opened
            else:
                self._add_row(candidate, Outcome.NOT_OPENED, problems=problem_texts(opened))

    def _packets(
        self, streams: Sequence[SealedStream], opened_segments: Iterable[_Opened]
    ) -> Iterator[SealedPacket]:
        """Yield what goes into the output, keeping count of it."""
        self._hashes = {s.index: TrackHash(s) for s in streams if s.kind is not StreamKind.OTHER}
        gate = PacketGate(streams)
        previous: Candidate | None = None
        for candidate, opened in opened_segments:
            if opened.streams and not _same_tracks(opened.streams, streams):
                why = "the original's format changes here; decode the rest with a range of its own"
                self._add_row(candidate, Outcome.NOT_OPENED, problems=(why,))
                continue
            if not follows(candidate, previous) and candidate.index != 0:
                gate.lose()
            previous = candidate
            yield from self._pass(candidate, opened, gate)

    def _pass(self, candidate: Candidate, opened: OpenedSegment, gate: PacketGate) -> Iterator[SealedPacket]:
        held_before, count = gate.num_held_back, 0
        for packet in gate.pass_segment(
            opened.packets, opened.num_intact_packets, is_complete=opened.is_complete
        ):
            if packet.stream_index in self._hashes:
                self._hashes[packet.stream_index].update(packet)
                count += 1
                yield packet
        held = gate.num_held_back - held_before
        problems = problem_texts(opened)
        if held:
            problems = (*problems, f"{held} packets wait for a key frame that is missing and are left out")
        outcome = Outcome.PARTLY if count else Outcome.NOT_OPENED
        self._add_row(candidate, outcome if problems else Outcome.DELIVERED, count, held, problems)
        if count:
            self.delivered.append(candidate)

    def _add_row(
        self,
        candidate: Candidate,
        outcome: Outcome,
        num_packets: int = 0,
        num_held_back: int = 0,
        problems: tuple[str, ...] = (),
    ) -> None:
        proof = self._plan.proof_of(candidate)
        self.rows.append(
            OpenedRow(candidate.ordinal, candidate.name, outcome, proof, num_packets, num_held_back, problems)
        )


class TrackHash:
    """Hashes one track while it is written."""

    def __init__(self, stream: SealedStream) -> None:
        self._stream = stream
        self._sha256 = hashlib.sha256()
        self._num_packets = 0
        self._num_bytes = 0

    def update(self, packet: SealedPacket) -> None:
        """Take the next packet."""
        self._sha256.update(packet.data)
        self._num_packets += 1
        self._num_bytes += len(packet.data)

    def digest(self) -> TrackDigest:
        """What was hashed so far."""
        return TrackDigest(
            index=self._stream.index,
            kind=self._stream.kind.name.lower(),
            codec=self._stream.codec,
            num_packets=self._num_packets,
            num_bytes=self._num_bytes,
            sha256=self._sha256.hexdigest(),
        )


def segment_keys(source: KeySource, view: SegmentView) -> SegmentKeys | RegionKeys:
    """Ask for the keys of a segment; raises as `KeySource.segment_keys`, and Truncated without a header."""
    header = view.header()
    if header is None:
        message = "its header is missing"
        raise Truncated(message)
    return source.segment_keys(header)


def planned_views(
    evidence: Evidence, order: Sequence[Candidate], limits: Limits
) -> Iterator[tuple[Candidate, SegmentView]]:
    """Yield the planned segments in order; reads the file again wherever the order goes back in it."""
    place = 0
    while place < len(order):
        before = place
        with evidence.units(limits) as units:
            for ordinal, view in enumerate(read_segments(units.reader, limits)):
                if ordinal != order[place].ordinal:
                    continue
                if view.key != (order[place].stream_id, order[place].index):
                    break
                yield order[place], view
                place += 1
                if place == len(order) or order[place].ordinal <= ordinal:
                    break
        if place == before:
            message = f"{evidence.path.name}: changed while it was read"
            raise MediaError(message)


def trusted_view(view: SegmentView, candidate: Candidate) -> SegmentView:
    """Return the segment without the sealed chunks of access units that the signature contradicts."""
    if not candidate.bad_frames:
        return view
    units = (
        replace(viewed, unit=viewed.unit.without_sealed())
        if viewed.frame is not None and viewed.frame.frame_index in candidate.bad_frames
        else viewed
        for viewed in view.units
    )
    return replace(view, units=tuple(units))


def _same_tracks(some: Sequence[SealedStream], others: Sequence[SealedStream]) -> bool:
    """Compare all that a decoder depends on; the frame rate is an estimate."""
    return _comparable(some) == _comparable(others)


def _comparable(streams: Sequence[SealedStream]) -> list[SealedStream]:
    return sorted((replace(s, frame_rate=Fraction(0)) for s in streams), key=lambda s: s.index)


def problem_texts(opened: OpenedSegment | OpenedRegion) -> tuple[str, ...]:
    """The first 20 problems, for people."""
    return tuple(str(problem) for problem in opened.problems[:_MAX_PROBLEMS])
