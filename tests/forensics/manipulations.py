"""Manipulations of a recording, on its access units: what somebody with all the code and no key can do.

The streams are those of `tests.support.streams`: four segments of four units. An edit returns a
new stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from codec.access_unit import AccessUnit
from codec.chunks import sealed_bodies
from codec.digests import chunk_digest, header_digest, unit_digest
from codec.nal import is_picture_nal
from codec.records import Meta, SegmentHeader, SignatureRecord, UnitDigests
from codec.segments import view_unit
from codec.sei import VEILCAM_UUID, SeiKind, pack_message, pack_veilcam, veilcam_kind
from keys import EpochKey, EpochRing, SecretBytes
from keys.wrap import wrap_epoch_key
from tests.support.streams import START_US, Stream, build_stream, camera_key, picture, recipient

PLAN = "KPPP|KPPP|KPPP|KPPP"
GOP = 4
RING = EpochRing(camera_key().camera_id, [recipient()[0]])
STREAM = build_stream(PLAN, epochs=RING)
LATER = build_stream(PLAN, first_number=100)  # the same camera, started again: another stream and epoch
OTHER = build_stream(PLAN, camera=2)

Edit = Callable[[Stream], Stream]


def with_units(stream: Stream, units: list[AccessUnit]) -> Stream:
    return replace(stream, units=tuple(units))


def segments(stream: Stream, *order: int) -> Stream:
    return with_units(stream, [unit for i in order for unit in stream.units[i * GOP : (i + 1) * GOP]])


def meta_of(unit: AccessUnit) -> Meta:
    meta = view_unit(unit).meta
    assert meta is not None
    return meta


def header_of(unit: AccessUnit) -> SegmentHeader:
    return SegmentHeader.parse(meta_of(unit).header or b"")


def sealed_of(unit: AccessUnit) -> list[bytes]:
    return [nal for nal in unit.nals if veilcam_kind(nal) == SeiKind.SEALED]


def pictures_of(unit: AccessUnit) -> list[bytes]:
    return [nal for nal in unit.nals if is_picture_nal(nal)]


def with_meta(unit: AccessUnit, meta: Meta | bytes) -> AccessUnit:
    body = meta if isinstance(meta, bytes) else bytes(meta)
    return unit.without_veilcam().with_sei([pack_veilcam(SeiKind.META, body), *sealed_of(unit)])


def with_chunks(unit: AccessUnit, chunks: list[bytes]) -> AccessUnit:
    return unit.without_sealed().with_sei(chunks)


def edit_meta(position: int, **changes: object) -> Edit:
    def edit(stream: Stream) -> Stream:
        unit = stream.units[position]
        return stream.edit(position, with_meta(unit, replace(meta_of(unit), **changes)))  # type: ignore[arg-type]

    return edit


def edit_header(position: int, **changes: object) -> Edit:
    def edit(stream: Stream) -> Stream:
        header = replace(header_of(stream.units[position]), **changes)  # type: ignore[arg-type]
        return edit_meta(position, header=bytes(header))(stream)

    return edit


def edit_header_bytes(position: int, offset: int, value: int) -> Edit:
    def edit(stream: Stream) -> Stream:
        body = bytearray(meta_of(stream.units[position]).header or b"")
        body[offset] = value
        return edit_meta(position, header=bytes(body))(stream)

    return edit


def set_clock(position: int, time_us: int) -> Edit:
    def edit(stream: Stream) -> Stream:
        frame = replace(meta_of(stream.units[position]).frame, time_us=time_us)
        return edit_meta(position, frame=frame)(stream)

    return edit


def set_index(position: int, **changes: int) -> Edit:
    def edit(stream: Stream) -> Stream:
        frame = replace(meta_of(stream.units[position]).frame, **changes)  # type: ignore[arg-type]
        return edit_meta(position, frame=frame)(stream)

    return edit


def swap_signatures(stream: Stream) -> Stream:
    one, two = (meta_of(stream.units[i]).signature for i in (7, 11))
    return edit_meta(11, signature=one)(edit_meta(7, signature=two)(stream))


def swap_headers(stream: Stream) -> Stream:
    one, two = (meta_of(stream.units[i]).header for i in (4, 8))
    return edit_meta(8, header=one)(edit_meta(4, header=two)(stream))


def without_signatures(stream: Stream) -> Stream:
    for position in range(GOP - 1, len(stream.units), GOP):
        stream = edit_meta(position, signature=None, end_mark=None)(stream)
    return stream


def swap_metas(stream: Stream) -> Stream:
    one, two = meta_of(stream.units[5]), meta_of(stream.units[6])
    first, second = with_meta(stream.units[5], two), with_meta(stream.units[6], one)
    return stream.edit(5, first).edit(6, second)


def swap_pictures(stream: Stream) -> Stream:
    """The pictures of two units exchanged, with their records left in place."""
    one, two = stream.units[5], stream.units[6]

    def dressed(unit: AccessUnit, other: AccessUnit) -> AccessUnit:
        return replace(
            unit, nals=tuple([*(n for n in unit.nals if not is_picture_nal(n)), *pictures_of(other)])
        )

    return stream.edit(5, dressed(one, two)).edit(6, dressed(two, one))


def swap_chunks(first: int, second: int) -> Edit:
    def edit(stream: Stream) -> Stream:
        one, two = stream.units[first], stream.units[second]
        changed = stream.edit(first, with_chunks(one, sealed_of(two)))
        return changed.edit(second, with_chunks(two, sealed_of(one)))

    return edit


def chunk_from(other: Stream) -> Edit:
    return lambda stream: stream.edit(5, with_chunks(stream.units[5], sealed_of(other.units[5])))


def double_chunk(stream: Stream) -> Stream:
    return stream.edit(5, with_chunks(stream.units[5], 2 * sealed_of(stream.units[5])))


def broken_beside_good(stream: Stream) -> Stream:
    unit = stream.units[5]
    bad = pack_veilcam(SeiKind.SEALED, b"\x00" * 5)
    return stream.edit(5, with_chunks(unit, [*sealed_of(unit), bad]))


def strip_chunks_of(*positions: int) -> Edit:
    def edit(stream: Stream) -> Stream:
        for position in positions:
            stream = stream.edit(position, stream.units[position].without_sealed())
        return stream

    return edit


def own_recipient(stream: Stream) -> Stream:
    """Wrap a key of one's own to oneself, so as to be among the recipients."""
    header = header_of(stream.units[4])
    key = EpochKey(SecretBytes(bytes(32)))
    stanzas = wrap_epoch_key(key, [recipient(9)[0]], header.camera_id, header.epoch_id)
    return edit_header(4, stanzas=(*header.stanzas, *stanzas))(stream)


def other_wraps(stream: Stream) -> Stream:
    """The wrapped keys replaced by those of another epoch."""
    return edit_header(4, stanzas=header_of(LATER.units[4]).stanzas)(stream)


def resign(stream: Stream, first: int, *, claim: bool) -> Stream:
    """Sign a segment with a key of one's own; with ``claim`` its header keeps the camera's name."""
    thief = camera_key(3)
    units = list(stream.units)
    head = header_of(units[first])
    if not claim:
        head = replace(head, camera_id=thief.camera_id)
    units[first] = with_meta(units[first], replace(meta_of(units[first]), header=bytes(head)))
    digests = []
    for unit in units[first : first + GOP]:
        picture_digest = unit_digest(bytes(meta_of(unit).frame), unit)
        digests.append(UnitDigests(picture_digest, chunk_digest(sealed_bodies(unit))))
    record = SignatureRecord(head.segment_index, header_digest(bytes(head)), tuple(digests), bytes(64))
    record = replace(record, signature=thief.sign(record.message))
    last = first + GOP - 1
    units[last] = with_meta(units[last], replace(meta_of(units[last]), signature=bytes(record)))
    return with_units(stream, units)


def resign_all(stream: Stream) -> Stream:
    for first in range(0, len(stream.units), GOP):
        stream = resign(stream, first, claim=True)
    return stream


def forged_picture(stream: Stream) -> Stream:
    """Another picture under the right records."""
    unit = stream.units[5]
    nals = [nal for nal in unit.nals if not is_picture_nal(nal)]
    return stream.edit(5, replace(unit, nals=tuple([*nals, *pictures_of(picture("P", 77))])))


def more_slices(stream: Stream) -> Stream:
    unit = stream.units[5]
    return stream.edit(5, replace(unit, nals=(*unit.nals, *pictures_of(picture("P", 78)))))


def other_sps(stream: Stream) -> Stream:
    unit = stream.units[4]
    nals = [nal[:5] + bytes([nal[5] ^ 0x10]) + nal[6:] if nal[0] & 31 == 7 else nal for nal in unit.nals]
    return stream.edit(4, replace(unit, nals=tuple(nals)))


def second_meta(stream: Stream) -> Stream:
    unit = stream.units[5]
    extra = pack_veilcam(SeiKind.META, bytes(meta_of(stream.units[6])))
    return stream.edit(5, unit.with_sei([extra]))


def foreign_sei(stream: Stream) -> Stream:
    """Captions, timecodes and the like of others: they are nobody's business here."""
    return stream.edit(5, stream.units[5].with_sei([pack_message(5, bytes(16) + b"a note of the recorder")]))


def newer_meta(stream: Stream) -> Stream:
    unit = stream.units[5]
    nals = []
    for nal in unit.nals:
        place = nal.find(VEILCAM_UUID) + len(VEILCAM_UUID)
        is_meta = veilcam_kind(nal) == SeiKind.META
        nals.append(nal[:place] + b"\x02" + nal[place + 1 :] if is_meta else nal)
    return stream.edit(5, replace(unit, nals=tuple(nals)))


def damaged_first_meta(stream: Stream) -> Stream:
    return stream.edit(4, with_meta(stream.units[4], bytes(meta_of(stream.units[4]))[:60]))


def earlier_restart(stream: Stream) -> Stream:
    """A recording of the same camera that began before this one ended, put behind it."""
    return stream.then(build_stream(PLAN, first_number=2))


CLOCK_BACK = set_clock(6, START_US - 86_400_000_000)
