from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from base.errors import MediaError
from codec.evidence import Letter, Verdict
from codec.nal import AvcConfig
from codec.packets import SealedPacket, SealedStream, StreamKind
from codec.records import SealedMode
from forensics.canonical import canonical_json
from forensics.verify_file import verify
from tests.forensics.damage import flip_slice
from tests.forensics.recordings import (
    FRAME_US,
    GOP,
    HEIGHT,
    RATE,
    START_US,
    WIDTH,
    Recording,
    Sealing,
    camera_key,
    ffmpeg,
    write_units,
)


def test_an_intact_recording_is_authentic(recording: Recording) -> None:
    report = verify(recording.path, recording.camera)
    assert (report.verdict, report.exit_code) == (Verdict.AUTHENTIC, 0)
    assert [
        (row.index, row.letters, row.frames_expected, row.frames_received) for row in report.segments
    ] == [(index, "A" * GOP, GOP, GOP) for index in range(6)]
    assert report.segments[1].start_us == START_US + GOP * FRAME_US
    assert report.totals.frames[Letter.AUTHENTIC] == 6 * GOP
    assert report.conclusion.causes == ()


def test_without_a_key_it_is_unverifiable_at_best(recording: Recording) -> None:
    report = verify(recording.path, None)
    assert (report.verdict, report.exit_code) == (Verdict.UNVERIFIABLE, 3)
    assert set("".join(row.letters for row in report.segments)) == {Letter.UNVERIFIABLE.value}


def test_another_cameras_key_is_named_as_the_wrong_key_and_not_taken_for_tampering(
    recording: Recording, tmp_path: Path
) -> None:
    report = verify(recording.path, camera_key(2).public)
    assert (report.verdict, report.exit_code) == (Verdict.UNVERIFIABLE, 3)
    (cause,) = report.conclusion.causes
    assert f"is of camera {recording.camera.camera_id.hex()}, and the key given is not" in cause
    assert {row.verdict for row in report.segments} == {Verdict.UNVERIFIABLE}
    assert "TAMPERED" not in report.text()
    hurt = write_units(tmp_path / "hurt.mp4", flip_slice(recording.units()))
    assert verify(hurt, camera_key(2).public).verdict is Verdict.TAMPERED  # it contradicts itself


def test_the_report_names_segment_and_picture(recording: Recording, tmp_path: Path) -> None:
    path = write_units(tmp_path / "damaged.mp4", flip_slice(recording.units()))
    report = verify(path, recording.camera)
    assert report.conclusion.causes[0] == "segment 2: frame 5: picture changed"
    assert report.segments[2].letters == "AAAAATAAAA"
    document = report.as_json()
    assert json.loads(json.dumps(document)) == document
    canonical_json(document)  # integers and text only: it can be signed as it is
    text = report.text()
    assert text.splitlines()[0] == "TAMPERED  damaged.mp4"
    assert "segment 2   TAMPERED     AAAAATAAAA" in text
    assert "59 authentic; 1 tampered" in text


def test_progress_rises_to_the_end(recording: Recording) -> None:
    shares: list[float] = []
    verify(recording.path, recording.camera, advance=shares.append)
    assert shares == sorted(shares)
    assert len(shares) == 6
    assert 0 < shares[0] <= shares[-1] <= 1


def test_a_file_that_changes_meanwhile_is_an_error(recording: Recording, tmp_path: Path) -> None:
    path = tmp_path / "growing.mp4"
    path.write_bytes(recording.path.read_bytes())

    def grow(_: float) -> None:
        with path.open("ab") as file:
            file.write(b"more")

    with pytest.raises(MediaError, match="changed while it was read"):
        verify(path, recording.camera, advance=grow)


@pytest.mark.parametrize("name", ["missing.mp4", "folder", "fifo"])
def test_only_regular_files_are_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(MediaError):
        verify(tmp_path / name, None)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_damage_gives_a_verdict_or_a_media_error(
    data: st.DataObject, recording: Recording, tmp_path: Path
) -> None:
    content = bytearray(recording.path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 300))] = data.draw(st.binary(max_size=300))
    path = tmp_path / "random.mp4"
    path.write_bytes(content)
    try:
        report = verify(path, recording.camera)
    except MediaError:
        return
    assert report.text()
    assert report.exit_code in (0, 3)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=400))
def test_random_bytes_are_a_media_error_or_an_unsigned_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "random.bin"
    path.write_bytes(content)
    with contextlib.suppress(MediaError):
        assert verify(path, None).verdict is not Verdict.AUTHENTIC


def test_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    """In processes of their own: eight times the file, less than 5 MB more at the peak."""
    small, large = (_peak_bytes(tmp_path, num_pictures) for num_pictures in (40, 320))
    assert (tmp_path / "320.ts").stat().st_size > 9_000_000
    assert large - small < 5_000_000


def _peak_bytes(folder: Path, num_pictures: int) -> int:
    stream = SealedStream(0, StreamKind.VIDEO, "ffv1", Fraction(1, RATE), WIDTH, HEIGHT, "yuv420p")
    sealing = Sealing([stream], SealedMode.FFV1)
    for number in range(num_pictures):
        packet = SealedPacket(0, True, number, number, 1, os.urandom(30_000))
        sealing.push([packet], starts=number % GOP == 0)
    path = write_units(folder / f"{num_pictures}.ts", sealing.finish())
    program = rf"""
import re
from pathlib import Path
from forensics.decode import decode
from forensics.ledger import Ledger
from tests.forensics.recordings import authority, camera_key
report = decode(Path({str(path)!r}), Path({str(path.with_suffix(".mkv"))!r}), [authority()[1]],
                camera=camera_key().public, ledger=Ledger(Path({str(folder / "ledger.jsonl")!r})))
assert report.exit_code == 0, report.text()
print(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return int(done.stdout) * 1024


def test_a_track_beside_the_cameras_one_is_tampering(recording: Recording, tmp_path: Path) -> None:
    """Players may show it instead: here it comes first, and only the camera's one is signed."""
    for kind, track in (("video", ("-c:v", "mpeg4")), ("audio", ("-c:a", "aac"))):
        other, path = tmp_path / f"{kind}.mp4", tmp_path / f"with_{kind}.mp4"
        lavfi = "testsrc2=size=64x48:duration=1" if kind == "video" else "sine=duration=1"
        ffmpeg("-f", "lavfi", "-i", lavfi, *track, other)
        ffmpeg("-i", recording.path, "-i", other, "-map", "1", "-map", "0", "-c", "copy", path)
        report = verify(path, recording.camera)
        assert (report.verdict, report.exit_code) == (Verdict.TAMPERED, 3)
        assert report.conclusion.causes == (f"the file has another track ({kind}), which nothing signs",)
        assert set("".join(row.letters for row in report.segments)) == {Letter.AUTHENTIC.value}


def test_parameter_sets_that_the_container_changes_in_mid_segment_are_tampering(
    recording: Recording, tmp_path: Path
) -> None:
    """A decoder obeys the new header at once and draws other pictures from the signed slices."""
    plain = tmp_path / "plain.flv"
    ffmpeg("-i", recording.path, "-c", "copy", plain)
    assert verify(plain, recording.camera).verdict is Verdict.AUTHENTIC
    changed = tmp_path / "changed.flv"
    changed.write_bytes(with_changed_flv_header(plain.read_bytes(), before_picture=3))
    report = verify(changed, recording.camera)
    assert report.verdict is Verdict.TAMPERED
    assert report.conclusion.causes == ("segment 0: frame 3: parameter sets changed",)


def with_changed_flv_header(flv: bytes, *, before_picture: int) -> bytes:
    """An FLV file (Adobe FLV 10.1, annex E) with another AVC sequence header before a picture."""
    out, position, pictures, header = bytearray(flv[:13]), 13, 0, b""
    while position < len(flv):
        end = position + 11 + int.from_bytes(flv[position + 1 : position + 4], "big") + 4
        tag, position = flv[position:end], end
        if tag[0] == 9 and tag[12] == 0:
            header = tag
        elif tag[0] == 9 and tag[12] == 1:
            if pictures == before_picture:
                config = AvcConfig.parse(header[16:-4])
                pps = bytearray(config.pps[0])
                pps[2] ^= 0x10  # within pic_init_qp
                body = header[11:16] + bytes(replace(config, pps=(bytes(pps),)))
                head = bytes([9]) + len(body).to_bytes(3, "big") + tag[4:11]
                out += head + body + (len(body) + 11).to_bytes(4, "big")
            pictures += 1
        out += tag
    return bytes(out)
