"""From a camera's certificate to what a report may say: who signed, and whether that counts at that time.

Signatures prove which key signed. Certificates (`keys.certified`) say whose key that was, from when to when,
and whether it was taken back. Where they do not cover a recording, its verdict is UNVERIFIABLE at best: what
was found stays in the report, and nothing becomes AUTHENTIC by it.

A revoked key that somebody else may have can sign any capture time. So its recordings count only if something
other than the camera shows that they existed before: a time stamp, a ledger, a receipt (``seen_before_us``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from forensics.canonical import JsonObject
from forensics.report import SegmentRow, VerificationReport, json_time
from forensics.selection import iso_time
from forensics.verdict import MAX_CAUSES, Verdict
from keys.certified import CertifiedCamera, Revocation

_CAPPED = (Verdict.AUTHENTIC, Verdict.GAPS)


@dataclass(frozen=True, slots=True)
class CameraTrust:
    """A certified camera, and what is known about when its recording existed.

    Attributes:
        seen_before_us: something other than the camera shows that the recording existed then (Unix
            microseconds); None: nothing does.
    """

    camera: CertifiedCamera
    seen_before_us: int | None = None

    def seen(self, time_us: int | None) -> CameraTrust:
        """Return the same with another witness: the time stamp of the whole recording, or None."""
        if time_us is None:
            return self
        return replace(self, seen_before_us=min(time_us, self.seen_before_us or time_us))

    def judge(self, report: VerificationReport) -> VerificationReport:
        """Return the report with the certificate in it, and with what the certificate does not cover."""
        causes = tuple(self._causes(report.segments))
        conclusion = report.conclusion
        if causes:
            capped = Verdict.UNVERIFIABLE if conclusion.verdict in _CAPPED else conclusion.verdict
            kept = conclusion.causes if conclusion.verdict not in _CAPPED else ()
            listed = (*kept, *causes)[:MAX_CAUSES]
            # What else was concluded stays: whether the camera stopped is no matter of the certificate.
            num_causes = conclusion.num_causes + len(causes)
            conclusion = replace(
                conclusion, verdict=capped, causes=listed, num_causes=num_causes, lacks_only_key=False
            )
        return replace(report, conclusion=conclusion, certificate=self.as_json())

    def as_json(self) -> JsonObject:
        """Return what the certificate says, for reports."""
        camera = self.camera
        return {
            "camera": camera.public.name,
            "camera_id": camera.public.camera_id.hex(),
            "issuers": list(camera.issuers),
            "serial": f"{camera.serial:x}",
            "sha256": camera.fingerprint.hex(),
            "root_sha256": camera.root_fingerprint.hex(),
            "not_before": json_time(camera.not_before_us),
            "not_after": json_time(camera.not_after_us),
            "revoked": [_revocation_json(each) for each in camera.revocations],
            "seen_before": json_time(self.seen_before_us),
            "notes": list(camera.notes),
        }

    def _causes(self, rows: Sequence[SegmentRow]) -> Iterator[str]:
        for row in rows:
            yield from self.doubts_of(row)
        yield from self.doubts()

    def doubts_of(self, row: SegmentRow) -> Iterator[str]:
        """Why the certificate does not cover a segment; nothing if it does, or the segment is unsigned."""
        if row.start_us is not None and row.digest is not None:
            yield from self._of_segment(row, row.start_us, row.end_us or row.start_us)

    def doubts(self) -> Iterator[str]:
        """Why nothing that the camera signed counts: somebody else may have its key."""
        for revocation in self.camera.revocations:
            if revocation.reason.key_may_be_known and not self._existed_before(revocation.since_us):
                yield (
                    f"the key of {revocation.name} was revoked ({revocation.reason.value}) as of "
                    f"{iso_time(revocation.since_us)}: whoever has it can sign any time; show that the "
                    "recording existed before (--seen-before)"
                )

    def _of_segment(self, row: SegmentRow, start_us: int, end_us: int) -> Iterator[str]:
        camera = self.camera
        if start_us < camera.not_before_us or end_us > camera.not_after_us:
            yield (
                f"{row.name}: recorded {iso_time(start_us)}, when the camera's certificate was not valid "
                f"({iso_time(camera.not_before_us)} to {iso_time(camera.not_after_us)})"
            )
        if self.seen_before_us is not None and self.seen_before_us < end_us:
            yield (
                f"{row.name}: recorded until {iso_time(end_us)}; it cannot have existed at "
                f"{iso_time(self.seen_before_us)}"
            )
        for revocation in camera.revocations:
            if not revocation.reason.key_may_be_known and end_us >= revocation.since_us:
                yield (
                    f"{row.name}: recorded {iso_time(end_us)}, after {revocation.name} was revoked "
                    f"({revocation.reason.value}, {iso_time(revocation.since_us)})"
                )

    def _existed_before(self, time_us: int) -> bool:
        return self.seen_before_us is not None and self.seen_before_us <= time_us


def _revocation_json(revocation: Revocation) -> JsonObject:
    return {
        "name": revocation.name,
        "reason": revocation.reason.value,
        "since": json_time(revocation.since_us),
        "published": json_time(revocation.published_us),
    }
