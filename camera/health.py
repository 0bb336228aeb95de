"""Whether the camera does its work, from values alone: the checks behind /healthz, /readyz and the page."""

from __future__ import annotations

from dataclasses import dataclass

from camera.stats import PipelineStats

FRESH_S = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """One condition: its name, whether it holds, and what was seen."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class RecorderState:
    """What the recorder tells. ``error`` is empty while it writes."""

    folder: str
    segments: int
    written_bytes: int
    free_bytes: int
    min_free_bytes: int
    error: str


def check_readiness(
    stats: PipelineStats, unit_age_s: float | None, recorder: RecorderState | None
) -> tuple[Check, ...]:
    """The four conditions of a camera that can be relied on at this moment.

    Args:
        stats: of the pipeline.
        unit_age_s: seconds since the last published unit, None before the first.
        recorder: None when nothing is recorded.
    """
    return (
        _fresh("source", stats.source_age_s, "picture from the source"),
        _fresh("encoder", unit_age_s, "published picture"),
        _check_epoch(stats),
        _check_disk(recorder),
    )


def is_alive(stats: PipelineStats) -> bool:
    """False once the pipeline has failed for good and only a restart helps."""
    return stats.state != "failed"


def _fresh(name: str, age_s: float | None, what: str) -> Check:
    if age_s is None:
        return Check(name, ok=False, detail=f"no {what} yet")
    return Check(name, ok=age_s <= FRESH_S, detail=f"last {what} {age_s:.1f} s ago")


def _check_epoch(stats: PipelineStats) -> Check:
    if stats.sealed_mode == "none":
        return Check("epoch", ok=True, detail="nothing is sealed")
    if not stats.epoch:
        return Check("epoch", ok=False, detail="no key epoch yet")
    return Check("epoch", ok=True, detail=f"key epoch {stats.epoch}")


def _check_disk(recorder: RecorderState | None) -> Check:
    if recorder is None:
        return Check("disk", ok=True, detail="not recording")
    if recorder.error:
        return Check("disk", ok=False, detail="the recorder cannot write")
    free_mb, min_mb = recorder.free_bytes // 1_000_000, recorder.min_free_bytes // 1_000_000
    return Check("disk", ok=free_mb >= min_mb, detail=f"{free_mb} MB free, {min_mb} MB wanted")
