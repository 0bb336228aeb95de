"""``veilcam doctor carrier``: hops as they are found in the field, made with ffmpeg."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from codec.access_unit import AccessUnit
from codec.carrier import gather
from codec.container import ContainerWriter, read_access_units
from tests.vectors.make_vectors import HEIGHT, WIDTH, make
from veilcam.checks.carrier import Kept, compare

MADE = make("KPPPPPPPPP|KPPPPPPPPP|KPPPPPPPPP")
PARTS = {"early.mp4": slice(0, 10), "late.mp4": slice(20, 30)}


def write(path: Path, units: list[AccessUnit]) -> Path:
    with ContainerWriter(path, WIDTH, HEIGHT) as writer:
        for unit in units:
            writer.write(unit)
    return path


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("carrier") / "sent.mp4", list(MADE.units))


def ffmpeg(source: Path, target: Path, *arguments: str) -> Path:
    command = ["ffmpeg", "-hide_banner", "-loglevel", "error", "-i", str(source), *arguments, str(target)]
    subprocess.run(command, check=True)
    return target


def test_a_copy_keeps_all(sent: Path, tmp_path: Path) -> None:
    report = compare(sent, ffmpeg(sent, tmp_path / "copy.ts", "-c", "copy"))
    assert report.kept is Kept.ALL
    assert report.received == report.sent
    assert report.sent.pictures == 30
    assert report.largest_time_error_s < 0.002


def test_a_part_of_a_copy_keeps_all_of_that_part(sent: Path, tmp_path: Path) -> None:
    part = write(tmp_path / "part.mp4", list(MADE.units[10:25]))
    report = compare(sent, part)
    assert report.kept is Kept.ALL
    assert report.sent.pictures == 15


def test_a_hop_that_strips_sei_is_named(sent: Path, tmp_path: Path) -> None:
    stripped = ffmpeg(sent, tmp_path / "bare.mp4", "-c", "copy", "-bsf:v", "filter_units=remove_types=6")
    report = compare(sent, stripped)
    assert report.kept is Kept.NO_SEI
    assert (report.received.pictures, report.received.meta) == (30, 0)


def test_a_hop_that_keeps_key_frames_sei_is_named_and_the_gop_carrier_survives_it(
    sent: Path, tmp_path: Path
) -> None:
    def thinned(units: list[AccessUnit]) -> list[AccessUnit]:
        return [unit if unit.is_keyframe else unit.without_veilcam() for unit in units]

    spread = write(tmp_path / "spread.mp4", thinned(list(MADE.units)))
    assert compare(sent, spread).kept is Kept.SEI_OF_KEY_FRAMES
    gathered = [unit for start in (0, 10, 20) for unit in gather(MADE.units[start : start + 10])]
    assert compare(sent, write(tmp_path / "gop.mp4", thinned(gathered))).kept is Kept.ALL


def test_a_hop_that_codes_anew_is_named(sent: Path, tmp_path: Path) -> None:
    with read_access_units(sent) as reader:
        other = [unit.without_veilcam() for unit in reader]
    changed = [
        AccessUnit((*unit.nals[:-1], unit.nals[-1][:-1] + b"\x81"), unit.pts_us, unit.is_keyframe)
        for unit in other
    ]
    assert compare(sent, write(tmp_path / "anew.mp4", changed)).kept is Kept.RE_ENCODED


def test_lost_pictures_are_no_lost_data_of_the_others(sent: Path, tmp_path: Path) -> None:
    units = [unit for number, unit in enumerate(MADE.units) if number not in (4, 17)]
    report = compare(sent, write(tmp_path / "lossy.mp4", units))
    assert report.kept is Kept.PICTURES_LOST
    assert (report.sent.pictures, report.received.pictures, report.changed_units) == (30, 28, 0)


def test_the_command_says_it_with_its_status(sent: Path, tmp_path: Path) -> None:
    stripped = ffmpeg(sent, tmp_path / "bare.mp4", "-c", "copy", "-bsf:v", "filter_units=remove_types=6")
    command = [sys.executable, "-m", "veilcam", "doctor", "carrier", str(sent)]
    done = subprocess.run([*command, str(stripped), "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["kept"] == "no SEI"
    done = subprocess.run([*command, str(sent)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Everything arrived" in done.stdout


def test_files_of_different_times_are_told_apart_by_their_times(tmp_path: Path) -> None:
    halves = [write(tmp_path / name, list(MADE.units[part])) for name, part in PARTS.items()]
    report = compare(*halves)
    assert report.kept is Kept.NOTHING
    assert report.spans is not None
    first, second = report.spans
    assert first != second
    assert first in report.text()
    assert second in report.text()
