"""capture -> protect -> encode + seal -> broadcast, on three threads with bounded queues.

Work in progress: the interface is fixed, the stages follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from camera.broadcast import Broadcast
from camera.stats import PipelineStats

if TYPE_CHECKING:
    from keys import CameraKey, EpochRing


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """Rates and limits of one pipeline."""

    sealed: str | None = (
        None  # copy | av1 | hevc | h264 | ffv1; None: copy where the source allows, else h264
    )
    crf: int = 26  # of the protected layer
    gop_s: float = 2.0
    min_gop_s: float = 1.0
    max_gop_s: float = 4.0
    key_request_gap_s: float = 0.5
    queue_frames: int = 4


class Pipeline:
    """One camera's pipeline.

    Units are published on ``broadcast`` (see camera.broadcast; a SealedUnit carries .unit, .starts_segment,
    .segment_index, .is_last). ``start`` returns at once; ``error`` holds the reason when a stage failed.
    """

    def __init__(
        self,
        source: Any,  # noqa: ANN401
        protector: Any,  # noqa: ANN401
        camera_key: CameraKey,
        epochs: EpochRing,
        options: PipelineOptions | None = None,
        *,
        broadcast: Broadcast | None = None,
    ) -> None:
        self.broadcast = broadcast or Broadcast()
        raise NotImplementedError

    def start(self) -> None:
        """Start the threads."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ask the source to end; the open segment is signed and published, then the broadcast closes."""
        raise NotImplementedError

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; True when all threads are gone."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.join()

    @property
    def error(self) -> BaseException | None:
        """Why the pipeline stopped by itself; None while it runs or when it ended well."""
        raise NotImplementedError

    def request_key_frame(self) -> None:
        """Ask for a new segment soon (a viewer joined or lost packets); at most one per 500 ms is granted."""
        raise NotImplementedError

    def stats(self) -> PipelineStats:
        """Counters at this moment."""
        raise NotImplementedError
