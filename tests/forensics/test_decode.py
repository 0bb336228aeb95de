from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame

from base.errors import AuthenticationFailed, MediaError, NoMatchingIdentity, UsageError, VeilError
from codec.records import SealedMode
from forensics.audit import verify_ledger
from forensics.decode import DecodeOptions, decode, report_path
from forensics.decode_report import DecodeReport, Outcome
from forensics.ledger import Ledger
from forensics.opening import Purpose
from forensics.plan import Proof
from forensics.selection import parse_range
from keys import EpochRing
from tests.forensics.damage import joined
from tests.forensics.recordings import (
    FRAME_US,
    GOP,
    HEIGHT,
    START_US,
    WIDTH,
    Recording,
    Sealing,
    authority,
    camera_key,
    ffmpeg,
    make_source,
    payloads,
    pixels,
    seal_copy,
    seal_pictures,
    write_units,
)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _decode(
    recording: Recording, out: Path, ledger: Ledger, *, start: str | None = None, end: str | None = None
) -> DecodeReport:
    options = DecodeOptions(chosen=parse_range(start, end))
    return decode(
        recording.path, out, [recording.identity], camera=recording.camera, ledger=ledger, options=options
    )


def _elementary(path: Path, stream: str, kind: str, folder: Path) -> bytes:
    """What ffmpeg itself extracts."""
    target = folder / f"{path.stem}.{kind}"
    ffmpeg("-i", path, "-map", f"0:{stream}:0", "-c", "copy", "-f", kind, target)
    return target.read_bytes()


@pytest.mark.parametrize(("codec", "kind"), [("libx264", "h264"), ("libx265", "hevc")])
@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_copy_gives_back_the_original_byte_for_byte(
    codec: str, kind: str, suffix: str, tmp_path: Path, ledger: Ledger
) -> None:
    source = make_source(tmp_path / "source.mp4", codec=codec, seconds=3)
    path = write_units(tmp_path / "protected.mp4", seal_copy(source))
    out = tmp_path / f"out{suffix}"
    report = decode(path, out, [authority()[1]], camera=camera_key().public, ledger=ledger)

    assert report.exit_code == 0
    assert payloads(out) == payloads(source)
    for stream, name in (("v", kind), ("a", "adts")):
        assert _elementary(out, stream, name, tmp_path) == _elementary(source, stream, name, tmp_path)
    for track in report.tracks:
        joined_packets = b"".join(payloads(source)[track.kind])
        assert track.sha256 == hashlib.sha256(joined_packets).hexdigest()


def test_ffv1_gives_back_every_pixel(tmp_path: Path, ledger: Ledger) -> None:
    random = np.random.default_rng(5)
    noise = [random.integers(0, 256, (HEIGHT * 3 // 2, WIDTH), np.uint8) for _ in range(15)]
    pictures = [VideoFrame.from_ndarray(array, "yuv420p") for array in noise]
    path = write_units(tmp_path / "protected.mkv", seal_pictures(pictures))
    out = tmp_path / "out.mkv"
    report = decode(path, out, [authority()[1]], camera=camera_key().public, ledger=ledger)
    assert (report.exit_code, report.sealed_modes) == (0, ("ffv1",))
    with av.open(str(out)) as container:
        decoded = [frame.to_ndarray() for frame in container.decode(video=0)]
    assert len(decoded) == 15
    assert all(np.array_equal(one, other) for one, other in zip(decoded, noise, strict=True))


def test_a_container_that_cannot_hold_the_original_is_a_usage_error(tmp_path: Path, ledger: Ledger) -> None:
    picture = VideoFrame.from_ndarray(np.zeros((HEIGHT * 3 // 2, WIDTH), np.uint8), "yuv420p")
    path = write_units(tmp_path / "protected.mkv", seal_pictures([picture] * 3))
    with pytest.raises(UsageError, match=r"\.mkv"):
        decode(path, tmp_path / "out.mov", [authority()[1]], ledger=ledger)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["protected.mkv", "state"]
    assert verify_ledger(ledger.path).unfinished == ()


def test_the_same_input_gives_the_same_output(recording: Recording, tmp_path: Path, ledger: Ledger) -> None:
    reports = [_decode(recording, tmp_path / f"out{n}.mp4", ledger) for n in range(2)]
    outputs = [report.output for report in reports]
    assert outputs[0] is not None
    assert outputs[1] is not None
    assert outputs[0].sha256 == outputs[1].sha256 == _sha256(tmp_path / "out1.mp4")


def test_the_report_file_says_what_was_done(recording: Recording, tmp_path: Path, ledger: Ledger) -> None:
    out = tmp_path / "out.mp4"
    options = DecodeOptions(purpose=Purpose(reason="theft at gate 3", case="2026-117"))
    report = decode(
        recording.path, out, [recording.identity], camera=recording.camera, ledger=ledger, options=options
    )
    written = json.loads(report_path(out).read_text())
    assert written == report.as_json()
    for described, path in ((written["input"], recording.path), (written["output"], out)):
        assert described == {"name": path.name, "bytes": path.stat().st_size, "sha256": _sha256(path)}
    assert written["verdict"] == "authentic"
    assert written["protector_models"] == ["5a" * 8]
    assert written["recipients_used"] == [recording.identity.recipient.recipient_id.hex()]
    assert (written["reason"], written["case"]) == ("theft at gate 3", "2026-117")
    assert [row["letters"] for row in written["segments"]] == ["A" * GOP] * 6
    assert "AUTHENTIC" in report.text()
    assert out.stat().st_mode & 0o777 == report_path(out).stat().st_mode & 0o777 == 0o600


def test_without_the_cameras_key_the_original_comes_out_unproven(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    report = decode(recording.path, tmp_path / "out.mp4", [recording.identity], ledger=ledger)
    assert (report.verdict.value, report.exit_code) == ("unverifiable", 0)
    assert {row.proof for row in report.opened} == {Proof.NONE}


def test_a_wrong_key_opens_nothing_and_the_attempt_is_remembered(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    out = tmp_path / "out.mp4"
    with pytest.raises(NoMatchingIdentity):
        decode(recording.path, out, [authority(2)[1]], camera=recording.camera, ledger=ledger)
    assert [each.name for each in tmp_path.iterdir()] == ["state"]
    (entry,) = map(json.loads, ledger.path.read_text().splitlines())
    assert entry["kind"] == "refused"
    assert entry["body"]["input"]["sha256"] == _sha256(recording.path)
    assert entry["body"]["identities"] == [authority(2)[1].recipient.recipient_id.hex()]


def test_the_right_key_among_several_is_found(recording: Recording, tmp_path: Path, ledger: Ledger) -> None:
    identities = [authority(2)[1], recording.identity]
    report = decode(recording.path, tmp_path / "out.mp4", identities, camera=recording.camera, ledger=ledger)
    assert report.exit_code == 0


def test_the_ledger_tells_the_opening_before_and_after(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    report = _decode(recording, tmp_path / "out.mp4", ledger, start="1", end="3")
    start, end = map(json.loads, ledger.path.read_text().splitlines())
    assert (start["kind"], start["hash"], start["seq"]) == ("open", report.ledger_hash, report.ledger_seq)
    assert start["body"]["segments"] == "1-2"
    assert start["body"]["who"]["uid"] == os.getuid()
    assert start["body"]["cameras"] == [recording.camera.camera_id.hex()]
    assert end["body"]["opening"] == start["seq"]
    assert end["body"]["output"]["sha256"] == _sha256(tmp_path / "out.mp4")
    assert end["body"]["report_sha256"] == _sha256(tmp_path / "out.mp4.report.json")
    assert verify_ledger(ledger.path).is_intact


def test_an_opening_that_cannot_be_written_down_does_not_happen(recording: Recording, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    with pytest.raises(VeilError, match="nothing is opened"):
        _decode(recording, tmp_path / "out.mp4", Ledger(blocked / "ledger.jsonl"))
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(b"{}\n")
    with pytest.raises(AuthenticationFailed):
        _decode(recording, tmp_path / "out.mp4", Ledger(broken))
    with pytest.raises(UsageError):
        _decode(recording, tmp_path / "out.mp4", Ledger(Path("/dev/null")))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["broken.jsonl", "file"]


@pytest.mark.parametrize(
    ("asked", "segments"),
    [
        ((None, "1"), [0]),
        (("1", "2"), [1]),
        (("0.95", "1.05"), [0, 1]),
        (("00:00:04", None), [4, 5]),
        (("2023-11-14T22:13:22Z", "2023-11-14T23:13:23+01:00"), [2]),
    ],
)
def test_a_range_gives_the_segments_that_it_touches(
    asked: tuple[str | None, str | None],
    segments: list[int],
    recording: Recording,
    tmp_path: Path,
    ledger: Ledger,
) -> None:
    out = tmp_path / "out.mp4"
    report = _decode(recording, out, ledger, start=asked[0], end=asked[1])
    assert report.exit_code == 0
    assert [row.ordinal for row in report.opened] == segments
    assert recording.source is not None
    expected = pixels(recording.source)[segments[0] * GOP : (segments[-1] + 1) * GOP]
    assert pixels(out) == expected
    first, last = (
        START_US + segments[0] * GOP * FRAME_US,
        START_US + ((segments[-1] + 1) * GOP - 1) * FRAME_US,
    )
    assert report.delivered_us == (first, last)
    assert any("segment borders" in note for note in report.notes)


def test_a_range_outside_of_the_recording_is_a_usage_error(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    with pytest.raises(UsageError, match="runs from 2023-11-14T22:13:20"):
        _decode(recording, tmp_path / "out.mp4", ledger, start="60")
    assert not ledger.path.exists()


def test_a_range_starts_early_where_the_original_has_no_key_frame(tmp_path: Path, ledger: Ledger) -> None:
    source = make_source(tmp_path / "source.mp4", seconds=4, audio=False, gop=4 * GOP, bframes=0)
    path = write_units(tmp_path / "protected.mp4", seal_copy(source, every=GOP))
    recording = Recording(path, source, camera_key().public, authority()[1])
    report = _decode(recording, tmp_path / "out.mp4", ledger, start="2", end="3")
    assert [row.ordinal for row in report.opened] == [0, 1, 2]
    assert any("starts 2 segments early" in note for note in report.notes)
    assert pixels(tmp_path / "out.mp4") == pixels(source)[: 3 * GOP]


def test_after_a_loss_pictures_wait_for_a_key_frame(tmp_path: Path, ledger: Ledger) -> None:
    source = make_source(tmp_path / "source.mp4", seconds=6, audio=False, gop=3 * GOP, bframes=0)
    units = seal_copy(source, every=GOP)
    path = write_units(tmp_path / "protected.mp4", joined(units, [0, 2, 3, 4, 5]))
    report = decode(path, tmp_path / "out.mp4", [authority()[1]], camera=camera_key().public, ledger=ledger)
    rows = {row.name: row for row in report.opened}
    assert rows["segment 2"].outcome is Outcome.NOT_OPENED
    assert rows["segment 2"].num_held_back == GOP
    original = pixels(source)
    assert pixels(tmp_path / "out.mp4") == original[:GOP] + original[3 * GOP :]


@pytest.mark.parametrize("name", ["out.xyz", "missing/out.mp4", "protected.mp4", "there.mp4"])
def test_bad_output_names_are_refused_before_anything_happens(
    name: str, recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    path = tmp_path / "protected.mp4"
    path.write_bytes(recording.path.read_bytes())
    (tmp_path / "there.mp4").write_bytes(b"mine")
    with pytest.raises(UsageError):
        decode(path, tmp_path / name, [recording.identity], ledger=ledger)
    assert (tmp_path / "there.mp4").read_bytes() == b"mine"
    assert not ledger.path.exists()


def test_an_output_is_replaced_only_on_request(recording: Recording, tmp_path: Path, ledger: Ledger) -> None:
    out = tmp_path / "out.mp4"
    out.write_bytes(b"old")
    options = DecodeOptions(overwrite=True)
    decode(recording.path, out, [recording.identity], ledger=ledger, options=options)
    assert len(out.read_bytes()) > 10_000


def test_no_file_appears_anywhere_but_the_output_and_its_report(recording: Recording, tmp_path: Path) -> None:
    """strace would be the judge; here every path that the process opens for writing is audited."""
    program = f"""
import os, sys
from pathlib import Path
opened = set()
def hook(event, arguments):
    writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    if writes and isinstance(arguments[0], (str, bytes)):
        opened.add(os.fsdecode(arguments[0]))
sys.addaudithook(hook)
from forensics.decode import decode
from forensics.ledger import Ledger
from tests.forensics.recordings import authority
os.chdir("/")
decode(Path({str(recording.path)!r}), Path({str(tmp_path / "out.mp4")!r}), [authority()[1]],
       ledger=Ledger(Path({str(tmp_path / "ledger.jsonl")!r})))
print("\\n".join(opened))
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        timeout=60,
    )
    assert all(path.startswith(str(tmp_path)) for path in done.stdout.split())
    assert list((tmp_path / "tmp").iterdir()) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "ledger.jsonl",
        "ledger.jsonl.key",
        "out.mp4",
        "out.mp4.report.json",
        "tmp",
    ]


def test_an_interrupted_decode_leaves_no_half_file(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    def interrupt(share: float) -> None:
        if share > 0.7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decode(recording.path, tmp_path / "out.mp4", [recording.identity], ledger=ledger, advance=interrupt)
    assert [each.name for each in tmp_path.iterdir()] == ["state"]
    last = json.loads(ledger.path.read_text().splitlines()[-1])
    assert (last["kind"], last["body"]["result"], last["body"]["error"]) == (
        "end",
        "failed",
        "KeyboardInterrupt",
    )


def test_what_a_killed_decode_left_is_removed_by_the_next_one(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    program = f"""
import time
from pathlib import Path
from forensics.decode import decode
from forensics.ledger import Ledger
from tests.forensics.recordings import authority
decode(Path({str(recording.path)!r}), Path({str(tmp_path / "out.mp4")!r}), [authority()[1]],
       ledger=Ledger(Path({str(ledger.path)!r})), advance=lambda share: time.sleep(60 if share > 0.7 else 0))
"""
    child = subprocess.Popen([sys.executable, "-c", program])
    try:
        deadline = time.monotonic() + 30
        while not list(tmp_path.glob(".out.mp4.*.part")) and time.monotonic() < deadline:
            time.sleep(0.02)
        (left,) = tmp_path.glob(".out.mp4.*.part")
        assert left.stat().st_mode & 0o777 == 0o700
        _decode(recording, tmp_path / "out.mp4", ledger)
        assert left.exists(), "a folder in use was removed"
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(10)
    (tmp_path / "out.mp4").unlink()
    report_path(tmp_path / "out.mp4").unlink()
    _decode(recording, tmp_path / "out.mp4", ledger)
    assert not left.exists()
    assert verify_ledger(ledger.path).unfinished == (0,)


@pytest.mark.parametrize("content", [b"", b"no video at all", bytes(5000)])
def test_what_is_no_video_is_a_media_error(content: bytes, tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "in.mp4"
    path.write_bytes(content)
    with pytest.raises(MediaError):
        decode(path, tmp_path / "out.mp4", [authority()[1]], ledger=ledger)
    with pytest.raises(MediaError):
        decode(tmp_path / "missing.mp4", tmp_path / "out.mp4", [authority()[1]], ledger=ledger)


def test_a_recording_without_a_sealed_layer_says_so(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    sealing = Sealing((), SealedMode.NONE)
    for number in range(GOP):
        sealing.push((), starts=number == 0)
    path = write_units(tmp_path / "unsealed.mp4", sealing.finish())
    report = decode(path, tmp_path / "out.mp4", [authority()[1]], camera=camera_key().public, ledger=ledger)
    assert (report.verdict.value, report.exit_code, report.output) == ("authentic", 3, None)
    assert [row.problems for row in report.opened] == [("it was made without a sealed layer",)]


def test_segments_sealed_to_others_are_named_and_the_rest_comes_out(tmp_path: Path, ledger: Ledger) -> None:
    """The recipients changed while the camera ran: a new epoch, which this identity does not open."""
    source = make_source(tmp_path / "source.mp4", audio=False)
    key = camera_key()
    ring = EpochRing(key.camera_id, [authority()[0]])
    units = seal_copy(source, epochs=ring, before_segment={3: lambda: ring.set_recipients([authority(2)[0]])})
    path = write_units(tmp_path / "protected.mp4", units)
    report = decode(path, tmp_path / "out.mp4", [authority()[1]], camera=key.public, ledger=ledger)
    assert (report.verdict.value, report.exit_code) == ("authentic", 3)
    outcomes = [row.outcome for row in report.opened]
    assert outcomes == [Outcome.DELIVERED] * 3 + [Outcome.NOT_OPENED] * 3
    assert "none of the identities" in report.opened[3].problems[0]
    assert pixels(tmp_path / "out.mp4") == pixels(source)[: 3 * GOP]

    both = decode(
        path, tmp_path / "both.mp4", [authority()[1], authority(2)[1]], camera=key.public, ledger=ledger
    )
    assert both.exit_code == 0
    assert len(both.recipient_ids) == 2


def test_where_the_original_changes_its_format_the_rest_is_named(tmp_path: Path, ledger: Ledger) -> None:
    """A camera that was restarted with another source: its packets do not fit the output's track."""
    first = make_source(tmp_path / "first.mp4", seconds=2, audio=False)
    second = make_source(tmp_path / "second.mp4", seconds=2, audio=False, codec="libx265")
    units = seal_copy(first) + seal_copy(second, start_us=START_US + 10**7)
    path = write_units(tmp_path / "protected.mp4", units)
    recording = Recording(path, first, camera_key().public, authority()[1])
    report = _decode(recording, tmp_path / "out.mp4", ledger)
    assert (report.verdict.value, report.exit_code) == ("authentic", 3)
    assert [row.outcome for row in report.opened] == [Outcome.DELIVERED] * 2 + [Outcome.NOT_OPENED] * 2
    assert "format changes here" in report.opened[2].problems[0]
    rest = _decode(recording, tmp_path / "rest.mp4", ledger, start="10")
    assert rest.exit_code == 0
    assert payloads(tmp_path / "rest.mp4") == payloads(second)


def test_names_that_are_no_text_are_reported_with_question_marks(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/gate\xff\x1b[31m.mp4"))
    path.write_bytes(recording.path.read_bytes())
    report = decode(path, tmp_path / "out.mp4", [recording.identity], camera=recording.camera, ledger=ledger)
    assert report.verification.input.name == "gate??[31m.mp4"
    assert "gate??[31m.mp4" in ledger.path.read_text()
    assert "\x1b" not in report.text()


def test_an_output_that_appears_meanwhile_is_left_as_it_is(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    """Two decodes to one name at once: the second one does not mix its video with the first one's report."""
    out = tmp_path / "out.mkv"

    def appear(share: float) -> None:
        if share > 0.5 and not out.exists():
            out.write_bytes(b"somebody else's")

    with pytest.raises(UsageError, match="appeared meanwhile"):
        decode(recording.path, out, [authority()[1]], ledger=ledger, advance=appear)
    assert out.read_bytes() == b"somebody else's"
    assert list(tmp_path.glob("out*")) == [out]
    assert not list(tmp_path.glob(".out*"))
