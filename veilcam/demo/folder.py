"""The demonstration's output folder: made fresh, and only ever emptied if a demonstration made it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from base.errors import UsageError

_MARKER = ".veilcam-demo"


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """Names of everything the demonstration writes."""

    root: Path

    @property
    def keys(self) -> Path:
        """Key files and the passphrase."""
        return self.root / "keys"

    @property
    def protected(self) -> Path:
        """The protected clip."""
        return self.root / "protected.mp4"

    @property
    def decoded(self) -> Path:
        """The original, decoded again."""
        return self.root / "decoded.mp4"

    @property
    def tampered(self) -> Path:
        """The protected clip with one bit flipped."""
        return self.root / "tampered.mp4"

    @property
    def recordings(self) -> Path:
        """What the live camera recorded."""
        return self.root / "recordings"

    @property
    def detections(self) -> Path:
        """JSON Lines of the detector."""
        return self.root / "detections.jsonl"

    @property
    def annotated(self) -> Path:
        """The protected clip with boxes."""
        return self.root / "annotated.mp4"

    @property
    def sheet(self) -> Path:
        """The picture sheet."""
        return self.root / "sheet.png"

    @property
    def small_sheet(self) -> Path:
        """The sheet as a smaller JPEG, for pages."""
        return self.root / "sheet.jpg"

    @property
    def summary(self) -> Path:
        """The summary for programs."""
        return self.root / "summary.json"

    def relative(self, path: Path) -> str:
        """``path`` as seen from inside the folder, for commands that run there."""
        return str(path.relative_to(self.root))


def open_demo_folder(root: Path, *, force: bool) -> DemoFolder:
    """Make ``root``; with ``force`` empty it first if it is an earlier demonstration's.

    Raises:
        UsageError: it is no folder, holds something else, or holds a demonstration and ``force`` is not set.
    """
    if root.exists() and not root.is_dir():
        raise UsageError(f"--out: expected a folder, got a file: {root}")
    if root.is_dir() and any(root.iterdir()):
        if not (root / _MARKER).is_file():
            raise UsageError(
                f"--out: {root} is not empty and was not made by the demo; choose another folder"
            )
        if not force:
            raise UsageError(f"--out: {root} holds an earlier demo; choose another folder or add --force")
        shutil.rmtree(root)
    root.mkdir(parents=True, exist_ok=True)
    (root / _MARKER).touch()
    folder = DemoFolder(root.resolve())
    folder.keys.mkdir()
    return folder
