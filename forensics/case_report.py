"""What came of a case, over all its recordings: as values and as JSON. The page for people: `case_html`."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise

import av

from forensics.canonical import JsonObject
from forensics.case_job import FAILURE, INTEGRITY, KEY, OK, ItemResult
from forensics.report import TOOL
from forensics.verdict import Verdict

REPORT_VERSION = 1
_PACKAGES = ("veilcam", "av", "cryptography", "numpy")
_WORST_FIRST = (
    Verdict.TAMPERED,
    Verdict.UNSIGNED,
    Verdict.UNVERIFIABLE,
    Verdict.GAPS,
    Verdict.AUTHENTIC,
)


@dataclass(frozen=True, slots=True)
class Joint:
    """How two recordings of one stream, one after the other, fit together.

    Attributes:
        fits: the second one begins with the segment that follows, and names the first one's last signature.
    """

    camera_id: str
    before: str
    after: str
    fits: bool
    text: str

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "camera": self.camera_id,
            "before": self.before,
            "after": self.after,
            "fits": self.fits,
            "text": self.text,
        }


def joints(results: Sequence[ItemResult]) -> tuple[Joint, ...]:
    """Judge what lies between the recordings of each camera, in the order of capture."""
    cameras: dict[str, list[ItemResult]] = {}
    for result in results:
        if result.first is not None and result.camera_id is not None:
            cameras.setdefault(result.camera_id, []).append(result)
    found: list[Joint] = []
    for camera_id, mine in cameras.items():
        ordered = sorted(mine, key=_start)
        found += [_joint(camera_id, before, after) for before, after in pairwise(ordered)]
    return tuple(found)


def _start(result: ItemResult) -> tuple[int, str]:
    start = (result.first or {}).get("start_us")
    return (start if isinstance(start, int) else 0), result.stem


def _joint(camera_id: str, before: ItemResult, after: ItemResult) -> Joint:
    last, first = before.last or {}, after.first or {}
    fits = False
    if last.get("stream") != first.get("stream"):
        text = "the camera started anew in between" + _pause(last, first)
    elif first.get("index") != _next(last):
        text = f"segment {last.get('index')} is followed by segment {first.get('index')}" + _pause(
            last, first
        )
    elif first.get("previous") != last.get("digest"):
        text = "the second one names another predecessor: one of them is not of this series"
    else:
        fits, text = True, "continuous"
    return Joint(camera_id, before.stem, after.stem, fits, text)


def _next(last: JsonObject) -> int | None:
    index = last.get("index")
    return index + 1 if isinstance(index, int) else None


def _pause(last: JsonObject, first: JsonObject) -> str:
    end, start = last.get("end_us"), first.get("start_us")
    if not isinstance(end, int) or not isinstance(start, int):
        return ""
    if start < end:
        return f": they overlap by {(end - start) / 1e6:.1f} s"
    return f", {(start - end) / 1e6:.1f} s later"


@dataclass(frozen=True, slots=True)
class CaseReport:
    """Everything about one run over a case.

    Attributes:
        verdict: the worst of all recordings; None if none could be judged.
        skipped: recordings of which nothing lies in the range, or in the grant.
        empty_code: exit status if that is so of all of them.
    """

    case: str
    reason: str
    start: str | None
    end: str | None
    is_evidence: bool
    operator: JsonObject
    started: str
    finished: str
    results: tuple[ItemResult, ...]
    skipped: tuple[str, ...]
    joints: tuple[Joint, ...]
    engine: str
    jobs: int
    empty_code: int = FAILURE

    @property
    def verdict(self) -> Verdict | None:
        """The worst verdict of all recordings."""
        found = {result.verdict for result in self.results}
        return next((verdict for verdict in _WORST_FIRST if verdict.value in found), None)

    @property
    def exit_code(self) -> int:
        """0 if everything came out and verified; else 3 if something does not verify, 4 without key, 1."""
        if not self.results:
            return self.empty_code
        codes = {result.exit_code for result in self.results}
        return next((code for code in (INTEGRITY, KEY, FAILURE) if code in codes), OK)

    def as_json(self) -> JsonObject:
        """Return the report as a JSON document."""
        return {
            "report": "case",
            "v": REPORT_VERSION,
            "tool": TOOL,
            "software": software(),
            "case": self.case,
            "reason": self.reason,
            "evidence_only": self.is_evidence,
            "asked": {"from": self.start, "to": self.end},
            "operator": self.operator,
            "started": self.started,
            "finished": self.finished,
            "engine": self.engine,
            "jobs": self.jobs,
            "verdict": None if self.verdict is None else self.verdict.value,
            "exit_code": self.exit_code,
            "recordings": [result.as_json() for result in self.results],
            "outside_the_range": list(self.skipped),
            "joints": [joint.as_json() for joint in self.joints],
            "protector_models": sorted({each for result in self.results for each in result.model_ids}),
            "custody": self.custody(),
        }

    def custody(self) -> list[JsonObject]:
        """Every step of every recording, in the order of time."""
        steps = [step for result in self.results for step in result.steps]
        return sorted(steps, key=lambda step: str(step.get("time")))

    def text(self) -> str:
        """Return a summary for people, several lines."""
        name = "NOTHING JUDGED" if self.verdict is None else self.verdict.name
        lines = [f"{name}  case {self.case or '-'}, {len(self.results)} recordings"]
        for result in self.results:
            state = result.error or f"{(result.verdict or '-').upper()}"
            done = f", {result.num_delivered} segments" if result.output else ""
            lines.append(f"  {result.stem}: {state}{done}{' (done before)' if result.is_resumed else ''}")
        lines += [f"  {name}: outside of what was asked for" for name in self.skipped]
        lines += [f"  between {j.before} and {j.after}: {j.text}" for j in self.joints if not j.fits]
        return "\n".join(lines)


def software() -> JsonObject:
    """Versions of all that touched the pictures and the proofs."""
    found: JsonObject = {"python": platform.python_version(), "system": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    libraries = {name: ".".join(map(str, number)) for name, number in av.library_versions.items()}
    found["ffmpeg"] = libraries
    return found
