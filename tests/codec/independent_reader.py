"""A second reader of the format, written from docs/format.md alone.

It shares no code with the product: the standard library and `cryptography`, nothing else. Run it
on a vector: ``python tests/codec/independent_reader.py tests/vectors/intact.vec``.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import sys
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, hpke
from cryptography.hazmat.primitives.asymmetric import ed25519, mlkem, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

UUID = bytes.fromhex("8f2c1d7e5b0a4e639c47b1e0d35a66f4")


class FormatError(Exception):
    """Bytes that a reader has to refuse."""


class NewerFormatError(FormatError):
    """Something that a later version defines."""


class NoMatchError(Exception):
    """No identity is a recipient."""


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def len32(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def hkdf(key: bytes, info: bytes) -> bytes:
    return HKDF(hashes.SHA256(), 32, None, info).derive(key)


def take(data: bytes, *sizes: int) -> list[bytes]:
    """Fields of these sizes, and the rest."""
    fields = []
    for size in sizes:
        if size > len(data):
            raise FormatError("too short")
        fields.append(data[:size])
        data = data[size:]
    return [*fields, data]


def number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def records(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while len(data) >= 5:
        kind, size, data = take(data, 1, 4)
        if number(size) > len(data):
            break
        body, data = take(data, number(size))
        found.append((kind[0], body))
    return found


def nal_units(annexb: bytes) -> list[bytes]:
    parts = (part.rstrip(b"\0") for part in annexb.split(b"\0\0\1"))
    return [part for part in parts if part]


def messages(nals: list[bytes], wanted: int) -> list[bytes]:
    """Bodies of our SEI messages of one kind."""
    bodies = []
    for nal in nals:
        if nal[0] & 31 != 6 or nal[1:2] != b"\5" or UUID not in nal[:4096]:
            continue
        rbsp = nal[2:].replace(b"\0\0\3", b"\0\0").rstrip(b"\0")
        ffs = len(rbsp) - len(rbsp.lstrip(b"\xff"))
        size = 255 * ffs + rbsp[ffs]
        payload, stop = take(rbsp[ffs + 1 :], size)
        if not payload.startswith(UUID) or payload[17] != wanted:
            continue
        if payload[16] != 1:
            raise NewerFormatError
        if stop != b"\x80":
            raise FormatError("SEI end")
        bodies.append(payload[18:])
    return bodies


def read_meta(bodies: list[bytes]) -> dict[int, bytes]:
    """Records of a unit's META message, if it has one."""
    meta = dict(records(bodies[0])) if bodies else {}
    if any(kind & 0x80 and kind not in (0x81, 0x82, 0x83) for kind in meta):
        raise NewerFormatError
    if len(bodies) > 1 or (bodies and len(meta.get(0x81, b"")) != 37):
        raise FormatError("META")
    return meta


class Unit:
    """One access unit."""

    def __init__(self, annexb: bytes) -> None:
        self.nals = nal_units(annexb)
        self.pictures = [nal for nal in self.nals if not 6 <= nal[0] & 31 <= 12]
        self.sets = {nal for nal in self.nals if nal[0] & 31 in (7, 8)}
        self.chunks = messages(self.nals, 2)
        self.stranger, self.frame, self.meta = "N", b"", {}
        try:
            self.meta = read_meta(messages(self.nals, 1))
            self.frame = self.meta.get(0x81, b"")
        except NewerFormatError:
            self.stranger = "U"
        except FormatError:
            self.stranger = "T"
        self.key = self.frame[:24]  # stream id, segment index
        self.index = number(self.frame[24:28]) if self.frame else -1
        self.time = int.from_bytes(self.frame[28:36], "big", signed=True)

    @property
    def digest(self) -> bytes:
        return sha(b"veilcam access unit v1", len32(self.frame), *map(len32, self.pictures))

    @property
    def chunk_digest(self) -> bytes:
        return sha(b"veilcam sealed chunks v1", *map(len32, self.chunks)) if self.chunks else bytes(32)


class Header:
    """The HEADER record."""

    def __init__(self, body: bytes) -> None:
        self.digest = sha(body)
        version, self.camera, self.stream, self.epoch, self.index, _, self.previous, rest = take(
            body, 1, 16, 16, 16, 8, 8, 32
        )
        _, base, self.parameters, _, mode, flags, count, rest = take(rest, 8, 8, 32, 9, 1, 1, 1)
        if (
            version != b"\1"
            or mode[0] > 5
            or flags[0] > 1
            or count[0] > 64
            or 0 in struct.unpack(">II", base)
        ):
            raise FormatError("header")
        self.stanzas = []
        for _ in range(count[0]):
            recipient, suite, size, rest = take(rest, 16, 1, 2)
            blob, rest = take(rest, number(size))
            if len(blob) != {1: 80, 2: 1168}.get(suite[0], len(blob)):
                raise FormatError("blob")
            self.stanzas.append((recipient, suite[0], blob))
        grids = [grid_size(body) for kind, body in records(rest) if kind == 0x82]
        if any(kind & 0x80 and kind != 0x82 for kind, _ in records(rest)) or len(grids) > 1:
            raise FormatError("critical extension")
        self.regions = grids[0] if grids else None
        if grids and mode[0] < 2:
            raise FormatError("regions without a coded original")

    def part_keys(
        self, identities: list[tuple[int, bytes]], regions: list[int] | None
    ) -> dict[int | None, bytes]:
        """Keys by part; None names the only part of a segment that is not split."""
        k_s = self.segment_key(identities)
        whole = hkdf(k_s, b"veilcam sealed layer v1")
        if self.regions is None:
            return {None: whole}
        chosen = range(self.regions) if regions is None else regions
        keys: dict[int | None, bytes] = {} if regions is not None else {0: whole}
        return keys | {r + 1: hkdf(k_s, b"veilcam sealed region v1" + bytes([r])) for r in chosen}

    def segment_key(self, identities: list[tuple[int, bytes]]) -> bytes:
        for suite, private in identities:
            kem, key, public = recipient_keys(suite, private)
            mine = sha(b"veilcam recipient id v1", bytes([suite]), public)[:16]
            for recipient, kind, blob in self.stanzas:
                if (recipient, kind) == (mine, suite):
                    box = hpke.Suite(kem, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)
                    k_e = box.decrypt(blob, key, b"veilcam epoch wrap v1" + self.camera + self.epoch)
                    place = self.camera + self.stream + self.epoch + self.index
                    return hkdf(k_e, b"veilcam segment key v1" + place)
        raise NoMatchError


def grid_size(body: bytes) -> int:
    """How many regions a REGIONS record makes."""
    width, height, columns, rows, rest = take(body, 4, 4, 1, 1)
    inner = [columns[0] - 1, rows[0] - 1]
    if not 1 <= columns[0] * rows[0] <= 64 or len(rest) != 4 * sum(inner):
        raise FormatError("grid")
    borders = [number(rest[at : at + 4]) for at in range(0, len(rest), 4)]
    for size, line in ((width, borders[: inner[0]]), (height, borders[inner[0] :])):
        edges = [0, *line, number(size)]
        if edges != sorted(set(edges)) or any(border % 16 for border in line):
            raise FormatError("border")
    return columns[0] * rows[0]


def recipient_keys(suite: int, private: bytes) -> tuple[hpke.KEM, Any, bytes]:
    if suite == 1:
        key = x25519.X25519PrivateKey.from_private_bytes(private)
        return hpke.KEM.X25519, key, key.public_key().public_bytes_raw()
    seed = hashlib.shake_256(private).digest(96)
    lattice = mlkem.MLKEM768PrivateKey.from_seed_bytes(seed[:64])
    curve = x25519.X25519PrivateKey.from_private_bytes(seed[64:])
    public = lattice.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()
    return hpke.KEM.MLKEM768_X25519, hpke.MLKEM768X25519PrivateKey(lattice, curve), public


VERDICTS = dict(A="authentic", S="authentic", M="gaps", U="unverifiable", T="tampered", N="unsigned")
WORST = ("tampered", "unsigned", "unverifiable", "gaps", "authentic")


class Chain:
    """What was read before."""

    def __init__(self) -> None:
        self.newest: dict[bytes, tuple[int, bytes, int]] = {}  # by stream: index, signature digest, last time
        self.ended: dict[bytes, int] = {}  # by stream: index of the segment that has an end mark
        self.before = b""  # key of the segment just before

    def place(self, segment: Segment, start: int) -> str:
        """The verdict on a segment's place."""
        stream, index = segment.key[:16], number(segment.key[16:])
        newest, returns = self.newest.get(stream), self.before[:16] not in (stream, b"")
        if segment.key == self.before or (newest and (returns or index <= newest[0])):
            return "tampered"
        if newest and self.ended.get(stream) == newest[0]:
            return "tampered"
        if returns and any(start < end for _, _, end in self.newest.values()):
            return "tampered"
        expected = newest[0] + 1 if newest else 0
        if newest and index == expected:
            broken = segment.header and segment.header.previous != newest[1]
            return "tampered" if broken else "authentic"
        if self.before and not returns:
            expected = max(expected, number(self.before[16:]) + 1)
        return "gaps" if self.before and index > expected else "authentic"


def holds(camera: bytes, body: bytes) -> bool:
    """Whether the camera signed this SIGNATURE."""
    return signed_by(camera, body[-64:], b"veilcam segment signature v1" + body[:-64])


def signed_by(camera: bytes, signature: bytes, message: bytes) -> bool:
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(camera).verify(signature, message)
    except InvalidSignature:
        return False
    return True


class Segment:
    """Units that follow one another and name the same segment, and strangers among them."""

    def __init__(self, units: list[Unit]) -> None:
        self.units, self.signature, self.ends = units, b"", False
        self.key = next((unit.key for unit in units if unit.key), b"")
        self.own = [unit for unit in units if unit.key and unit.key == self.key]
        bodies = [unit.meta[0x82] for unit in self.own if unit.index == 0 and 0x82 in unit.meta]
        self.header = Header(bodies[0]) if bodies else None
        if self.header and self.header.stream + self.header.index != self.key:
            raise FormatError("header names another segment")

    def packets(self, identities: list[tuple[int, bytes]], regions: list[int] | None = None) -> list[bytes]:
        """PACKET bodies that open."""
        if self.header is None:
            return []
        found: list[bytes] = []
        for part, key in self.header.part_keys(identities, regions).items():
            found += self._part_packets(self.header, part, AESGCM(key))
        return found

    def _part_packets(self, header: Header, part: int | None, cipher: AESGCM) -> list[bytes]:
        pieces: dict[int, bytes] = {}
        for unit in self.own:
            for body in unit.chunks:
                if len(body) < 12:  # broken; that it differs from what is signed is for `check` to say
                    continue
                segment, chunk, ciphertext = take(body, 8, 4)
                if part is not None and chunk[0] != part:
                    continue
                aad = b"veilcam sealed chunk v1" + header.digest + header.camera
                try:
                    nonce = bytes(8) + chunk
                    plain = cipher.decrypt(nonce, ciphertext, aad + segment + chunk + unit.digest)
                    pieces.setdefault(number(chunk) if part is None else number(chunk[1:]), plain)
                except InvalidTag:
                    continue
        found, stream, following = [], b"", None
        for index in [*sorted(pieces), None]:
            if index is None or index != following:
                found += [body for kind, body in records(stream) if kind == 0x82]
                stream, following = b"", None
            if index is not None:
                start, piece = number(pieces[index][:4]), pieces[index][4:]
                if following is not None:
                    stream += piece
                elif start != 0xFFFFFFFF:
                    stream = piece[start:]
                following = index + 1 if stream else None
        return found

    def check(self, camera: bytes, chain: Chain) -> tuple[str, str]:
        """Verdict and letters."""
        if not self.key:
            letters = "".join(unit.stranger for unit in self.units)
            return next((VERDICTS[each] for each in "TU" if each in letters), "unsigned"), letters
        is_signed, letters = self._signed_letters(camera)
        times = [unit.time for unit in self.own]
        place = chain.place(self, min(times))
        if is_signed:
            newest = chain.newest.get(self.key[:16], (-1, b"", 0))
            chain.newest[self.key[:16]] = max(newest, (number(self.key[16:]), self.signature, max(times)))
            if self.ends:
                chain.ended[self.key[:16]] = number(self.key[16:])
        chain.before = self.key
        found = [VERDICTS[each] for each in letters] + [place]
        if is_signed is None:
            found.append("tampered")
        return next(each for each in WORST if each in found), letters

    def _signed_letters(self, camera: bytes) -> tuple[bool | None, str]:
        """Whether the signature holds (None: it does not; False: there is none), and letters."""
        carriers = [unit for unit in self.own if 0x83 in unit.meta]
        unsigned = "".join(
            unit.stranger if not unit.frame else "U" if unit.key == self.key else "T" for unit in self.units
        )
        if not carriers:
            return False, unsigned
        if self.header and self.header.camera != sha(b"veilcam camera id v1", camera)[:16]:
            return None, unsigned
        carrier = max(carriers, key=lambda unit: unit.index)
        body = carrier.meta[0x83]
        count = number(body[40:44])
        whole = len(body) == 44 + 64 * count + 64
        if not whole or (body[:8], count) != (self.key[16:], carrier.index + 1) or not holds(camera, body):
            return None, "".join("T" if unit is carrier else "U" for unit in self.units)
        self.signature = sha(body)
        letters = self._letters([body[at : at + 64] for at in range(44, 44 + 64 * count, 64)])
        first = next((unit for unit in self.own if unit.index == 0), None)
        if 0x04 in carrier.meta:
            self.ends = signed_by(
                camera, carrier.meta[0x04], b"veilcam end of stream v1" + self.key + self.signature
            )
            if not self.ends:
                at = next(place for place, unit in enumerate(self.units) if unit is carrier)
                letters = letters[:at] + "T" + letters[at + 1 :]
        if first and not (self.header and self._header_holds(self.header, body[8:40], first.sets)):
            letters = "T" + letters[1:]
        return True, letters

    def _header_holds(self, header: Header, digest: bytes, sets: set[bytes]) -> bool:
        ordered = sorted(sets, key=lambda nal: (nal[0] & 31, nal))
        pinned = sha(b"veilcam parameter sets v1", *map(len32, ordered))
        return (header.digest, header.parameters) == (digest, pinned)

    def _letters(self, signed: list[bytes]) -> str:
        missing = set(range(len(signed))) - {unit.index for unit in self.own}
        good = [
            unit for unit in self.own if unit.index < len(signed) and unit.digest == signed[unit.index][:32]
        ]
        indices = [unit.index for unit in good]
        letters, strangers, place = "", 0, 0
        for unit in self.units:
            if unit.key != self.key:
                letters += "T" if unit.stranger == "N" else unit.stranger
                strangers += 1
                continue
            gone = {index for index in missing if index < unit.index}
            missing -= gone
            letters, strangers = letters + "M" * (len(gone) - strangers), 0
            if unit not in good:
                letters += "T"
                continue
            before, place = indices[:place], place + 1
            if unit.index <= max(before, default=-1) or unit.index > min(indices[place:], default=unit.index):
                letters += "T"
            elif unit.chunk_digest == signed[unit.index][32:]:
                letters += "A"
            else:
                letters += "S" if len(unit.chunks) < unit.frame[36] else "T"
        return letters + "M" * (len(missing) - strangers)


def group(units: list[Unit]) -> list[Segment]:
    groups: list[list[Unit]] = []
    for unit in units:
        same = groups and (not unit.key or unit.key in {other.key for other in groups[-1]})
        again = unit.index == 0 and groups and any(other.index == 0 for other in groups[-1])
        is_key = any(nal[0] & 31 == 5 for nal in unit.nals)
        if not same or again or (is_key and not unit.key):
            groups.append([])
        groups[-1].append(unit)
    return [Segment(units) for units in groups]


def read_vector(path: Path) -> tuple[dict[str, str], list[tuple[int, bytes]], list[bytes]]:
    head, _, body = path.read_text().partition("\n\n")
    lines = [line.split(": ", 1) for line in head.splitlines()]
    fields = {key: value for key, value in lines if key != "identity"}
    secrets = [value.split() for key, value in lines if key == "identity"]
    stream, units = base64.b64decode(body), []
    for size in map(int, fields["units"].split()):
        unit, stream = take(stream, size)
        units.append(unit)
    return fields, [(int(suite), bytes.fromhex(private)) for suite, private in secrets], units


def run(path: Path) -> dict[str, str]:
    """What a vector's header should say, by this reader."""
    fields, identities, units = read_vector(path)
    verdicts, letters, packets, chain, ends = [], [], [], Chain(), False
    regions = [int(each) for each in fields["regions"].split()] if "regions" in fields else None
    try:
        for segment in group([Unit(unit) for unit in units]):
            verdict, line = segment.check(bytes.fromhex(fields["camera"]), chain)
            verdicts.append(verdict)
            letters.append(line)
            ends = segment.ends
            packets += segment.packets(identities, regions)
    except FormatError:
        return {"expect": "format error"}
    except NoMatchError:
        return {"expect": "no match"}
    worst = next(name for name in WORST if name in verdicts)
    return {
        **({"ends": "yes"} if ends else {}),
        "expect": {"authentic": "success", "gaps": "gap"}.get(worst, worst),
        "verdicts": " ".join(verdicts),
        "letters": "|".join(letters),
        "packets": str(len(packets)),
        "sha256": sha(*map(len32, packets)).hex(),
    }


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, run(Path(name)))
