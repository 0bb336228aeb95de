"""The tamper matrix: every manipulation, its verdict, its exit status, and what still opens.

docs/threat-model.md, section 8, says the same in words.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from base.errors import KeyUnavailable, MediaError
from codec.container import Fmp4Writer
from codec.evidence import Verdict
from codec.records import SealedMode
from forensics.decode import DecodeOptions, decode
from forensics.decode_report import Outcome
from forensics.ledger import Ledger
from forensics.verify_file import verify
from keys import EpochRing
from keys.schedule import chunk_nonce
from keys.wrap import unwrap_epoch_key
from tests.forensics import manipulations as m
from tests.forensics.manipulations import LATER, OTHER, STREAM, Edit, edit_meta, segments
from tests.support.streams import Stream, build_stream, camera_key, picture, recipient
from veilcam.exit_codes import exit_code_of

A, G, T, U, N = (
    Verdict.AUTHENTIC,
    Verdict.GAPS,
    Verdict.TAMPERED,
    Verdict.UNVERIFIABLE,
    Verdict.UNSIGNED,
)

# name: manipulation, verdict, segments that still open whole (of this recording)
MATRIX: dict[str, tuple[Edit, Verdict, str]] = {
    # loss
    "a picture dropped": (lambda s: s.drop(5), G, "023"),
    "a key picture dropped": (lambda s: s.drop(4), G, "023"),
    "a last picture dropped, and its signature": (lambda s: s.drop(7), U, "023"),
    "a segment dropped": (lambda s: segments(s, 0, 2, 3), G, "023"),
    "every second segment dropped": (lambda s: segments(s, 0, 2), G, "02"),
    "the end cut off inside a segment": (lambda s: s.cut(0, 14), G, "012"),
    # order
    "two pictures swapped": (lambda s: s.swap(5, 6), T, "0123"),
    "two segments swapped": (lambda s: segments(s, 0, 2, 1, 3), T, "0123"),
    "all segments backwards": (lambda s: segments(s, 3, 2, 1, 0), T, "0123"),
    "a picture moved into another segment": (lambda s: s.drop(5).insert(9, s.units[5]), T, "023"),
    "the first segment moved to the end": (lambda s: segments(s, 1, 2, 3, 0), T, "0123"),
    # replay
    "a picture repeated": (lambda s: s.repeat(5, 6, 6), T, "0123"),
    "a segment replayed at once": (lambda s: segments(s, 0, 1, 1, 2, 3), T, "0123"),
    "a segment replayed later": (lambda s: segments(s, 0, 1, 2, 0, 3), T, "0123"),
    "the whole recording twice": (lambda s: s.then(s), T, "0123"),
    # splice
    "a segment of another camera in its place": (lambda s: _spliced(s, OTHER), T, "023"),
    "a segment of another epoch in its place": (lambda s: _spliced(s, LATER), T, "023"),
    "a segment of another camera put in": (lambda s: s.insert(8, *OTHER.units[4:8]), T, "0123"),
    "a picture of another camera put in": (lambda s: s.insert(6, OTHER.units[6]), T, "0123"),
    "a picture of another epoch put in": (lambda s: s.insert(6, LATER.units[6]), T, "0123"),
    "another recording of the camera put in the middle": (lambda s: s.insert(8, *LATER.units), T, "0123"),
    "an earlier recording put behind": (m.earlier_restart, T, "0123"),
    "unsigned pictures put in": (lambda s: s.insert(8, picture("K", 50), picture("P", 51)), T, "0123"),
    "unsigned pictures put in front": (lambda s: s.insert(0, picture("K", 50)), T, "0123"),
    "unsigned pictures put behind": (lambda s: s.insert(16, picture("K", 50)), T, "0123"),
    "an unsigned picture inside a segment": (lambda s: s.insert(6, picture("P", 50)), T, "0123"),
    # content
    "a bit in a slice": (lambda s: s.flip_bit(5), T, "023"),
    "another picture under the right records": (m.forged_picture, T, "023"),
    "two pictures exchanged under their records": (m.swap_pictures, T, "023"),
    "a slice added to a picture": (m.more_slices, T, "023"),
    "the parameter sets changed": (m.other_sps, T, "0123"),
    # records
    "the clock of a picture turned back": (m.CLOCK_BACK, T, "023"),
    "the records of two pictures swapped": (m.swap_metas, T, "023"),
    "a picture renumbered": (m.set_index(6, frame_index=9), T, "023"),
    "a picture given to another segment": (m.set_index(6, segment_index=3), T, "023"),
    "a second set of records beside the first": (m.second_meta, T, "023"),
    "the records taken from one picture": (lambda s: s.without_veilcam(5), T, "023"),
    "the records of a key picture damaged": (m.damaged_first_meta, T, "023"),
    "records of a newer version": (m.newer_meta, U, "023"),
    # header
    "the header's start time turned back": (m.edit_header(4, start_us=0), T, "023"),
    "the header said to be of version 0": (m.edit_header_bytes(4, 0, 0), T, "023"),
    "the sealed mode said to be none": (m.edit_header(4, sealed_mode=SealedMode.NONE), T, "023"),
    "the sealed mode said to be another": (m.edit_header(4, sealed_mode=SealedMode.FFV1), T, "023"),
    "the camera's name changed": (m.edit_header(4, camera_id=OTHER.camera.camera_id), T, "023"),
    "the protector's name changed": (m.edit_header(4, model_id=bytes(8)), T, "023"),
    "a recipient added": (m.own_recipient, T, "023"),
    "the wrapped keys replaced": (m.other_wraps, T, "023"),
    "the headers of two segments swapped": (m.swap_headers, T, "03"),
    "a header removed": (edit_meta(4, header=None), T, "023"),
    "the link to the segment before changed": (m.edit_header(4, previous_digest=bytes(32)), T, "023"),
    # signature
    "the signatures of two segments swapped": (m.swap_signatures, T, "03"),
    "a signature removed": (edit_meta(7, signature=None), U, "0123"),
    "all signatures removed": (m.without_signatures, U, "0123"),
    "a segment signed by somebody else": (lambda s: m.resign(s, 4, claim=True), T, "023"),
    "a segment signed by somebody else in his own name": (lambda s: m.resign(s, 4, claim=False), T, "023"),
    "all of it signed by somebody else": (m.resign_all, T, ""),
    # sealed layer
    "a bit in a chunk": (lambda s: s.flip_bit(5, nal=1, byte=60), T, "023"),
    "the chunks of two pictures exchanged": (m.swap_chunks(5, 6), T, "023"),
    "the chunks of two segments exchanged": (m.swap_chunks(5, 9), T, "03"),
    "a chunk of another camera": (m.chunk_from(OTHER), T, "023"),
    "a chunk of another epoch": (m.chunk_from(LATER), T, "023"),
    "a chunk twice": (m.double_chunk, T, "023"),
    "a broken chunk beside a good one": (m.broken_beside_good, T, "023"),
    "the sealed layer taken from a segment": (m.strip_chunks_of(4, 5, 6, 7), A, "023"),
    "the sealed layer taken from a picture": (m.strip_chunks_of(5), A, "023"),
    "the first chunk of a segment lost": (m.strip_chunks_of(4), A, "023"),
    # all of ours
    "all SEI stripped": (lambda s: s.without_veilcam(), N, ""),
    "another camera's recording": (lambda _: OTHER, U, ""),
}


def _spliced(stream: Stream, other: Stream) -> Stream:
    return m.with_units(stream, [*stream.units[:4], *other.units[4:8], *stream.units[8:]])


def write(path: Path, stream: Stream) -> Path:
    """As a recorder writes it; MPEG-TS would do as well."""
    with Fmp4Writer(path, 64, 48) as writer:
        for number, unit in enumerate(stream.units):
            writer.write(replace(unit, pts_us=number * 40_000))
    return path


def test_the_matrix_has_at_least_forty_manipulations() -> None:
    assert len(MATRIX) >= 40


@pytest.mark.parametrize("name", MATRIX)
def test_a_manipulation_gets_its_verdict_and_leaves_what_is_intact_open(
    name: str, tmp_path: Path, ledger: Ledger
) -> None:
    edit, verdict, whole = MATRIX[name]
    path = _written(tmp_path / "hurt", edit(STREAM))
    found = verify(path, STREAM.camera)
    assert found.verdict is verdict, found.text()
    assert found.exit_code == (0 if verdict is A else 3)
    try:
        report = decode(path, tmp_path / "out.nut", [STREAM.identity], camera=STREAM.camera, ledger=ledger)
    except KeyUnavailable as error:
        assert exit_code_of(error) == 4
        assert whole == ""
        return
    assert report.verdict is verdict
    assert report.exit_code == 3, report.text()
    stream_id = m.meta_of(STREAM.units[0]).frame.stream_id.hex()
    ours = {row.ordinal for row in report.verification.segments if row.stream_id == stream_id}
    opened = sorted(
        row.name[-1] for row in report.opened if row.outcome is Outcome.DELIVERED and row.ordinal in ours
    )
    assert "".join(opened) == whole, report.text()
    foreign = [row for row in report.opened if row.ordinal not in ours and row.num_packets]
    assert not foreign or name in ALSO_OURS, "something that is not of this recording came out"


ALSO_OURS = {"an earlier recording put behind"}  # signed by the same camera, and named as what it is


def _written(path: Path, stream: Stream) -> Path:
    """MP4 where it can hold the stream: it refuses parameter sets that change; MPEG-TS holds anything."""
    try:
        return write(path.with_suffix(".mp4"), stream)
    except MediaError:
        raw = path.with_suffix(".h264")
        raw.write_bytes(b"".join(unit.annexb() for unit in stream.units))
        return raw


def test_nothing_done_is_authentic_and_opens_whole(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "whole.mp4", m.foreign_sei(STREAM))
    report = decode(path, tmp_path / "out.nut", [STREAM.identity], camera=STREAM.camera, ledger=ledger)
    assert (report.verdict, report.exit_code) == (A, 0), report.text()


def test_a_wrong_identity_is_status_4_whatever_was_done(tmp_path: Path, ledger: Ledger) -> None:
    for number, name in enumerate(("a bit in a slice", "a segment dropped", "a recipient added")):
        path = _written(tmp_path / f"hurt{number}", MATRIX[name][0](STREAM))
        with pytest.raises(KeyUnavailable) as caught:
            decode(path, tmp_path / "out.nut", [recipient(5)[1]], camera=STREAM.camera, ledger=ledger)
        assert exit_code_of(caught.value) == 4


def test_a_small_file_truncated_at_every_byte_is_never_tampering_and_never_whole(
    tmp_path: Path,
) -> None:
    small = build_stream("KP|KP", num_bytes=8, epochs=m.RING)
    whole = write(tmp_path / "whole.mp4", small).read_bytes()
    path = tmp_path / "cut.mp4"
    seen: dict[str, int] = {}
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        try:
            verdict = verify(path, small.camera).verdict.value
        except MediaError as error:
            verdict = "unreadable"
            assert exit_code_of(error) == 1
        seen[verdict] = seen.get(verdict, 0) + 1
    # before the first whole segment nothing is proven (unverifiable), or no picture is there (unsigned)
    assert set(seen) <= {"gaps", "authentic", "unreadable", "unverifiable", "unsigned"}, seen
    assert seen["gaps"] > 500
    assert seen["authentic"] < 10  # cut exactly behind a segment


def test_a_raw_stream_truncated_at_every_byte_is_a_loss(tmp_path: Path) -> None:
    small = build_stream("KP|KP", num_bytes=8, epochs=m.RING)
    whole = b"".join(unit.annexb() for unit in small.units)
    path = tmp_path / "cut.h264"
    for length in range(600, len(whole), 3):
        path.write_bytes(whole[:length])
        try:
            found = verify(path, small.camera)
        except MediaError:
            continue
        assert found.verdict in (G, A, U, N), f"{length}: {found.text()}"


def test_evidence_takes_only_what_the_camera_signed(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "hurt.mp4", MATRIX["a signature removed"][0](STREAM))
    options = DecodeOptions(signed_only=True)
    report = decode(
        path, tmp_path / "out.nut", [STREAM.identity], camera=STREAM.camera, ledger=ledger, options=options
    )
    assert [row.outcome for row in report.opened] == [Outcome.DELIVERED, Outcome.WITHHELD] + 2 * [
        Outcome.DELIVERED
    ]
    assert report.opened[1].problems == ("not signed by the camera, and so no evidence",)


def test_no_key_and_nonce_come_twice_across_a_rotation() -> None:
    """Chunk numbers begin at 0 in every segment; the keys differ, within an epoch and beyond it."""
    key = camera_key()
    ring = EpochRing(key.camera_id, [recipient()[0]])
    epochs = [ring.current().key, ring.rotate().key]
    outputs = set()
    count = 0
    for epoch, epoch_id in zip(epochs, (b"\x01" * 16, b"\x02" * 16), strict=True):
        for stream_id in (b"\x03" * 16, b"\x04" * 16):
            for index in range(8):
                cipher = epoch.segment(key.camera_id, stream_id, epoch_id, index).sealed_cipher()
                for chunk in range(3):
                    outputs.add(cipher.seal(chunk_nonce(chunk), bytes(32), b""))
                    count += 1
    assert len(outputs) == count


def test_of_two_wraps_for_one_recipient_the_one_that_opens_counts() -> None:
    """A camera that wraps twice, once wrongly, is odd and legal: the header is signed."""
    header = m.header_of(STREAM.units[0])
    good = header.stanzas[0]
    bad = replace(good, blob=good.blob[:-1] + bytes([good.blob[-1] ^ 1]))
    keys = [
        unwrap_epoch_key(stanzas, (STREAM.identity,), header.camera_id, header.epoch_id)
        for stanzas in ((bad, good), (good, bad), (good,))
    ]
    ids = (header.camera_id, header.stream_id, header.epoch_id, 0)
    sealed = {each.segment(*ids).sealed_cipher().seal(chunk_nonce(0), b"x", b"") for each in keys}
    assert len(sealed) == 1
