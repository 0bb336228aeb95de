"""What the product's reader says about a vector, in the words of docs/format.md, section 12."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from base.errors import NoMatchingIdentity
from codec.access_unit import AccessUnit
from codec.reader import pack_block
from codec.segments import SegmentView, read_segments
from codec.unseal import Loss, open_segment, unwrap_segment_epoch
from codec.verify import SegmentEvidence, Verdict, check_segment
from keys import CameraPublic, Identity, RegionKeys
from keys.secret import SecretBytes
from keys.suite import Suite

FOLDER = Path(__file__).parent.parent / "vectors"
_WORST = (Verdict.TAMPERED, Verdict.UNSIGNED, Verdict.UNVERIFIABLE, Verdict.GAPS, Verdict.AUTHENTIC)
_EXPECT = {Verdict.AUTHENTIC: "success", Verdict.GAPS: "gap"}


@dataclass(frozen=True)
class Vector:
    """A file, read."""

    fields: dict[str, str]
    camera: CameraPublic
    secrets: list[tuple[Suite, bytes]]
    units: list[bytes]


def load(path: Path) -> Vector:
    head, _, body = path.read_text().partition("\n\n")
    lines = [line.split(": ", 1) for line in head.splitlines()]
    fields = {key: value for key, value in lines if key != "identity"}
    secrets = [value.split() for key, value in lines if key == "identity"]
    stream = base64.b64decode(body)
    units, at = [], 0
    for size in map(int, fields["units"].split()):
        units.append(stream[at : at + size])
        at += size
    return Vector(
        fields,
        CameraPublic("vector", bytes.fromhex(fields["camera"])),
        [(Suite(int(suite)), bytes.fromhex(secret)) for suite, secret in secrets],
        units,
    )


def results(
    units: Sequence[bytes],
    camera: CameraPublic,
    secrets: Sequence[tuple[Suite, bytes]],
    regions: Sequence[int] | None = None,
) -> dict[str, str]:
    """Expectation, verdicts, letters and packets by the product's reader."""
    identities = [Identity("vector", suite, SecretBytes(secret)) for suite, secret in secrets]
    evidence: list[SegmentEvidence] = []
    packets: list[bytes] = []
    for view in read_segments(AccessUnit.from_annexb(unit, 0) for unit in units):
        evidence.append(check_segment(view, camera, evidence[-1] if evidence else None))
        if view.key is None:
            continue
        try:
            opened = open_segment(view, _keys(view, identities, regions))
        except NoMatchingIdentity:
            return {"expect": "no match"}
        if any(problem.loss is Loss.HEADER_DAMAGED for problem in opened.problems):
            return {"expect": "format error"}
        found = (opened.packets, *(region.packets for region in opened.regions))
        packets += [bytes(packet) for part in found for packet in part]
    verdicts = [segment.verdict for segment in evidence]
    worst = next(verdict for verdict in _WORST if verdict in verdicts)
    return {
        "expect": _EXPECT.get(worst, worst.value),
        **({"ends": "yes"} if evidence[-1].ends_stream else {}),
        "verdicts": " ".join(verdict.value for verdict in verdicts),
        "letters": "|".join(segment.letters for segment in evidence),
        "packets": str(len(packets)),
        "sha256": hashlib.sha256(b"".join(pack_block(4, packet) for packet in packets)).hexdigest(),
    }


def regions_of(fields: dict[str, str]) -> list[int] | None:
    """The regions that a vector opens; None: everything."""
    return [int(number) for number in fields["regions"].split()] if "regions" in fields else None


def _keys(
    view: SegmentView, identities: Sequence[Identity], regions: Sequence[int] | None
) -> Sequence[Identity] | RegionKeys:
    """What a reader holds: identities, or the keys of some regions alone."""
    header = view.header() if regions is not None else None
    if regions is None or header is None:
        return identities
    epoch = unwrap_segment_epoch(header, identities)
    keys = epoch.segment(header.camera_id, header.stream_id, header.epoch_id, header.segment_index)
    return RegionKeys({region: keys.region_key(region) for region in regions})
