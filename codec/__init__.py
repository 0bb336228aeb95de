"""The bitstream, the sealed path and the segment format of veilcam (docs/format.md).

access_unit.py  one coded picture: AccessUnit (nal.py: NAL units, sei.py: our SEI)
records.py      FRAME, HEADER, SIGNATURE; packets.py: the sealed byte stream
sealer.py       writes segments: SegmentSealer
unseal.py       groups access units to segments and opens them
verify.py       checks them without a decryption key; verdicts are values
"""

from __future__ import annotations
