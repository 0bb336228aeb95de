"""One verdict for a whole recording, from the evidence for its segments.

The rules, in order; the first that applies decides:

1. TAMPERED: some finding is tampering (`codec.evidence.Reason`), or pictures without any data of
   ours stand in a recording that has some. (Such pictures before the first key frame do not
   count: nothing can show them.) Or the file has other tracks of pictures, sound or text: a
   player may show those, and the camera made one track. Or the container's times show pictures in
   another order than the signed one.
   One camera's whole recording under the key of another is not among these (rule 3).
2. UNSIGNED: no picture has data of ours. There is nothing to check.
3. UNVERIFIABLE: no camera key was given; or that of another camera, and all of the recording names one
   and the same; or no segment verifies; or something is of a newer
   format; or a segment other than the file's last one has lost its signature, so that pictures
   which nothing proves stand between proven ones.
4. GAPS: everything up to the last signature verifies, and something is missing: pictures,
   segments, the beginning of a segment, or the end of the last segment and with it its
   signature (those last pictures are counted as unproven). Also where the file itself is damaged.
5. AUTHENTIC: all of it verifies and nothing between its first and last picture is missing.

Loss is not tampering: no amount of missing data gives TAMPERED. A verdict speaks of what lies between
the first and the last picture of the recording. Whether something came after the last segment is told
by the camera's end mark (`Conclusion.has_end_mark`); without one nobody knows. What came before the
first, and a missing end mark, are gaps (GAPS) where the caller demands the stream from its start, or
to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
        has_end_mark: the camera signed that nothing follows the last segment. Without it the recording may
            have been cut between two segments, or belong to a stream that goes on.
        is_other_camera: the key given is of another camera than the one that the whole recording names.
    """

    verdict: Verdict
    causes: tuple[str, ...]
    num_causes: int
    lacks_only_key: bool = False
    has_end_mark: bool = False
    is_other_camera: bool = False


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
        may_go_on: a recording may lack the camera's end mark.
    """

    def __init__(self, *, has_camera_key: bool, is_excerpt: bool = True, may_go_on: bool = True) -> None:
        self._may_go_on = may_go_on
        self._has_end_mark = False
        self._has_camera_key = has_camera_key
        self._is_excerpt = is_excerpt
        self._causes = _Causes()
        self._num_segments = 0
        self._num_unsigned = 0
        self._num_verified = 0
        self._unsigned: list[str] = []
        self._lost_signature: str | None = None  # of the segment added last
        self._other_cameras: set[str] = set()
        self._strangers: list[str] = []  # sentences about segments of other cameras

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
        self._has_end_mark = evidence.ends_stream
        if self._lost_signature is not None:
            self._causes.add(Verdict.UNVERIFIABLE, self._lost_signature)
            self._lost_signature = None
        for finding in evidence.findings:
            self._take(finding, name, is_leading=is_leading)
            if finding.reason is Reason.WRONG_CAMERA and evidence.camera_id is not None:
                self._other_cameras.add(evidence.camera_id.hex())
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
        elif reason is Reason.WRONG_CAMERA:
            self._strangers.append(text)
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

    def add_doubt(self, text: str) -> None:
        """Note why signatures that verify do not count: captured long ago, or the key was taken back."""
        self._causes.add(Verdict.UNVERIFIABLE, text)

    def conclude(self) -> Conclusion:
        """Apply the rules to what was added."""
        if not self._may_go_on and not self._has_end_mark:
            self._causes.add(Verdict.GAPS, "ends without the camera's end mark")
        return replace(self._apply_rules(), has_end_mark=self._has_end_mark)

    def _apply_rules(self) -> Conclusion:
        causes = self._causes
        if self._num_segments == self._num_unsigned:
            causes.add(Verdict.UNSIGNED, "no picture carries veilcam data")
            return causes.conclude(Verdict.UNSIGNED)
        for text in self._unsigned:
            causes.add(Verdict.TAMPERED, f"{text}, in a recording that has them elsewhere")
        if self._lost_signature is not None:
            causes.add(Verdict.GAPS, f"{self._lost_signature}; its pictures are not proven")
        is_other = bool(self._strangers) and self._is_other_camera()
        if is_other:
            (camera,) = self._other_cameras
            text = f"the recording is of camera {camera}, and the key given is not: use that camera's .pub"
            causes.add(Verdict.UNVERIFIABLE, text)
        for text in () if is_other else self._strangers:
            causes.add(Verdict.TAMPERED, text)
        if is_other:
            pass
        elif not self._has_camera_key:
            if causes.is_empty:
                return Conclusion(Verdict.UNVERIFIABLE, ("no camera key was given",), 1, lacks_only_key=True)
            causes.add(Verdict.UNVERIFIABLE, "no camera key was given")
        elif not self._num_verified:
            causes.add(Verdict.UNVERIFIABLE, "no segment has a signature that verifies")
        worst_first = (Verdict.TAMPERED, Verdict.UNVERIFIABLE, Verdict.GAPS)
        verdict = next((each for each in worst_first if causes.has(each)), Verdict.AUTHENTIC)
        return replace(causes.conclude(verdict), is_other_camera=is_other)

    def _is_other_camera(self) -> bool:
        """Whether nothing speaks for the camera of the key, and all that names a camera names one other."""
        return not self._num_verified and len(self._other_cameras) == 1


def segment_name(evidence: SegmentEvidence, ordinal: int) -> str:
    """What to call a segment: by its index where it has one, else by its place in the file."""
    if evidence.segment_index is None:
        return f"part {ordinal + 1} of the file"
    return f"segment {evidence.segment_index}"
