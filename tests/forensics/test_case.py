from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from base.errors import MediaError, UsageError
from codec.evidence import Verdict
from forensics.case import CaseOptions, check_bundle, recordings_in, run_case
from forensics.case_engine import Engine, InProcess, Processes, Report
from forensics.case_files import CaseFolder, acquire
from forensics.case_job import CaseJob, ItemResult
from forensics.case_keys import KeyNames
from forensics.case_report import CaseReport
from forensics.ledger import Ledger
from keys.secret import SecretBytes
from keys.store import save_identity
from tests.forensics import region_recording
from tests.forensics.damage import flip_slice
from tests.forensics.recordings import (
    GOP,
    START_US,
    Recording,
    authority,
    camera_key,
    payloads,
    seal_copy,
    write_units,
)

PASSPHRASE = "correct horse battery staple"


@pytest.fixture(scope="module")
def day(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recordings of two cameras: gate/ in three files of two segments each, yard/ in one."""
    folder = tmp_path_factory.mktemp("day")
    units = recording.units()
    for number in range(3):
        part = folder / "gate" / f"part{number}.mp4"
        part.parent.mkdir(exist_ok=True)
        write_units(part, units[2 * number * GOP : 2 * (number + 1) * GOP])
    assert recording.source is not None
    (folder / "yard").mkdir()
    yard = seal_copy(recording.source, camera=2, start_us=START_US + 3_600_000_000)
    write_units(folder / "yard" / "all.mp4", yard)
    save_identity(folder, authority()[1], SecretBytes(PASSPHRASE.encode()), log2_n=10)
    return folder


def names(day: Path) -> KeyNames:
    return KeyNames.of([day / "authority-1.identity"])


def engine(day: Path, ledger: Ledger, jobs: int = 1) -> Engine:
    if jobs == 1:
        return InProcess(names(day), PASSPHRASE, ledger.path)
    return Processes(names(day), PASSPHRASE, ledger.path, jobs)


OPTIONS = CaseOptions(
    case="2026-117", reason="break-in <at> the gate", cameras=(camera_key(1).public, camera_key(2).public)
)


def run(day: Path, out: Path, ledger: Ledger, jobs: int = 1, options: CaseOptions = OPTIONS) -> CaseReport:
    with engine(day, ledger, jobs) as worker:
        return run_case(recordings_in([day]), out, worker, ledger, options)


@dataclass(frozen=True, slots=True)
class Finished:
    """A case that was run once."""

    folder: Path
    ledger: Path
    report: CaseReport

    def copy(self, to: Path, ledger: Ledger) -> Path:
        """The folder and the ledger again, to go on from."""
        shutil.copytree(self.ledger.parent, ledger.path.parent)
        shutil.copytree(self.folder, to)
        return to


@pytest.fixture(scope="module")
def finished(day: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("finished")
    ledger = Ledger(folder / "state" / "ledger.jsonl")
    report = run(day, folder / "case", ledger)
    return Finished(folder / "case", ledger.path, report)


def videos(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "video").glob("*.mkv"))}


def kinds(ledger: Ledger) -> list[str]:
    lines = (json.loads(line)["kind"] for line in ledger.path.read_text().splitlines())
    return [kind for kind in lines if kind in ("open", "end", "refused", "export")]


def test_a_day_of_two_cameras_comes_out_whole_with_all_that_proves_it(
    day: Path, recording: Recording, finished: Finished
) -> None:
    case, report, ledger = finished.folder, finished.report, Ledger(finished.ledger)
    assert (report.exit_code, report.verdict) == (0, Verdict.AUTHENTIC), report.text()
    assert [r.stem for r in report.results] == ["part0", "part1", "part2", "all"]
    assert [joint.text for joint in report.joints] == ["continuous", "continuous"]
    assert recording.source is not None
    assert payloads(case / "video" / "all.mkv")["video"] == payloads(recording.source)["video"]

    for result in report.results:
        original = next(day.rglob(result.stem + ".mp4"))
        assert (case / "native" / original.name).read_bytes() == original.read_bytes()
    done = subprocess.run(
        ["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=case, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    names_in_bundle = {line.split("  ")[1] for line in (case / "SHA256SUMS").read_text().splitlines()}
    assert {
        "report.json",
        "report.html",
        "native/part0.mp4",
        "video/part0.mkv",
        "verification/all.txt",
    } <= names_in_bundle
    assert kinds(ledger) == ["open", "end"] * 4 + ["export"]
    lines = map(json.loads, ledger.path.read_text().splitlines())
    (sealing,) = [line["body"] for line in lines if line["kind"] == "export"]
    assert sealing["sums_sha256"] == check_bundle(case).sums_sha256
    for path in case.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_the_report_names_tools_models_hashes_and_every_step_and_the_page_is_safe_to_open(
    finished: Finished,
) -> None:
    case = finished.folder
    document = json.loads((case / "report.json").read_bytes())
    assert document["software"]["cryptography"]
    assert document["protector_models"] == ["5a" * 8]
    steps = [step["what"] for step in document["custody"]]
    for what in ("acquired", "copied", "verified", "opened"):
        assert steps.count(what) == 4
    # a step is recorded where it happens: nothing is opened before all of it is copied
    assert max(i for i, what in enumerate(steps) if what == "copied") < steps.index("opened")
    page = (case / "report.html").read_text()
    assert "break-in &lt;at&gt; the gate" in page
    assert "<script" not in page
    assert not re.search(r"(src|href)=", page)
    for heading in ("Chain of custody", "Handed over", "Restored pictures", "Between the recordings"):
        assert heading in page
    for recording in document["recordings"]:
        assert recording["output"]["sha256"] in page
        assert recording["input"]["sha256"] in page
    transcript = (case / "verification" / "all.txt").read_text()
    assert transcript.count("A" * GOP) == 6


def test_processes_give_the_same_bytes_as_one_and_a_second_run_opens_nothing(
    day: Path, finished: Finished, tmp_path: Path, ledger: Ledger
) -> None:
    many = tmp_path / "many"
    report = run(day, many, ledger, jobs=2)
    assert report.exit_code == 0, report.text()
    assert videos(finished.folder) == videos(many)
    assert len(videos(many)) == 4
    num_entries = len(kinds(ledger))
    again = run(day, many, ledger)
    assert all(result.is_resumed for result in again.results)
    assert kinds(ledger)[num_entries:] == ["export"]
    assert again.exit_code == 0
    assert check_bundle(many).problems == ()


def test_a_run_goes_on_where_it_was_stopped(
    day: Path, finished: Finished, tmp_path: Path, ledger: Ledger
) -> None:
    case = finished.copy(tmp_path / "case", ledger)
    first = videos(case)
    (case / "video" / "part1.mkv").write_bytes(b"half a file")  # as after a disk fault
    (case / ".work" / "part2.done.json").unlink()  # as after a power cut
    (case / "video" / ".part2.mkv.01234567.part").mkdir(mode=0o700)
    (case / "native" / ".x.mp4.01234567.part").write_bytes(b"half")
    num_entries = len(kinds(ledger))
    report = run(day, case, ledger)
    assert [result.is_resumed for result in report.results] == [True, False, False, True]
    assert kinds(ledger)[num_entries:] == ["open", "end", "open", "end", "export"]
    assert videos(case) == first
    assert not list(case.rglob("*.part"))


def test_other_arguments_open_again(day: Path, finished: Finished, tmp_path: Path, ledger: Ledger) -> None:
    case = finished.copy(tmp_path / "case", ledger)
    options = CaseOptions(case="2026-118", reason="other", cameras=OPTIONS.cameras)
    report = run_case(recordings_in([day / "yard"]), case, engine(day, ledger), ledger, options)
    assert [result.is_resumed for result in report.results] == [False]
    assert list(videos(case)) == ["all.mkv"]  # and nothing that this report does not speak of


def test_a_killed_run_leaves_nothing_half_that_counts_and_is_gone_on_with(
    day: Path, tmp_path: Path, ledger: Ledger
) -> None:
    case = tmp_path / "case"
    program = f"""
import os, signal
from pathlib import Path
import forensics.output_folder as folder
from tests.forensics.test_case import *
def publish(self, targets, *, overwrite):  # the worst moment: the output is whole, and has no name
    os.kill(os.getpid(), signal.SIGKILL)
folder.OutputFolder.publish = publish
run(Path({str(day)!r}), Path({str(case)!r}), Ledger(Path({str(ledger.path)!r})))
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert list((case / "video").glob(".*.part"))
    assert not (case / "SHA256SUMS").exists()
    report = run(day, case, ledger)
    assert report.exit_code == 0, report.text()
    assert not list(case.rglob("*.part"))
    assert len(videos(case)) == 4


def test_a_process_that_dies_costs_its_recording_and_no_other(
    day: Path, tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "python"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys, os\n"
        "def hook(event, arguments):\n"
        "    ours = 'forensics.case_worker' in ' '.join(sys.orig_argv)\n"
        "    if event == 'open' and ours and str(arguments[0]).endswith('native/part1.mp4'):\n"
        "        os.kill(os.getpid(), 9)\n"
        "sys.addaudithook(hook)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
    paths = recordings_in([day / "gate"])[:2]
    with Processes(names(day), PASSPHRASE, ledger.path, 1) as worker:
        report = run_case(paths, tmp_path / "case", worker, ledger, OPTIONS)
    assert report.exit_code == 1
    assert [bool(result.error) for result in report.results] == [False, True]
    assert "died" in (report.results[1].error or "")
    assert check_bundle(tmp_path / "case").problems == ()


def test_recordings_that_a_recorder_deletes_meanwhile_are_taken_from_the_copy_or_named(
    day: Path, tmp_path: Path, ledger: Ledger
) -> None:
    copy = tmp_path / "day"
    shutil.copytree(day, copy)
    paths = recordings_in([copy])
    case = tmp_path / "case"

    class Deleting(InProcess):
        """Retention strikes after the first copy, and again before anything is opened."""

        def run(
            self, folder: CaseFolder, jobs: Sequence[CaseJob], stage: str, report: Report
        ) -> list[ItemResult]:
            if stage == "acquire":
                paths[3].unlink()
            else:
                paths[0].unlink()
            return super().run(folder, jobs, stage, report)

    report = run_case(paths, case, Deleting(names(day), PASSPHRASE, ledger.path), ledger, OPTIONS)
    assert [result.exit_code for result in report.results] == [0, 0, 0, 1]
    assert "gone" in (report.results[3].error or "")
    assert report.exit_code == 1
    # the copies are what counts from now on
    again = run_case(paths[1:3], case, engine(day, ledger), ledger, OPTIONS)
    assert (again.exit_code, [r.is_resumed for r in again.results]) == (0, [True, True])


def test_a_source_that_grows_while_it_is_copied_is_not_taken(
    day: Path, tmp_path: Path, ledger: Ledger
) -> None:
    copy = tmp_path / "day"
    shutil.copytree(day, copy)
    path = copy / "yard" / "all.mp4"
    case = CaseFolder(tmp_path / "case")
    case.create()

    def grow(_: float) -> None:
        with path.open("ab") as file:
            file.write(b"x")

    with pytest.raises(MediaError, match="changed while it was copied"):
        acquire(path, case.path / "native" / "all.mp4", grow)
    assert list((case.path / "native").iterdir()) == []


def test_a_gap_between_two_files_shows_although_each_is_authentic(
    day: Path, tmp_path: Path, ledger: Ledger
) -> None:
    paths = [path for path in recordings_in([day]) if path.name != "part1.mp4"]
    report = run_case(paths, tmp_path / "case", engine(day, ledger), ledger, OPTIONS)
    assert [(j.fits, j.text) for j in report.joints] == [
        (False, "segment 1 is followed by segment 4, 2.1 s later")
    ]


def test_a_wrong_key_is_status_4_and_a_tampered_recording_status_3(
    day: Path, recording: Recording, tmp_path: Path, ledger: Ledger
) -> None:
    save_identity(tmp_path, authority(7)[1], SecretBytes(PASSPHRASE.encode()), log2_n=10)
    stranger = InProcess(KeyNames.of([tmp_path / "authority-7.identity"]), PASSPHRASE, ledger.path)
    paths = recordings_in([day / "yard"])
    report = run_case(paths, tmp_path / "strange", stranger, ledger, OPTIONS)
    assert (report.exit_code, kinds(ledger)) == (4, ["refused", "export"])
    hurt = write_units(tmp_path / "hurt.mp4", flip_slice(recording.units()))
    report = run_case([hurt, *paths], tmp_path / "hurt", engine(day, ledger), ledger, OPTIONS)
    assert (report.exit_code, report.verdict) == (3, Verdict.TAMPERED)
    assert len(videos(tmp_path / "hurt")) == 2  # what is intact is there


def test_a_range_takes_the_recordings_that_it_touches(day: Path, tmp_path: Path, ledger: Ledger) -> None:
    options = CaseOptions(
        case="1", cameras=OPTIONS.cameras, start="2023-11-14T22:13:22Z", end="2023-11-14T22:13:23Z"
    )  # START_US is 22:13:20
    paths = recordings_in([day])
    report = run_case(paths, tmp_path / "case", engine(day, ledger), ledger, options)
    assert report.skipped == ("all.mp4", "part0", "part2")
    assert {path.name for path in (tmp_path / "case" / "native").iterdir()} == {"part1.mp4"}
    assert [(r.stem, r.num_delivered) for r in report.results if r.output] == [("part1", 1)]
    assert report.exit_code == 0, report.text()
    with pytest.raises(UsageError, match="ISO 8601"):
        run_case(paths, tmp_path / "b", engine(day, ledger), ledger, CaseOptions(start="5"))


def test_a_changed_added_or_missing_file_shows_in_the_check(
    day: Path, tmp_path: Path, ledger: Ledger
) -> None:
    case = tmp_path / "case"
    run_case(recordings_in([day / "yard"]), case, engine(day, ledger), ledger, OPTIONS)
    assert check_bundle(case).problems == ()
    (case / "extra.txt").write_text("x")
    (case / "verification" / "all.txt").unlink()
    video = case / "video" / "all.mkv"
    video.write_bytes(video.read_bytes() + b"x")
    assert set(check_bundle(case).problems) == {
        "extra.txt: not in the list",
        "verification/all.txt: missing",
        "video/all.mkv: changed",
    }


def test_folders_that_are_no_case_or_in_use_are_refused(day: Path, tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    for bad, message in ((tmp_path / "mine", "not the folder of a case"), (day, "recordings lie in it")):
        with pytest.raises(UsageError, match=message):
            run(day, bad, ledger)
    folder = CaseFolder(tmp_path / "case")
    folder.create()
    with folder.locked(), pytest.raises(UsageError, match="another run"):
        run(day, folder.path, ledger)
    with pytest.raises(UsageError, match="no such recording"):
        recordings_in([tmp_path / "nothing"])
    with pytest.raises(UsageError, match="no recording there"):
        recordings_in([tmp_path / "mine"])


def test_no_secret_is_in_the_arguments_or_the_environment_of_a_child(
    day: Path, tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VEILCAM_PASSPHRASE", PASSPHRASE)
    child = Processes(names(day), PASSPHRASE, ledger.path, 1)._start(CaseFolder(tmp_path))
    try:
        for name in ("environ", "cmdline"):
            assert PASSPHRASE.encode() not in Path(f"/proc/{child.pid}/{name}").read_bytes()
    finally:
        child.kill()
        child.communicate()
    assert os.environ["VEILCAM_PASSPHRASE"] == PASSPHRASE


def test_a_recording_sealed_in_regions_says_that_its_video_is_composed_and_brings_what_was_sealed(
    tmp_path: Path, ledger: Ledger
) -> None:
    """The page must not claim that a composed picture is one that the camera coded."""
    protected = write_units(tmp_path / "regions.mp4", region_recording.units())
    save_identity(tmp_path, authority()[1], SecretBytes(PASSPHRASE.encode()), log2_n=10)
    identity = KeyNames.of([tmp_path / "authority-1.identity"])
    with InProcess(identity, PASSPHRASE, ledger.path) as worker:
        options = CaseOptions(cameras=(camera_key().public,))
        report = run_case([protected], tmp_path / "case", worker, ledger, options)
        assert report.exit_code == 0, report.text()
        again = run_case([protected], tmp_path / "case", worker, ledger, options)
    assert again.results[0].is_resumed
    tiles = tmp_path / "case" / "video" / "regions.mkv.tiles.mkv"
    assert not check_bundle(tmp_path / "case").problems
    page = (tmp_path / "case" / "report.html").read_text()
    assert "Composed for viewing:</strong> regions." in page
    assert "Every picture of the videos" not in page
    assert hashlib.sha256(tiles.read_bytes()).hexdigest() in page
