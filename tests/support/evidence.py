"""What a recording proves, in a line."""

from __future__ import annotations

from pathlib import Path

from codec.container import read_access_units
from codec.evidence import SegmentEvidence
from codec.segments import read_segments
from codec.unseal import open_segment
from codec.verify import check_segment
from keys import CameraPublic, Identity


def letters_of(path: Path, camera: CameraPublic, identity: Identity | None = None) -> tuple[list[str], int]:
    """Evidence letters of every segment in a file, and how many sealed packets open with ``identity``."""
    evidence: list[SegmentEvidence] = []
    num_packets = 0
    with read_access_units(path) as reader:
        for view in read_segments(reader):
            previous = evidence[-1] if evidence else None
            evidence.append(
                check_segment(
                    view,
                    camera,
                    previous,
                    parameter_sets=reader.track.parameter_sets,
                    may_be_cut=reader.last_may_be_cut,
                )
            )
            if identity is not None:
                num_packets += len(open_segment(view, [identity]).packets)
    return [segment.letters for segment in evidence], num_packets
