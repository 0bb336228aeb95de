from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.veilcam.cli import environment
from tests.veilcam.conftest import Studio
from veilcam.demo.streams import stream_digests
from veilcam.demo.tamper import flip_one_bit

PROTECT = ("-r", "keys/custodian.recipient", "-c", "keys/gate.camera")


def test_protect_says_what_it_made_and_any_player_opens_it(studio: Studio, tmp_path: Path) -> None:
    target = tmp_path / "out.mkv"
    ended = studio.run("protect", "clip.mp4", "-o", target, *PROTECT, "--json")
    assert ended.exit_code == 0
    assert ended.err == ""
    document = ended.json
    assert (document["pictures"], document["width"], document["height"], document["sealed_mode"]) == (
        studio.num_pictures,
        768,
        576,
        "copy",
    )
    assert document["bytes"] == target.stat().st_size
    probe = [
        "ffprobe",
        "-v",
        "error",
        "-count_frames",
        "-show_entries",
        "stream=codec_name,nb_read_frames",
        "-of",
        "json",
    ]
    shown = json.loads(
        subprocess.run([*probe, str(target)], capture_output=True, text=True, check=True).stdout
    )
    assert shown["streams"] == [{"codec_name": "h264", "nb_read_frames": str(studio.num_pictures)}]


@pytest.mark.parametrize(
    ("options", "background"),
    [((), "fine"), (("--pixels", "off"), "coarse"), (("--pixels", "off", "--background", "fine"), "fine")],
)
def test_the_background_is_coarse_but_where_the_pixel_path_needs_it(
    studio: Studio, tmp_path: Path, options: tuple[str, ...], background: str
) -> None:
    ended = studio.call("protect", "clip.mp4", "-o", tmp_path / "out.mp4", *PROTECT, *options, "--json")
    assert ended.exit_code == 0
    assert (ended.json["pixels"] == "off") == bool(options)
    assert ended.json["background"] == background


def test_in_a_pipe_protect_prints_one_line_and_no_progress(studio: Studio, tmp_path: Path) -> None:
    ended = studio.run("protect", "clip.mp4", "-o", tmp_path / "out.mp4", *PROTECT)
    assert ended.exit_code == 0
    assert len(ended.out.splitlines()) == 1
    assert ended.err == ""


def test_an_output_that_exists_is_kept_unless_forced(studio: Studio, tmp_path: Path) -> None:
    target = tmp_path / "out.mp4"
    target.write_bytes(b"precious")
    refused = studio.call("protect", "clip.mp4", "-o", target, *PROTECT)
    assert (refused.exit_code, target.read_bytes()) == (2, b"precious")
    assert "--force" in refused.err
    assert studio.call("protect", "clip.mp4", "-o", target, *PROTECT, "--force").exit_code == 0
    assert target.stat().st_size > 10_000


def test_the_input_is_never_the_output(studio: Studio) -> None:
    before = (studio.folder / "clip.mp4").read_bytes()
    ended = studio.call("protect", "clip.mp4", "-o", "./clip.mp4", *PROTECT, "--force")
    assert ended.exit_code == 2
    assert (studio.folder / "clip.mp4").read_bytes() == before


def test_protect_without_a_recipient_is_refused_before_anything_is_written(
    studio: Studio, tmp_path: Path
) -> None:
    ended = studio.call("protect", "clip.mp4", "-o", tmp_path / "o.mp4", "-c", "keys/gate.camera")
    assert ended.exit_code == 2
    assert "--recipient" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_verify_says_authentic_with_status_0(studio: Studio) -> None:
    ended = studio.call("verify", "protected.mp4", "--camera", "keys/gate.pub", "--json")
    assert ended.exit_code == 0
    assert ended.json["verdict"] == "authentic"
    assert ended.json["totals"]["frames"]["authentic"] == studio.num_pictures


@pytest.mark.parametrize("container", ["mkv", "ts"])
def test_verify_accepts_a_remuxed_copy(studio: Studio, tmp_path: Path, container: str) -> None:
    copy = tmp_path / f"copy.{container}"
    source = str(studio.folder / "protected.mp4")
    subprocess.run(["ffmpeg", "-v", "error", "-i", source, "-c", "copy", str(copy)], check=True)
    assert studio.call("verify", copy, "--camera", "keys/gate.pub").exit_code == 0


def test_verify_writes_its_report(studio: Studio, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert (
        studio.call("verify", "protected.mp4", "--camera", "keys/gate.pub", "--report", report).exit_code == 0
    )
    assert json.loads(report.read_text())["verdict"] == "authentic"
    assert (
        studio.call("verify", "protected.mp4", "--camera", "keys/gate.pub", "--report", report).exit_code == 2
    )


def test_verify_gives_status_3_for_a_flipped_bit_and_names_the_picture(
    studio: Studio, tmp_path: Path
) -> None:
    changed = tmp_path / "changed.mp4"
    flip_one_bit(studio.folder / "protected.mp4", changed)
    ended = studio.run("verify", changed, "--camera", "keys/gate.pub")
    assert ended.exit_code == 3
    assert ended.out.startswith("TAMPERED")
    assert "picture changed" in ended.out


def test_verify_gives_status_3_for_another_camera_and_for_no_signature(studio: Studio) -> None:
    assert studio.call("verify", "protected.mp4", "--camera", "keys/other.pub").exit_code == 3
    unsigned = studio.call("verify", "clip.mp4", "--camera", "keys/gate.pub")
    assert unsigned.exit_code == 3
    assert unsigned.out.startswith("UNSIGNED")


def test_a_truncated_file_is_status_3_without_a_traceback(studio: Studio, tmp_path: Path) -> None:
    cut = tmp_path / "cut.mp4"
    data = (studio.folder / "protected.mp4").read_bytes()
    cut.write_bytes(data[: len(data) * 2 // 3])
    ended = studio.run("verify", cut, "--camera", "keys/gate.pub")
    assert ended.exit_code == 3
    assert ended.out.startswith("GAPS")
    assert "Traceback" not in ended.err


def test_decode_gives_back_the_same_streams(studio: Studio, tmp_path: Path) -> None:
    target = tmp_path / "back.mp4"
    ended = studio.call(
        "decode", "protected.mp4", "-o", target, "--identity", "keys/custodian.identity", "--json"
    )
    assert ended.exit_code == 0, ended.err
    before, after = stream_digests(studio.folder / "clip.mp4"), stream_digests(target)
    assert [(s.kind, s.codec, s.sha256) for s in before] == [(s.kind, s.codec, s.sha256) for s in after]


def test_decode_with_another_identity_is_status_4_and_writes_nothing(studio: Studio, tmp_path: Path) -> None:
    ended = studio.run(
        "decode", "protected.mp4", "-o", tmp_path / "b.mp4", "--identity", "keys/stranger.identity"
    )
    assert ended.exit_code == 4
    assert not (tmp_path / "b.mp4").exists()
    assert len(ended.err.splitlines()) <= 2


def test_decode_with_a_wrong_passphrase_is_status_4(studio: Studio, tmp_path: Path) -> None:
    wrong = environment(VEILCAM_PASSPHRASE="wrong")
    arguments = ("decode", "protected.mp4", "-o", tmp_path / "b.mp4", "--identity", "keys/custodian.identity")
    ended = studio.call(*arguments, env=wrong)
    assert ended.exit_code == 4
    assert list(tmp_path.iterdir()) == []


def test_decode_without_any_passphrase_is_status_4_and_says_how_to_give_one(
    studio: Studio, tmp_path: Path
) -> None:
    bare = {name: value for name, value in environment().items() if name != "VEILCAM_PASSPHRASE"}
    arguments = ("decode", "protected.mp4", "-o", tmp_path / "b.mp4", "--identity", "keys/custodian.identity")
    ended = studio.call(*arguments, env=bare)
    assert ended.exit_code == 4
    assert "VEILCAM_PASSPHRASE" in ended.err


def test_decode_of_a_flipped_bit_is_status_3_and_keeps_what_is_intact(studio: Studio, tmp_path: Path) -> None:
    changed, target = tmp_path / "changed.mp4", tmp_path / "back.mp4"
    flip_one_bit(studio.folder / "protected.mp4", changed)
    ended = studio.call(
        "decode", changed, "-o", target, "--identity", "keys/custodian.identity", "--camera", "keys/gate.pub"
    )
    assert ended.exit_code == 3
    assert stream_digests(target)[0].num_packets >= 20  # at least the other two of three segments


def test_decode_of_a_time_range_gives_its_segments_only(studio: Studio, tmp_path: Path) -> None:
    target = tmp_path / "part.mp4"
    arguments = ("decode", "protected.mp4", "-o", target, "--identity", "keys/custodian.identity")
    assert studio.call(*arguments, "--from", "2.5", "--to", "3.5").exit_code == 0
    assert 10 <= stream_digests(target)[0].num_packets <= 20


def test_decode_appends_to_the_ledger(studio: Studio, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    arguments = ("decode", "protected.mp4", "-o", tmp_path / "b.mp4", "--identity", "keys/custodian.identity")
    assert studio.call(*arguments, env=environment(VEILCAM_LEDGER=str(ledger))).exit_code == 0
    assert len(ledger.read_text().splitlines()) >= 1


def test_detect_prints_one_json_line_per_picture_and_a_summary_on_standard_error(studio: Studio) -> None:
    ended = studio.run("detect", "protected.mp4", "--detector", "hog", "--every", "15")
    assert ended.exit_code == 0
    rows = [json.loads(line) for line in ended.out.splitlines()]
    assert [row["frame"] for row in rows] == [0, 15, 30]
    assert ended.err.startswith("3 pictures, hog:")


def test_detect_writes_lines_and_an_annotated_video(studio: Studio, tmp_path: Path) -> None:
    lines, boxes = tmp_path / "d.jsonl", tmp_path / "boxes.mp4"
    arguments = ("--detector", "hog", "--every", "15", "-o", lines, "--annotate", boxes, "--json")
    ended = studio.call("detect", "protected.mp4", *arguments)
    assert ended.exit_code == 0
    assert ended.json["frames"] == 3
    assert len(lines.read_text().splitlines()) == 3
    assert stream_digests(boxes)[0].num_packets == 3
    assert studio.call("detect", "protected.mp4", *arguments).exit_code == 2


def test_detect_with_an_unknown_detector_is_status_2_and_names_the_known_ones(studio: Studio) -> None:
    ended = studio.call("detect", "protected.mp4", "--detector", "magic")
    assert ended.exit_code == 2
    assert "hog" in ended.err
