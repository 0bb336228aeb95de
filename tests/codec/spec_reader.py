"""A small reader of the sealed layer, written from docs/format.md alone; shares no code with the product.

It opens what the identities open and says how that went. It does not verify who made the stream.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

UUID = bytes.fromhex("8f2c1d7e5b0a4e639c47b1e0d35a66f4")
META, SEALED = 1, 2
FRAME, HEADER, SIGNATURE = 0x81, 0x82, 0x83
STREAM, PACKET, END = 0x81, 0x82, 0x84
REGIONS, END_MARK = 0x82, 0x04
BLOB_SIZE = {1: 80, 2: 1168}
MAX_STANZAS, MAX_BLOB = 64, 4096


class Refused(ValueError):  # noqa: N818 - the word of the document
    """A record or message that the document says to refuse."""


@dataclass(slots=True)
class Cursor:
    """Reads big-endian fields from bytes, or refuses them as too short."""

    data: bytes
    at: int = 0

    def take(self, size: int) -> bytes:
        piece = self.data[self.at : self.at + size]
        if len(piece) != size:
            raise Refused(f"{size} bytes wanted at {self.at} of {len(self.data)}")
        self.at += size
        return piece

    def u(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def name(self) -> str:
        text = self.take(self.u(1))
        if not all(0x20 <= byte <= 0x7E for byte in text):
            raise Refused("a name that is not printable ASCII")
        return text.decode("ascii")


@dataclass(frozen=True, slots=True)
class Identity:
    """A recipient's private key."""

    suite: int
    private: bytes

    def key(self) -> tuple[X25519PrivateKey | hpke.MLKEM768X25519PrivateKey, bytes]:
        """The key for HPKE and the recipient id, section 8."""
        key: X25519PrivateKey | hpke.MLKEM768X25519PrivateKey
        if self.suite == 1:
            key = X25519PrivateKey.from_private_bytes(self.private)
            public = key.public_key().public_bytes_raw()
        else:
            seed = hashlib.shake_256(self.private).digest(96)
            mlkem = MLKEM768PrivateKey.from_seed_bytes(seed[:64])
            x25519 = X25519PrivateKey.from_private_bytes(seed[64:])
            public = mlkem.public_key().public_bytes_raw() + x25519.public_key().public_bytes_raw()
            key = hpke.MLKEM768X25519PrivateKey(mlkem, x25519)
        return key, hashlib.sha256(b"veilcam recipient id v1" + bytes([self.suite]) + public).digest()[:16]


@dataclass(frozen=True, slots=True)
class Header:
    """What opening needs of a HEADER record."""

    body: bytes
    camera_id: bytes
    epoch_id: bytes
    segment: bytes
    mode: int
    stanzas: tuple[tuple[bytes, int, bytes], ...]
    regions: int | None = None


@dataclass(slots=True)
class Unit:
    """One access unit, section 2 and 5."""

    is_key: bool
    pictures: list[bytes]
    sealed: list[bytes]
    frame: bytes | None = None
    header: Header | None = None
    header_refused: str | None = None
    refused: list[str] = field(default_factory=list)

    @property
    def segment(self) -> bytes | None:
        return self.frame[:24] if self.frame else None

    @property
    def frame_index(self) -> int | None:
        return int.from_bytes(self.frame[24:28], "big") if self.frame else None

    def picture_digest(self) -> bytes:
        parts = [self.frame or b"", *self.pictures]
        return hashlib.sha256(b"veilcam access unit v1" + b"".join(map(len32, parts))).digest()


@dataclass(slots=True)
class Result:
    """`outcome` is "success", "damaged", "no match" or "format error"; `packets` are PACKET bodies."""

    packets: list[bytes] = field(default_factory=list)
    streams: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    no_match: bool = False
    format_error: bool = False

    @property
    def outcome(self) -> str:
        if self.format_error or self.no_match:
            return "format error" if self.format_error else "no match"
        return "damaged" if self.problems else "success"


def len32(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def records(cursor: Cursor) -> Iterator[tuple[int, bytes]]:
    while cursor.at < len(cursor.data):
        kind = cursor.u(1)
        yield kind, cursor.take(cursor.u(4))


def nal_units(annexb: bytes) -> list[bytes]:
    return [nal for piece in re.split(b"\x00\x00\x01", annexb) if (nal := piece.rstrip(b"\x00"))]


def own_message(nal: bytes) -> bytes | None:
    """Version, kind and body if the SEI NAL unit is ours, of a kind that is known here."""
    offset = 2
    while nal[offset : offset + 1] == b"\xff":
        offset += 1
    head = nal[offset + 1 : offset + 19]
    if nal[:2] != b"\x06\x05" or head[:16] != UUID or head[17:] not in (bytes([META]), bytes([SEALED])):
        return None
    cursor, size = Cursor(nal[2:].replace(b"\x00\x00\x03", b"\x00\x00")), 0
    while (byte := cursor.u(1)) == 0xFF:
        size += byte
    message = cursor.take(size + byte)
    if head[16] != 1 or cursor.data[cursor.at :] != b"\x80":
        raise Refused("newer, or not one whole message")
    return message[16:]


def read_unit(annexb: bytes) -> Unit:
    """Parse one access unit; a META that is refused leaves it without a frame."""
    nals = nal_units(annexb)
    unit = Unit(any(nal[0] & 31 == 5 for nal in nals), [n for n in nals if not 6 <= n[0] & 31 <= 12], [])
    metas: list[bytes] = []
    for nal in nals:
        try:
            if message := own_message(nal):
                (metas if message[1] == META else unit.sealed).append(message[2:])
        except Refused as error:
            unit.refused.append(str(error))
    try:
        read_meta(unit, metas)
    except Refused as error:
        unit.refused.append(str(error))
    return unit


def read_meta(unit: Unit, metas: list[bytes]) -> None:
    found: dict[int, bytes] = {}
    for kind, body in (record for meta in metas for record in records(Cursor(meta))):
        if kind in (FRAME, HEADER, SIGNATURE, END_MARK):
            if kind in found:
                raise Refused("a record twice")
            found[kind] = body
        elif kind & 0x80:
            raise Refused("unknown critical record")
    frame = found.get(FRAME, b"")
    if (metas and len(frame) != 37) or len(metas) > 1:
        raise Refused("not one META with one FRAME of 37 bytes")
    unit.frame = frame or None
    if HEADER in found and unit.frame_index == 0:
        try:
            unit.header = read_header(found[HEADER], frame)
        except Refused as error:
            unit.header_refused = str(error)


def read_header(body: bytes, frame: bytes) -> Header:
    c = Cursor(body)
    version, camera, stream, epoch, index = c.u(1), c.take(16), c.take(16), c.take(16), c.take(8)
    c.take(8 + 32 + 8)
    time_base = c.u(4), c.u(4)
    c.take(32 + 8 + 1)
    mode, flags, count = c.u(1), c.u(1), c.u(1)
    if version != 1 or mode > 5 or flags > 1 or count > MAX_STANZAS or 0 in time_base:
        raise Refused("a field out of range")
    if stream + index != frame[:24]:
        raise Refused("another segment than FRAME's")
    stanzas = []
    for _ in range(count):
        recipient, suite, size = c.take(16), c.u(1), c.u(2)
        if size > MAX_BLOB or BLOB_SIZE.get(suite, size) != size:
            raise Refused("stanza of a wrong length")
        stanzas.append((recipient, suite, c.take(size)))
    regions: int | None = None
    for kind, extension in records(c):
        if kind == REGIONS and regions is None and mode >= 2:
            regions = read_regions(Cursor(extension))
        elif kind & 0x80:
            raise Refused("unknown critical extension, or REGIONS where it must not be")
    return Header(body, camera, epoch, frame[:24], mode, tuple(stanzas), regions)


def read_regions(c: Cursor) -> int:
    width, height, columns, rows = c.u(4), c.u(4), c.u(1), c.u(1)
    across, down = [c.u(4) for _ in range(columns - 1)], [c.u(4) for _ in range(rows - 1)]
    if c.at != len(c.data) or not 1 <= columns * rows <= 64:
        raise Refused("REGIONS of another length, or of no or too many regions")
    for size, inner in ((width, across), (height, down)):
        edges = [0, *inner, size]
        if any(a >= b for a, b in pairwise(edges)) or any(edge % 16 for edge in inner):
            raise Refused("REGIONS with borders that do not rise or lie off the grid")
    return columns * rows


def occurrences(units: list[Unit]) -> Iterator[list[Unit]]:
    """Group units into segments, section 9."""
    group: list[Unit] = []
    for unit in (unit for unit in units if unit.pictures):
        name = next((u.segment for u in group if u.segment), None)
        if unit.segment is None:
            is_new = unit.is_key
        elif name is None:
            lost_first = len(group) == 1 and group[0].is_key and bool(group[0].refused)
            is_new = unit.is_key or not lost_first
        else:
            again = unit.frame_index == 0 and any(u.frame_index == 0 for u in group)
            is_new = again or unit.segment != name
        if group and is_new:
            yield group
            group = []
        group.append(unit)
    if group:
        yield group


def epoch_key(header: Header, identities: list[Identity], result: Result) -> bytes | None:
    tried = False
    info = b"veilcam epoch wrap v1" + header.camera_id + header.epoch_id
    for identity in identities:
        private, own_id = identity.key()
        kem = hpke.KEM.X25519 if identity.suite == 1 else hpke.KEM.MLKEM768_X25519
        suite = hpke.Suite(kem, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)
        for recipient, number, blob in header.stanzas:
            if (recipient, number) == (own_id, identity.suite):
                tried = True
                with suppress(InvalidTag, ValueError):
                    return suite.decrypt(blob, private, info)
    result.no_match |= not tried
    result.problems.append("no stanza opens")
    return None


def derive(secret: bytes, info: bytes) -> bytes:
    return HKDF(SHA256(), 32, b"", info).derive(secret)


def part_labels(header: Header, regions: list[int] | None) -> dict[int | None, bytes]:
    """By part: the HKDF info of its key; None is the only part of a segment without REGIONS."""
    whole = b"veilcam sealed layer v1"
    if header.regions is None:
        return {None: whole}
    chosen = range(header.regions) if regions is None else regions
    labels: dict[int | None, bytes] = {0: whole} if regions is None else {}
    return labels | {r + 1: b"veilcam sealed region v1" + bytes([r]) for r in chosen}


def open_pieces(
    units: list[Unit], header: Header, key: bytes, part: tuple[int | None, bytes], result: Result
) -> dict[int, bytes]:
    names = header.camera_id + header.segment[:16] + header.epoch_id + header.segment[16:]
    segment_key = derive(key, b"veilcam segment key v1" + names)
    wanted, info = part
    cipher = AESGCM(derive(segment_key, info))
    digest = hashlib.sha256(header.body).digest()
    pieces: dict[int, bytes] = {}
    label = b"veilcam sealed chunk v1" + digest + header.camera_id
    for unit in units:
        for body in unit.sealed:
            chunk = body[8:12]
            if wanted is not None and body[8:9] != bytes([wanted]):
                continue
            aad = label + body[:12] + unit.picture_digest()
            try:
                plain = cipher.decrypt(chunk.rjust(12, b"\x00"), body[12:], aad)
            except (InvalidTag, ValueError):
                result.problems.append("a chunk does not open")
            else:
                count = chunk if wanted is None else chunk[1:]
                pieces.setdefault(int.from_bytes(count, "big"), plain)
        if unit.frame and unit.frame[36] > len(unit.sealed):
            result.problems.append("chunks taken out")
    return pieces


def runs(pieces: dict[int, bytes], result: Result) -> list[bytes]:
    """The sealed byte stream, cut at holes: each run begins with a record and may end within one.

    A record start of 0xFFFFFFFF lies behind every piece.
    """
    found: list[bytes] = []
    in_run, expected = False, 0
    for index in sorted(pieces):
        start, piece = int.from_bytes(pieces[index][:4], "big"), pieces[index][4:]
        if index != expected:
            result.problems.append("chunks missing")
            in_run = False
        expected = index + 1
        if in_run:
            found[-1] += piece
        elif start < len(piece):
            found.append(piece[start:])
            in_run = True
    return found


@dataclass(slots=True)
class SealedStream:
    """Section 7: takes records in order."""

    result: Result
    count: int = 0
    indices: set[int] = field(default_factory=set)
    ended: bool = False

    def add(self, kind: int, body: bytes) -> None:
        if self.ended:
            raise Refused("a record behind END")
        if kind == STREAM:
            index, name = read_stream(body)
            if index in self.indices:
                self.result.problems.append("a stream twice")
            else:
                self.indices.add(index)
                self.result.streams.append(name)
        elif kind == PACKET:
            if len(body) < 27 or body[2] > 1:
                raise Refused("PACKET out of range")
            if not self.indices or int.from_bytes(body[:2], "big") in self.indices:
                self.result.packets.append(body)
            else:
                self.result.problems.append("a packet of no stream")
        elif kind == END:
            self.ended = body == struct.pack(">I", self.count)
        elif kind & 0x80:
            raise Refused("unknown critical record")
        self.count += 1


def read_sealed(parts: list[bytes], result: Result) -> None:
    stream = SealedStream(result)
    for part in parts:
        try:
            for kind, body in records(Cursor(part)):
                stream.add(kind, body)
        except Refused as error:
            result.problems.append(str(error))
    if not stream.ended:
        result.problems.append("no END, or records lost before it")


def read_stream(body: bytes) -> tuple[int, str]:
    c = Cursor(body)
    index, kind, codec = c.u(2), c.u(1), c.name()
    base = c.u(4), c.u(4)
    c.take(8)
    c.name()
    sar_den, rate_den = (c.take(4) and c.u(4) for _ in range(2))
    c.take(4 + 4)
    c.name()
    c.take(c.u(4))
    if kind not in (1, 2, 3) or 0 in (*base, sar_den, rate_den):
        raise Refused("STREAM out of range")
    if any(extension & 0x80 for extension, _ in records(c)):
        raise Refused("unknown critical extension")
    return index, codec


def read(
    data: bytes, sizes: list[int], identities: list[Identity], regions: list[int] | None = None
) -> Result:
    """Open all segments of an Annex-B stream whose access units have these sizes in bytes."""
    ends = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
    units = [read_unit(data[start:end]) for start, end in pairwise(ends)]
    result = Result()
    for unit in units:
        result.problems += unit.refused
        result.format_error |= unit.header_refused is not None
    for group in occurrences(units):
        open_occurrence(group, identities, regions, result)
    return result


def open_occurrence(
    group: list[Unit], identities: list[Identity], regions: list[int] | None, result: Result
) -> None:
    header = next((unit.header for unit in group if unit.header), None)
    if header is None:
        if any(unit.frame for unit in group):
            result.problems.append("a segment without HEADER")
        return
    key = epoch_key(header, identities, result) if header.mode else None
    if key is None:
        return
    own = [unit for unit in group if unit.segment == header.segment]
    if any(unit.sealed for unit in own):
        for part in part_labels(header, regions).items():
            read_sealed(runs(open_pieces(own, header, key, part, result), result), result)
    else:
        result.problems.append("sealed layer taken out")
