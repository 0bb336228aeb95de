"""Restoring recordings from their pixels, after a foreign encoder took everything else away."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import av
import pytest

from base.errors import FormatError, NoMatchingIdentity, UsageError
from camera.protect_file import protect_file
from camera.publisher import CodingOptions
from forensics.ledger import Ledger
from forensics.pixel_report import PixelOutcome
from forensics.pixels import RestoreOptions, read_headers, read_pictures, report_path, restore_pixels
from forensics.restored import NotEvidence, Sign, find_label, refuse_restored
from keys import EpochRing, Identity
from keys.source import IdentityKeys
from models import load_protector
from tests.forensics.recordings import authority, camera_key, ffmpeg

WIDTH, HEIGHT, RATE, SECONDS = 192, 128, 10, 5


@dataclass(frozen=True)
class Hidden:
    """A recording with the pixel path, and a copy that was coded again."""

    path: Path
    recoded: Path
    identity: Identity


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Hidden:
    folder = tmp_path_factory.mktemp("hidden")
    source = folder / "source.mp4"
    scene = f"mandelbrot=size={WIDTH}x{HEIGHT}:rate={RATE}"
    ffmpeg("-f", "lavfi", "-i", scene, "-t", str(SECONDS), "-pix_fmt", "yuv420p", str(source))
    recipient, identity = authority()
    key = camera_key()
    path = folder / "protected.mp4"
    protect_file(
        source,
        path,
        protector=load_protector(threads=1),
        camera_key=key,
        epochs=EpochRing(key.camera_id, [recipient]),
        coding=CodingOptions(sealed="h264", pixels="high", crf=23),
    )
    recoded = folder / "recoded.mkv"
    # Another codec and half the quality steps of the first: no SEI, no packet, no time base survives.
    ffmpeg("-i", str(path), "-c:v", "libx265", "-crf", "20", "-x265-params", "log-level=none", str(recoded))
    return Hidden(path, recoded, identity)


def kinds(ledger: Ledger) -> list[str]:
    return [json.loads(line)["kind"] for line in ledger.path.read_text().splitlines()]


def count_pictures(path: Path) -> int:
    with av.open(str(path)) as container:
        return sum(1 for _ in container.decode(video=0))


def test_headers_say_how_it_was_hidden(recording: Hidden) -> None:
    headers = read_headers(recording.path)
    assert len(headers) >= 2
    assert {each.pixels.setting for each in headers.values() if each.pixels} == {"high"}
    assert not read_headers(recording.recoded)


def test_a_recoded_copy_comes_back_labelled_with_the_headers_of_another(
    recording: Hidden, ledger: Ledger, tmp_path: Path
) -> None:
    out = tmp_path / "restored.mp4"
    report = restore_pixels(
        recording.recoded,
        out,
        IdentityKeys([recording.identity]),
        ledger=ledger,
        options=RestoreOptions(headers_from=recording.path),
    )
    assert report.exit_code == 0
    assert report.count(PixelOutcome.RESTORED) == SECONDS * RATE == count_pictures(out)
    assert set(find_label(out)) == set(Sign)
    with pytest.raises(NotEvidence):
        refuse_restored(out)
    document = json.loads(report_path(out).read_text())
    assert document["evidence"] is False
    assert [frame["path"] for frame in document["frames"]] == ["pixels"] * (SECONDS * RATE)
    segments = [frame["segment"] for frame in document["frames"]]
    assert segments == sorted(segments) and len(set(segments)) == len(read_headers(recording.path))
    start = read_headers(recording.path)[0].start_us
    assert abs(report.frames[0].time_us - start) < 1_000_000
    assert kinds(ledger)[-2:] == ["open", "end"]


def test_a_cut_copy_finds_its_segments_without_being_told_where_it_starts(
    recording: Hidden, ledger: Ledger, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.mp4"
    ffmpeg("-ss", "2.6", "-i", str(recording.path), "-c:v", "libx264", "-crf", "18", str(cut))
    report = restore_pixels(
        cut,
        tmp_path / "out.mp4",
        IdentityKeys([recording.identity]),
        ledger=ledger,
        options=RestoreOptions(headers_from=recording.path),
    )
    assert report.exit_code == 0
    assert report.frames[0].segment != 0


def test_segments_that_came_back_exactly_are_left_out(
    recording: Hidden, ledger: Ledger, tmp_path: Path
) -> None:
    report = restore_pixels(
        recording.path,
        tmp_path / "out.mp4",
        IdentityKeys([recording.identity]),
        ledger=ledger,
        options=RestoreOptions(delivered=frozenset({0})),
    )
    assert report.frames[0].outcome is PixelOutcome.SEALED
    assert report.frames[-1].outcome is PixelOutcome.RESTORED


def test_without_any_header_the_message_says_what_to_give(
    recording: Hidden, ledger: Ledger, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="--headers-from"):
        restore_pixels(
            recording.recoded, tmp_path / "out.mp4", IdentityKeys([recording.identity]), ledger=ledger
        )


def test_a_stranger_gets_nothing_and_the_ledger_knows(
    recording: Hidden, ledger: Ledger, tmp_path: Path
) -> None:
    from keys import Recipient  # noqa: PLC0415

    _, stranger = Recipient.generate("stranger")
    with pytest.raises(NoMatchingIdentity):
        restore_pixels(recording.path, tmp_path / "out.mp4", IdentityKeys([stranger]), ledger=ledger)
    assert not (tmp_path / "out.mp4").exists()
    assert kinds(ledger)[-1] == "refused"


def test_a_video_with_nothing_hidden_is_reported_unreadable(
    recording: Hidden, ledger: Ledger, tmp_path: Path
) -> None:
    other = tmp_path / "other.mp4"
    scene = f"testsrc2=size={WIDTH}x{HEIGHT}:rate={RATE}"
    ffmpeg("-f", "lavfi", "-i", scene, "-t", "1", "-pix_fmt", "yuv420p", str(other))
    report = restore_pixels(
        other,
        tmp_path / "out.mp4",
        IdentityKeys([recording.identity]),
        ledger=ledger,
        options=RestoreOptions(headers_from=recording.path),
    )
    assert report.exit_code == 3
    assert report.output is None
    assert report.count(PixelOutcome.UNREADABLE) == RATE


def test_footage_that_was_shown_twice_in_another_order_is_restored_as_it_is(
    recording: Hidden, ledger: Ledger, tmp_path: Path
) -> None:
    first, last, both = tmp_path / "first.mp4", tmp_path / "last.mp4", tmp_path / "both.mp4"
    coding = ("-c:v", "libx264", "-crf", "18")
    ffmpeg("-ss", "3", "-i", str(recording.path), *coding, str(last))
    ffmpeg("-t", "1", "-i", str(recording.path), *coding, str(first))
    listed = tmp_path / "list.txt"
    listed.write_text("".join(f"file '{path.name}'\n" for path in (last, first, last)))
    ffmpeg("-f", "concat", "-i", str(listed), *coding, str(both))
    report = restore_pixels(
        both,
        tmp_path / "out.mp4",
        IdentityKeys([recording.identity]),
        ledger=ledger,
        options=RestoreOptions(headers_from=recording.path),
    )
    assert report.exit_code == 0
    assert count_pictures(tmp_path / "out.mp4") == len(report.frames) == count_pictures(both)
    segments = [frame.segment or 0 for frame in report.frames]
    assert segments[0] > segments[len(segments) // 2] < segments[-1]


@pytest.mark.parametrize("size", [(2**32 - 1, 2**32 - 1), (0, 128), (191, 128), (16_384, 64)])
def test_a_header_of_a_size_that_cannot_be_is_refused_before_memory_is_taken(
    recording: Hidden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    forged = {0: replace(read_headers(recording.path)[0], width=size[0], height=size[1])}
    monkeypatch.setattr("forensics.pixels.read_headers", lambda *_: forged)
    with pytest.raises(FormatError, match="expected even sides"):
        restore_pixels(recording.path, tmp_path / "out.mp4", IdentityKeys([recording.identity]))
    assert not (tmp_path / "out.mp4").exists()


def test_times_that_repeat_or_run_back_rise_again(recording: Hidden, tmp_path: Path) -> None:
    odd = tmp_path / "odd.mkv"
    ffmpeg(
        *("-i", str(recording.path), "-t", "1", "-c:v", "ffv1"),
        *("-bsf:v", "setts=ts=if(eq(mod(N\\,4)\\,3)\\,0\\,PTS)", str(odd)),
    )
    times = [picture.time_us for picture, _ in read_pictures(odd, (WIDTH, HEIGHT))]
    assert len(times) >= 8
    assert times == sorted(set(times))
