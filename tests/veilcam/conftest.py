"""One protected clip with its keys, made once by the program itself."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.veilcam.cli import Ended, veilcam, veilcam_inside
from veilcam.assets import SAMPLE
from veilcam.demo.pictures import num_video_frames

CLIP_S = 4


@dataclass(frozen=True, slots=True)
class Studio:
    """A folder with keys/, clip.mp4 (H.264 with sound and B-frames) and protected.mp4."""

    folder: Path

    @property
    def num_pictures(self) -> int:
        """Pictures of the clip."""
        return num_video_frames(self.folder / "clip.mp4")

    def call(self, *arguments: str | Path, env: dict[str, str] | None = None) -> Ended:
        """Run ``veilcam`` in the folder, inside this process."""
        return veilcam_inside(*arguments, cwd=self.folder, env=env)

    def run(self, *arguments: str | Path, env: dict[str, str] | None = None) -> Ended:
        """Run ``veilcam`` in the folder, as a program."""
        return veilcam(*arguments, cwd=self.folder, env=env)


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Studio:
    """Made by the commands; tests write only to folders of their own."""
    made = Studio(tmp_path_factory.mktemp("studio"))
    cut = ["-t", str(CLIP_S), "-c", "copy", str(made.folder / "clip.mp4")]
    subprocess.run(["ffmpeg", "-v", "error", "-i", str(SAMPLE), *cut], check=True)
    (made.folder / "keys").mkdir()
    steps = (
        ("keys", "recipient", "keys/custodian"),
        ("keys", "recipient", "keys/stranger", "--suite", "x25519"),
        ("keys", "camera", "keys/gate"),
        ("keys", "camera", "keys/other"),
        (
            "protect",
            "clip.mp4",
            "-o",
            "protected.mp4",
            "-r",
            "keys/custodian.recipient",
            "-c",
            "keys/gate.camera",
        ),
    )
    for step in steps:
        ended = made.call(*step)
        assert ended.exit_code == 0, f"{step}: {ended.err}"
    return made
