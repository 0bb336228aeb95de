"""The bitstream, the sealed path and the segment format of veilcam (docs/format.md).

access_unit.py  one coded picture: AccessUnit (nal.py: NAL units, sei.py: our SEI)
records.py      FRAME, HEADER, SIGNATURE; packets.py: the sealed byte stream; limits.py: every maximum
sealer.py       writes segments: SegmentSealer
regions.py      the grid of an original that is sealed in tiles; lanes.py: their parts while they are written
segments.py     groups access units into segments, whatever happened to them
unseal.py       opens a segment: open_segment
verify.py       checks it without a decryption key; the result is a value (evidence.py)
h264.py         codes the protected layer; sealed_encoder.py the original; container.py, remux.py: files
"""

from __future__ import annotations

from codec.access_unit import AccessUnit
from codec.limits import Limits
from codec.packets import SealedPacket, SealedStream
from codec.sealer import SealedUnit, SegmentSealer
from codec.segments import SegmentView, read_segments
from codec.unseal import open_segment
from codec.verify import check_segment

__all__ = [
    "AccessUnit",
    "Limits",
    "SealedPacket",
    "SealedStream",
    "SealedUnit",
    "SegmentSealer",
    "SegmentView",
    "check_segment",
    "open_segment",
    "read_segments",
]
