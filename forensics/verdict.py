"""One verdict for a whole recording, from the evidence for its segments.

The rules, in order; the first that applies decides:

1. TAMPERED: some finding is tampering (`codec.evidence.Reason`), or pictures without any data of
   ours stand in a recording that has some. (Such pictures before the first key frame do not
   count: nothing can show them.) Or the file has other tracks of pictures, sound or text: a
   player may show those, and the camera made one track. Or the container's times show pictures in
   another order than the signed one.
2. UNSIGNED: no picture has data of ours. There is nothing to check.
3. UNVERIFIABLE: no camera key was given; or no segment verifies; or something is of a newer
   format; or a segment other than the file's last one has lost its signature, so that pictures
   which nothing proves stand between proven ones.
4. GAPS: everything up to the last signature verifies, and something is missing: pictures,
   segments, the beginning of a segment, or the end of the last segment and with it its
   signature (those last pictures are counted as unproven). Also where the file itself is damaged.
5. AUTHENTIC: all of it verifies and nothing between its first and last picture is missing.

Loss is not tampering: no amount of missing data gives TAMPERED. A verdict speaks of what lies between
the first and the last picture of the recording. What came after the last segment cannot be told
from a file; what came before the first is told, and is a gap (GAPS) where the caller demands the
stream from its start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codec.evidence import Finding, Reason, SegmentEvidence, Verdict, Weight
from forensics.times import TimesNote

__all__ = ["Conclusion", "RollUp", "Verdict"]

MAX_CAUSES = 20


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The verdict and what led to it.

    Attributes:
        causes: sentences, at most 20; `num_causes` counts all.
        lacks_only_key: UNVERIFIABLE for no other reason than that no camera key was given, and nothing
            is missing.
    """

    verdict: Verdict
    causes: tuple[str, ...]
    num_causes: int
    lacks_only_key: bool = False


class _Causes:
    """Sentences by the verdict that they ask for."""

    def __init__(self) -> None:
        self._kept: dict[Verdict, list[str]] = {}
        self._counts: dict[Verdict, int] = {}

    def add(self, verdict: Verdict, text: str) -> None:
        kept = self._kept.setdefault(verdict, [])
        self._counts[verdict] = self._counts.get(verdict, 0) + 1
        if len(kept) < MAX_CAUSES:
            kept.append(text)

    def has(self, verdict: Verdict) -> bool:
        return verdict in self._counts

    def conclude(self, verdict: Verdict) -> Conclusion:
        return Conclusion(verdict, tuple(self._kept.get(verdict, ())), self._counts.get(verdict, 0))

    @property
    def is_empty(self) -> bool:
        return not self._counts


_OF_WEIGHT = {
    Weight.LOSS: Verdict.GAPS,
    Weight.TAMPERING: Verdict.TAMPERED,
}


class RollUp:
    """Takes the evidence segment by segment, in the order read, and concludes. Keeps no segment.

    Args:
        has_camera_key: whether the evidence was made with the camera's key.
        is_excerpt: a recording may start within its stream.
    """

    def __init__(self, *, has_camera_key: bool, is_excerpt: bool = True) -> None:
        self._has_camera_key = has_camera_key
        self._is_excerpt = is_excerpt
        self._causes = _Causes()
        self._num_segments = 0
        self._num_unsigned = 0
        self._num_verified = 0
        self._unsigned: list[str] = []
        self._lost_signature: str | None = None  # of the segment added last

    def add(
        self, evidence: SegmentEvidence, *, starts_with_key: bool, times: Sequence[TimesNote] = ()
    ) -> None:
        """Take one segment's evidence.

        Args:
            evidence: see there.
            starts_with_key: its first picture here is a key frame.
            times: what is odd about the times at which the container shows it.
        """
        name = segment_name(evidence, self._num_segments)
        is_leading = self._num_segments == self._num_unsigned == 0 and not starts_with_key
        self._num_segments += 1
        self._num_verified += evidence.camera_verified
        if self._lost_signature is not None:
            self._causes.add(Verdict.UNVERIFIABLE, self._lost_signature)
            self._lost_signature = None
        for finding in evidence.findings:
            self._take(finding, name, is_leading=is_leading)
        for note in times:
            if note.is_reordered:
                self._causes.add(Verdict.TAMPERED, f"{name}: {note.text}")

    def _take(self, finding: Finding, name: str, *, is_leading: bool) -> None:
        text = f"{name}: {finding}"
        reason = finding.reason
        if reason is Reason.UNSIGNED:
            self._num_unsigned += 1
            if is_leading:
                self._causes.add(Verdict.GAPS, f"{text}, before the first key frame")
            elif len(self._unsigned) < MAX_CAUSES:
                self._unsigned.append(text)
        elif reason is Reason.SIGNATURE_MISSING:
            self._lost_signature = text
        elif reason is Reason.STARTS_LATE:
            if not self._is_excerpt:
                self._causes.add(Verdict.GAPS, text)
        elif reason is Reason.NEWER_FORMAT:
            self._causes.add(Verdict.UNVERIFIABLE, text)
        elif reason.weight in _OF_WEIGHT:
            self._causes.add(_OF_WEIGHT[reason.weight], text)

    def add_track(self, kind: str) -> None:
        """Note another track that players present; ``kind`` is ``video``, ``audio`` or ``subtitle``."""
        self._causes.add(Verdict.TAMPERED, f"the file has another track ({kind}), which nothing signs")

    def add_damage(self, text: str) -> None:
        """Note that the file itself could not be read everywhere."""
        self._causes.add(Verdict.GAPS, text)

    def conclude(self) -> Conclusion:
        """Apply the rules to what was added."""
        causes = self._causes
        if self._num_segments == self._num_unsigned:
            causes.add(Verdict.UNSIGNED, "no picture carries veilcam data")
            return causes.conclude(Verdict.UNSIGNED)
        for text in self._unsigned:
            causes.add(Verdict.TAMPERED, f"{text}, in a recording that has them elsewhere")
        if self._lost_signature is not None:
            causes.add(Verdict.GAPS, f"{self._lost_signature}; its pictures are not proven")
        if not self._has_camera_key:
            if causes.is_empty:
                return Conclusion(Verdict.UNVERIFIABLE, ("no camera key was given",), 1, lacks_only_key=True)
            causes.add(Verdict.UNVERIFIABLE, "no camera key was given")
        elif not self._num_verified:
            causes.add(Verdict.UNVERIFIABLE, "no segment has a signature that verifies")
        worst_first = (Verdict.TAMPERED, Verdict.UNVERIFIABLE, Verdict.GAPS)
        return causes.conclude(next((each for each in worst_first if causes.has(each)), Verdict.AUTHENTIC))


def segment_name(evidence: SegmentEvidence, ordinal: int) -> str:
    """What to call a segment: by its index where it has one, else by its place in the file."""
    if evidence.segment_index is None:
        return f"part {ordinal + 1} of the file"
    return f"segment {evidence.segment_index}"
