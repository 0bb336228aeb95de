from __future__ import annotations

import html
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.authority import make_authority, serving_stamps
from tests.veilcam.cli import environment
from tests.veilcam.conftest import Studio


@pytest.fixture(scope="module")
def bundle(studio: Studio, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "case-117"
    arguments = ("case", "decode", "protected.mp4", "-o", folder, "-i", "keys/custodian.identity")
    ended = studio.call(*arguments, "-c", "keys/gate.pub", "--case", "2026-117", "--evidence", "--json")
    assert ended.exit_code == 0, ended.err + ended.out
    assert ended.json["verdict"] == "authentic"
    assert ended.json["recordings"][0]["is_complete"]
    return folder


def test_a_bundle_is_checked_and_a_change_is_status_3(studio: Studio, bundle: Path, tmp_path: Path) -> None:
    assert studio.call("case", "check", bundle).exit_code == 0
    assert "Chain of custody" in (bundle / "report.html").read_text()
    transcript = bundle / "verification" / "protected.txt"
    content = transcript.read_bytes()
    transcript.write_bytes(content + b"x")
    ended = studio.call("case", "check", bundle, "--json")
    assert (ended.exit_code, ended.json["problems"]) == (3, ["verification/protected.txt: changed"])
    transcript.write_bytes(content)
    ended = studio.call("case", "check", tmp_path)
    assert ended.exit_code == 2
    assert "not the folder of a finished case" in ended.err


def test_a_second_run_is_quick_and_says_so(studio: Studio, bundle: Path) -> None:
    arguments = ("case", "decode", "protected.mp4", "-o", bundle, "-i", "keys/custodian.identity")
    ended = studio.call(*arguments, "-c", "keys/gate.pub", "--case", "2026-117", "--evidence")
    assert ended.exit_code == 0
    assert "(done before)" in ended.out


def test_a_stranger_is_status_4_and_missing_arguments_status_2(studio: Studio, tmp_path: Path) -> None:
    start = ("case", "decode", "protected.mp4", "-o", tmp_path / "x", "-i")
    assert studio.call(*start, "keys/stranger.identity", "-c", "keys/gate.pub").exit_code == 4
    ended = studio.call(*start, "keys/custodian.identity", "--evidence")
    assert ended.exit_code == 2
    assert "needs the public key" in ended.err
    ended = studio.call(*start, "keys/custodian.identity", "--engine", "ray")
    assert ended.exit_code == 2
    assert "RAY_AUTH_MODE=token" in ended.err


def test_evidence_needs_the_camera_and_takes_no_pixels(studio: Studio, tmp_path: Path) -> None:
    start = (
        "decode",
        "protected.mp4",
        "-o",
        tmp_path / "x.mp4",
        "-i",
        "keys/custodian.identity",
        "--evidence",
    )
    assert studio.call(*start).exit_code == 2
    ended = studio.call(*start, "-c", "keys/gate.pub", "--path", "pixels")
    assert ended.exit_code == 3
    assert "never evidence" in ended.err
    assert not (tmp_path / "x.mp4").exists()
    assert studio.call(*start, "-c", "keys/gate.pub").exit_code == 0


def test_the_wrong_cameras_key_is_called_that(studio: Studio) -> None:
    ended = studio.call("verify", "protected.mp4", "-c", "keys/other.pub", "--json")
    assert (ended.exit_code, ended.json["verdict"]) == (3, "unverifiable")
    assert "the key given is not" in ended.json["causes"][0]


def test_a_recording_is_stamped_and_the_stamp_checked(studio: Studio, tmp_path: Path) -> None:
    pytest.importorskip("rfc3161_client", reason="needs the timestamp extra")
    roots = make_authority(tmp_path / "authority")
    stamp = tmp_path / "protected.stamp"
    start = ("verify", "protected.mp4", "-c", "keys/gate.pub", "--json", "--stamp", stamp)
    with serving_stamps(tmp_path / "authority") as url:
        ended = studio.call(*start, "--stamp-with", url)
    assert (ended.exit_code, ended.json["stamp"]["checked"]) == (0, False)
    ended = studio.call(*start, "--tsa-root", roots)
    assert (ended.exit_code, ended.json["stamp"]["authority"]) == (0, "test authority")
    document = json.loads(stamp.read_bytes())
    stamp.write_text(json.dumps({**document, "index": document["index"] + 1}))
    assert studio.call(*start, "--tsa-root", roots).exit_code == 3
    assert studio.call(*start).exit_code == 2


def test_live_options_are_not_for_files_nor_the_other_way_round(studio: Studio) -> None:
    ended = studio.call("verify", "http://127.0.0.1:9/whep", "-c", "keys/gate.pub", "--from-start")
    assert ended.exit_code == 2
    ended = studio.call("verify", "http://127.0.0.1:9/whep", "-c", "keys/gate.pub", "--seconds", "1")
    assert ended.exit_code == 1


def test_recordings_whose_names_are_not_utf_8_are_opened_like_any_other(
    studio: Studio, tmp_path: Path
) -> None:
    """What recorders hand over has whatever names it has; also marks that turn the direction of reading."""
    data = (studio.folder / "protected.mp4").read_bytes()
    names = [b"gate\xff.mp4", "exe\u202e4pm.mp4".encode(), b"a\nb.mp4"]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_bytes(data)
    recordings = [tmp_path / os.fsdecode(name) for name in names]
    start: tuple[str | Path, ...] = (
        "case",
        "decode",
        *recordings,
        "-o",
        tmp_path / "case",
        "-i",
        "keys/custodian.identity",
    )
    ended = studio.run(*start, "-c", "keys/gate.pub", "-j", "1", env=environment(LC_ALL="C.UTF-8"))
    assert ended.exit_code == 0, ended.err
    report = json.loads((tmp_path / "case" / "report.json").read_text())
    assert {step["name"] for step in report["custody"]} >= set(map(str, recordings))
    page = (tmp_path / "case" / "report.html").read_text()
    assert "\u202e" not in page
    assert studio.call("case", "check", tmp_path / "case").exit_code == 0


@pytest.mark.parametrize("text", ["a\nb", "\x1b[2J", "\u202egpj", "\udcff", "x" * 2001])
@pytest.mark.parametrize("option", ["--case", "--reason"])
@pytest.mark.parametrize("command", [("decode",), ("case", "decode")])
def test_what_would_turn_a_report_or_a_terminal_around_is_no_case_and_no_reason(
    studio: Studio, tmp_path: Path, command: tuple[str, ...], option: str, text: str
) -> None:
    out = tmp_path / "out.mp4"
    ended = studio.call(*command, "protected.mp4", "-o", out, "-i", "keys/custodian.identity", option, text)
    assert ended.exit_code == 2
    assert option[2:] in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_reason_is_text_on_the_page_and_nothing_else(studio: Studio, tmp_path: Path) -> None:
    start = ("case", "decode", "protected.mp4", "-o", tmp_path / "case", "-i", "keys/custodian.identity")
    reason = "\"><img src=x onerror=alert(1)><script>'"
    assert studio.call(*start, "-c", "keys/gate.pub", "-j", "1", "--reason", reason).exit_code == 0
    page = (tmp_path / "case" / "report.html").read_text()
    assert html.escape(reason) in page
    assert "<img" not in page
    assert "<script" not in page


def _finished(studio: Studio, bundle: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "case"
    shutil.copytree(bundle, copy)
    return copy


@pytest.mark.parametrize("kind", ["link", "pipe", "folder link"])
def test_links_and_pipes_in_a_bundle_are_problems(
    studio: Studio, bundle: Path, tmp_path: Path, kind: str
) -> None:
    case = _finished(studio, bundle, tmp_path)
    odd = case / "native" / "odd"
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to("/etc/passwd" if kind == "link" else "/etc")
    ended = studio.call("case", "check", case, "--json")
    assert ended.exit_code == 3
    assert "native/odd: a link, or no file at all" in ended.json["problems"]


def test_a_folder_whose_parts_are_links_is_not_gone_on_with(
    studio: Studio, bundle: Path, tmp_path: Path
) -> None:
    """Else what lies behind the link would be written to, and what is not of the case removed there."""
    case, other = _finished(studio, bundle, tmp_path), tmp_path / "other"
    other.mkdir()
    (other / "precious").write_text("x")
    shutil.rmtree(case / "video")
    (case / "video").symlink_to(other)
    ended = studio.call("case", "decode", "protected.mp4", "-o", case, "-i", "keys/custodian.identity")
    assert (ended.exit_code, "not the folder of a case" in ended.err) == (2, True)
    assert [path.name for path in other.iterdir()] == ["precious"]


def test_links_in_a_folder_of_recordings_are_passed_over(studio: Studio, tmp_path: Path) -> None:
    """A recorder must not be able to name files of the investigator's, which then are handed over."""
    day = tmp_path / "day"
    day.mkdir()
    (day / "secret.mp4").symlink_to(studio.folder / "keys" / "custodian.identity")
    (day / "round").symlink_to(".")
    shutil.copy(studio.folder / "protected.mp4", day / "real.mp4")
    start = ("case", "decode", day, "-o", tmp_path / "case", "-i", "keys/custodian.identity", "-j", "1")
    assert studio.call(*start, "-c", "keys/gate.pub").exit_code == 0
    assert [path.name for path in (tmp_path / "case" / "native").iterdir()] == ["real.mp4"]


@pytest.mark.parametrize("content", [b"", b"x", bytes(5000), bytes(300_000)])
def test_a_file_that_is_no_time_stamp_is_a_mistake_of_usage(
    studio: Studio, tmp_path: Path, content: bytes
) -> None:
    pytest.importorskip("rfc3161_client", reason="needs the timestamp extra")
    (tmp_path / "stamp").write_bytes(content)
    root = make_authority(tmp_path / "tsa")
    verify = ("verify", "protected.mp4", "-c", "keys/gate.pub", "--stamp", tmp_path / "stamp")
    ended = studio.call(*verify, "--tsa-root", root)
    assert (ended.exit_code, "--stamp: " in ended.err) == (2, True), ended.err


def test_a_cases_stamp_that_was_cut_is_status_3(studio: Studio, tmp_path: Path) -> None:
    pytest.importorskip("rfc3161_client", reason="needs the timestamp extra")
    root, case = make_authority(tmp_path / "tsa"), tmp_path / "case"
    start = ("case", "decode", "protected.mp4", "-o", case, "-i", "keys/custodian.identity", "-j", "1")
    with serving_stamps(tmp_path / "tsa") as url:
        assert studio.call(*start, "-c", "keys/gate.pub", "--timestamp", url).exit_code == 0
    assert studio.call("case", "check", case, "--tsa-root", root).exit_code == 0
    stamp = case / "SHA256SUMS.tsr"
    stamp.write_bytes(stamp.read_bytes()[:40])
    ended = studio.call("case", "check", case, "--tsa-root", root)
    assert (ended.exit_code, "not an RFC 3161 response" in ended.err) == (3, True), ended.err
