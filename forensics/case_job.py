"""What is to be done to one recording of a case, and what came of it: plain values.

Jobs and results are JSON, and keys are not among them, so that any process on any machine that sees the
case's folder can be given a job (`forensics.case_item` does it).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from base.errors import UsageError
from base.version import __version__
from codec.muxer import MUXER_OF_SUFFIX
from forensics.canonical import JsonObject
from keys import CameraPublic
from keys.key_files import parse_camera_public, render_camera_public

OK, FAILURE, INTEGRITY, KEY = 0, 1, 3, 4
"""What became of an item, in the numbers of the program's exit status."""


@dataclass(frozen=True, slots=True)
class CaseJob:
    """What to do to one recording; plain values only.

    Attributes:
        source: path of the recording.
        stem: its name within the case, unique.
        camera: content of the camera's .pub file; None if it is not known who must have signed.
        start, end: as typed; None leaves that side open.
        suffix: of the video, such as ``.mkv``.
        is_evidence: take signed segments only, refuse what is labelled as restored.
        keep_native: copy the recording into the case first; otherwise it is hashed, and read where it is.
    """

    source: str
    stem: str
    camera: str | None
    start: str | None = None
    end: str | None = None
    suffix: str = ".mkv"
    reason: str = ""
    case: str = ""
    from_start: bool = False
    is_evidence: bool = False
    keep_native: bool = True
    verify_only: bool = False

    @property
    def fingerprint(self) -> str:
        """Differs as soon as something would come out differently."""
        # Not canonical JSON, which refuses the names of files that are not UTF-8.
        document = json.dumps({**asdict(self), "version": __version__}, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(document.encode("ascii")).hexdigest()

    @property
    def public(self) -> CameraPublic | None:
        """The camera's verifying key."""
        return None if self.camera is None else parse_camera_public(self.camera.encode())

    @classmethod
    def make(cls, source: Path, stem: str, camera: CameraPublic | None, **options: Any) -> CaseJob:  # noqa: ANN401
        """Make a job; ``options`` are the other attributes."""
        text = None if camera is None else render_camera_public(camera).decode()
        return cls(str(source.absolute()), stem, text, **options)


@dataclass(frozen=True, slots=True)
class Acquired:
    """The recording as it was handed over."""

    name: str
    num_bytes: int
    sha256: str
    copy: str | None
    stat: tuple[int, int]
    steps: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What came of one recording; paths are relative to the case's folder.

    Attributes:
        exit_code: 0, 1 failure, 3 integrity, 4 no key.
        verdict: as the verification found; None if it did not get so far.
        is_outside: nothing of it lies in the range asked for, or in the grant; nothing was opened, and
            ``exit_code`` is what that means if no recording has anything (1 range, 4 grant).
        regions: where the original is sealed in regions, what the video is composed of (`RegionReport`):
            ``text``, ``pictures`` (how it was coded anew) and ``tiles`` (the file of what the camera sealed).
        first, last: stream, index and signature digest of the first and last verified segment, with the
            digest that it names as its predecessor's: from these the joints between recordings are judged.
    """

    stem: str
    exit_code: int
    verdict: str | None = None
    error: str | None = None
    camera_id: str | None = None
    input: JsonObject | None = None
    output: JsonObject | None = None
    tracks: tuple[JsonObject, ...] = ()
    span: tuple[str, str] | None = None
    num_segments: int = 0
    num_delivered: int = 0
    num_withheld: int = 0
    causes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    model_ids: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()
    sealed_modes: tuple[str, ...] = ()
    ledger_seq: int | None = None
    ledger_hash: str | None = None
    regions: JsonObject | None = None
    is_complete: bool = False
    is_resumed: bool = False
    is_outside: bool = False
    first: JsonObject | None = None
    last: JsonObject | None = None
    files: JsonObject | None = None
    steps: tuple[JsonObject, ...] = ()

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        document: JsonObject = json.loads(json.dumps(asdict(self)))
        return document

    @classmethod
    def of_json(cls, value: dict[str, Any]) -> ItemResult:
        """Read what `as_json` wrote, by this version."""
        lists = ("tracks", "causes", "notes", "model_ids", "recipients", "sealed_modes", "steps")
        fixed = {name: tuple(value[name]) for name in lists}
        span = value["span"]
        return cls(**{**value, **fixed, "span": None if span is None else (span[0], span[1])})


def usable_suffix(suffix: str) -> str:
    """Check the ending for videos.

    Raises:
        UsageError: no container of that name.
    """
    ending = suffix if suffix.startswith(".") else f".{suffix}"
    if ending not in MUXER_OF_SUFFIX:
        message = f"container: expected one of {', '.join(MUXER_OF_SUFFIX)}; got {suffix}"
        raise UsageError(message)
    return ending
