"""The damage table: for every way to hurt a recording the verdict, the exit code, and what still opens."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from codec.evidence import Verdict
from forensics.decode import decode
from forensics.decode_report import DecodeReport, Outcome
from forensics.ledger import Ledger
from forensics.verify_file import verify
from tests.forensics import damage
from tests.forensics.damage import Damage, Units, joined, segment
from tests.forensics.recordings import (
    FRAME_US,
    GOP,
    START_US,
    Recording,
    ffmpeg,
    payloads,
    pixels,
    seal_copy,
    write_units,
)

ALL = [0, 1, 2, 3, 4, 5]


def drop_segment(units: Units) -> Units:
    return joined(units, [0, 1, 3, 4, 5])


def drop_picture(units: Units) -> Units:
    return units[: 2 * GOP + 7] + units[2 * GOP + 8 :]


def swap_segments(units: Units) -> Units:
    return joined(units, [0, 1, 3, 2, 4, 5])


def replay_segment(units: Units) -> Units:
    return joined(units, [0, 1, 2, 3, 1, 4, 5])


def replay_at_once(units: Units) -> Units:
    return joined(units, [0, 1, 2, 2, 3, 4, 5])


def cut_the_beginning(units: Units) -> Units:
    return joined(units, [2, 3, 4, 5])


def cut_the_end(units: Units) -> Units:
    return units[: 5 * GOP + 4]


def append_unsigned(units: Units) -> Units:
    return units + [unit.without_veilcam() for unit in segment(units, 0)]


# name: damage, verdict, segments delivered whole, segments of which a part is delivered
TABLE: dict[str, tuple[Damage, Verdict, list[int], list[int]]] = {
    "nothing": (lambda units: units, Verdict.AUTHENTIC, ALL, []),
    "bit in a slice": (damage.flip_slice, Verdict.TAMPERED, [0, 1, 3, 4, 5], [2]),
    "bit in ciphertext": (damage.flip_ciphertext, Verdict.TAMPERED, [0, 1, 3, 4, 5], [2]),
    "bit in a header": (damage.flip_header, Verdict.TAMPERED, [0, 1, 3, 4, 5], []),
    "bit in a signature": (damage.flip_signature, Verdict.TAMPERED, [0, 1, 3, 4, 5], []),
    "bit in a frame record": (damage.flip_meta, Verdict.TAMPERED, [0, 1, 3, 4, 5], [2]),
    "segment dropped": (drop_segment, Verdict.GAPS, [0, 1, 3, 4, 5], []),
    "picture dropped": (drop_picture, Verdict.GAPS, [0, 1, 3, 4, 5], [2]),
    "segments swapped": (swap_segments, Verdict.TAMPERED, ALL, []),
    "segment replayed later": (replay_segment, Verdict.TAMPERED, ALL, []),
    "segment replayed at once": (replay_at_once, Verdict.TAMPERED, ALL, []),
    "beginning cut off": (cut_the_beginning, Verdict.AUTHENTIC, [2, 3, 4, 5], []),
    "end cut off": (cut_the_end, Verdict.GAPS, [0, 1, 2, 3, 4], [5]),
    "sealed layer stripped": (damage.strip_sealed, Verdict.AUTHENTIC, [0, 1, 3, 4, 5], []),
    "unsigned pictures appended": (append_unsigned, Verdict.TAMPERED, ALL, []),
    "all SEI stripped": (damage.strip_all, Verdict.UNSIGNED, [], []),
}


@pytest.mark.parametrize("suffix", [".mp4", ".ts"])
@pytest.mark.parametrize("name", TABLE)
def test_damage_gets_its_verdict_and_costs_no_more_than_it_hit(
    name: str, suffix: str, recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    hurt, verdict, whole, parts = TABLE[name]
    path = write_units(tmp_path / f"damaged{suffix}", hurt(recording.units()))

    found = verify(path, recording.camera)
    assert found.verdict is verdict, found.text()
    assert found.exit_code == (0 if verdict is Verdict.AUTHENTIC else 3)

    out = tmp_path / "out.mp4"
    report = decode(path, out, [recording.identity], camera=recording.camera, ledger=ledger)
    assert report.verdict is verdict
    assert report.exit_code == (0 if name in {"nothing", "beginning cut off"} else 3)
    assert _delivered(report, Outcome.DELIVERED) == [f"segment {index}" for index in whole]
    assert _delivered(report, Outcome.PARTLY) == [f"segment {index}" for index in parts]
    assert out.exists() == bool(whole)
    assert (tmp_path / "out.mp4.report.json").exists()
    if out.exists():
        _check_only_true_pictures(recording, out, whole)


def _delivered(report: DecodeReport, outcome: Outcome) -> list[str]:
    return sorted(row.name for row in report.opened if row.outcome is outcome and row.num_packets)


def _check_only_true_pictures(recording: Recording, out: Path, whole: list[int]) -> None:
    """Every picture decodes to one of the original's; those of intact segments are all there, in order."""
    assert recording.source is not None
    original = pixels(recording.source)
    number_of = {picture: number for number, picture in enumerate(original)}
    numbers = [number_of.get(picture) for picture in pixels(out)]
    assert None not in numbers, "a picture that the camera never saw"
    expected = [number for index in whole for number in range(index * GOP, (index + 1) * GOP)]
    assert [number for number in numbers if number is not None and number // GOP in whole] == expected


def test_a_truncated_file_keeps_what_is_intact(recording: Recording, tmp_path: Path, ledger: Ledger) -> None:
    for number, suffix in enumerate([".mp4", ".ts", ".mkv", ".h264"]):
        whole = write_units(tmp_path / f"whole{suffix}", recording.units())
        data = whole.read_bytes()
        path = tmp_path / f"truncated{suffix}"
        path.write_bytes(data[: len(data) * 55 // 100])
        found = verify(path, recording.camera)
        assert (found.verdict, found.exit_code) == (Verdict.GAPS, 3), f"{suffix}\n{found.text()}"
        out = tmp_path / f"out{number}.mkv"
        report = decode(path, out, [recording.identity], camera=recording.camera, ledger=ledger)
        assert report.exit_code == 3
        assert _delivered(report, Outcome.DELIVERED)[:3] == ["segment 0", "segment 1", "segment 2"]


@pytest.mark.parametrize("suffix", [".mp4", ".ts", ".mkv", ".h264"])
def test_a_file_cut_anywhere_is_a_loss_and_never_tampering(
    suffix: str, recording: Recording, tmp_path: Path
) -> None:
    data = write_units(tmp_path / f"whole{suffix}", recording.units()).read_bytes()
    path = tmp_path / f"cut{suffix}"
    for number in range(24):
        path.write_bytes(data[: len(data) // 5 + number * len(data) // 31])
        found = verify(path, recording.camera)
        if found.verdict is Verdict.AUTHENTIC:  # cut exactly between two segments
            assert all(row.letters == "A" * GOP for row in found.segments)
        else:
            assert found.verdict is Verdict.GAPS, found.text()


@pytest.mark.parametrize("camera_seed", [1, 2])
def test_a_foreign_segment_is_found_and_left_out(
    camera_seed: int, recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    """Another camera's segment, and one of another recording by the same camera."""
    assert recording.source is not None
    foreign = seal_copy(recording.source, camera=camera_seed, start_us=START_US + 10**9)
    units = recording.units()
    path = write_units(tmp_path / "spliced.mp4", units[: 3 * GOP] + segment(foreign, 3) + units[4 * GOP :])

    found = verify(path, recording.camera)
    assert (found.verdict, found.exit_code) == (Verdict.TAMPERED, 3)
    report = decode(path, tmp_path / "out.mp4", [recording.identity], camera=recording.camera, ledger=ledger)
    assert report.exit_code == 3
    assert [row.outcome for row in report.opened if row.ordinal == 3] == [Outcome.WITHHELD]
    _check_only_true_pictures(recording, tmp_path / "out.mp4", [0, 1, 2, 4, 5])


def test_two_recordings_of_one_camera_one_after_the_other_are_authentic(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    """A camera that was restarted: a new stream, later in time."""
    assert recording.source is not None
    later = seal_copy(recording.source, start_us=START_US + 60 * FRAME_US + 10**6)
    path = write_units(tmp_path / "both.mp4", recording.units() + later)
    report = decode(path, tmp_path / "out.mp4", [recording.identity], camera=recording.camera, ledger=ledger)
    assert (report.verdict, report.exit_code) == (Verdict.AUTHENTIC, 0)
    assert pixels(tmp_path / "out.mp4") == 2 * pixels(recording.source)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts", ".mov"])
def test_a_remux_by_ffmpeg_still_verifies_and_decodes(
    suffix: str, recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    assert recording.source is not None
    path = tmp_path / f"remuxed{suffix}"
    ffmpeg("-i", recording.path, "-c", "copy", path)
    assert verify(path, recording.camera).exit_code == 0
    report = decode(path, tmp_path / "out.mp4", [recording.identity], camera=recording.camera, ledger=ledger)
    assert report.exit_code == 0
    assert payloads(tmp_path / "out.mp4") == payloads(recording.source)


@pytest.mark.parametrize("suffix", [".mp4", ".ts"])
@pytest.mark.parametrize(
    ("start", "length", "verdict", "exit_code"),
    [("2", "2", Verdict.AUTHENTIC, 0), ("1.7", "2.65", Verdict.GAPS, 3)],
    ids=["whole segments", "into a segment"],
)
def test_a_clip_cut_from_the_middle_by_ffmpeg_is_judged_by_what_it_holds_and_decodes(
    start: str,
    length: str,
    verdict: Verdict,
    exit_code: int,
    *,
    suffix: str,
    recording: Recording,
    tmp_path: Path,
    ledger: Ledger,
) -> None:
    path = tmp_path / f"clip{suffix}"
    ffmpeg("-ss", start, "-i", recording.path, "-t", length, "-c", "copy", path)
    found = verify(path, recording.camera)
    assert (found.verdict, found.exit_code) == (verdict, exit_code)
    report = decode(path, tmp_path / "out.mp4", [recording.identity], camera=recording.camera, ledger=ledger)
    assert report.exit_code == exit_code
    assert {"segment 2", "segment 3"} & set(_delivered(report, Outcome.DELIVERED))
    names = _delivered(report, Outcome.DELIVERED)
    _check_only_true_pictures(recording, tmp_path / "out.mp4", [int(name[-1]) for name in names])


def test_an_excerpt_of_whole_segments_is_authentic_unless_the_start_is_demanded(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    path = write_units(tmp_path / "excerpt.mp4", joined(recording.units(), [2, 3]))
    whole = verify(path, recording.camera, is_excerpt=False)
    assert (whole.verdict, whole.exit_code) == (Verdict.GAPS, 3)
    found = verify(path, recording.camera)
    assert (found.verdict, found.exit_code) == (Verdict.AUTHENTIC, 0)
    assert [row.index for row in found.segments] == [2, 3]
    report = decode(path, tmp_path / "out.mp4", [recording.identity], camera=recording.camera, ledger=ledger)
    assert report.exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", "copy", "-bsf:v", "filter_units=remove_types=6"],
        ["-c:v", "libx264", "-preset", "ultrafast"],
    ],
)
def test_stripping_or_reencoding_leaves_an_unsigned_file(
    arguments: list[str], recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    path = tmp_path / "lost.mp4"
    ffmpeg("-i", recording.path, *arguments, path)
    found = verify(path, recording.camera)
    assert (found.verdict, found.exit_code) == (Verdict.UNSIGNED, 3)
    report = decode(path, tmp_path / "out.mp4", [recording.identity], camera=recording.camera, ledger=ledger)
    assert (report.output, report.exit_code) == (None, 3)
    assert not (tmp_path / "out.mp4").exists()


def test_a_bit_flipped_anywhere_in_the_file_never_passes_and_never_crashes(
    recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    """Every 997th byte: whatever is hit, the pictures that come out are the camera's."""
    data = recording.path.read_bytes()
    base = verify(recording.path, recording.camera)
    harmless = 0
    for number, offset in enumerate(itertools.islice(range(len(data) // 3, len(data), 2 * 997), 40)):
        path = tmp_path / f"flipped{number}.mp4"
        path.write_bytes(data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :])
        found = verify(path, recording.camera)
        if found.verdict is Verdict.AUTHENTIC:
            harmless += found.segments == base.segments
            continue
        assert found.exit_code == 3
    assert harmless <= 2  # container fields that carry no picture
