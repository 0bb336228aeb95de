"""Who hears of detections besides the output: the camera's page, and targets of events."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from analytics.camera_report import CameraReport
from analytics.detect import FrameResult
from analytics.event_outlet import EventOutlet
from analytics.event_targets import open_target
from analytics.object_tracker import ObjectTracker

EVENTS_TOKEN_VARIABLE = "VEILCAM_EVENTS_TOKEN"  # noqa: S105  # the variable's name, not a token


class Listeners:
    """Takes every result of a run; a context manager. Nothing here ever waits for the other side."""

    def __init__(self, report_to: str | None, targets: Sequence[str], camera: str, token: str | None) -> None:
        """Prepare.

        Args:
            report_to: WHEP URL of the camera that gets the boxes; None: none.
            targets: addresses of events.
            camera: its name in events.
            token: bearer token of the camera.

        Raises:
            UsageError: an address that cannot be meant.
            MissingDependency: MQTT without the extra ``mqtt``.
        """
        secret = os.environ.get(EVENTS_TOKEN_VARIABLE)
        self._report = None if report_to is None else CameraReport(report_to, token)
        self._outlet = EventOutlet([open_target(address, token=secret, camera=camera) for address in targets])
        self._tracker = ObjectTracker(camera)
        self._stack = ExitStack()

    def take(self, result: FrameResult) -> None:
        """Pass on one picture's result; its time is now."""
        if self._report is not None:
            self._report.take(result)
        for event in self._tracker.push(time.time(), result["detections"]):
            self._outlet.offer(event)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._outlet)
            if self._report is not None:
                stack.enter_context(self._report)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for event in self._tracker.finish(time.time()):
            self._outlet.offer(event)
        self._stack.close()
