"""What the other side's receiver reports tell: its losses, and by staying away that it is gone."""

from __future__ import annotations

from collections.abc import Callable

from aiortc import RTCRtpSender
from aiortc.stats import RTCRemoteInboundRtpStreamStats

_LEAST_S = 3.0
_GAPS = 2.5
_FIRST_GAP_S = 1.0


async def newest_report(sender: RTCRtpSender) -> RTCRemoteInboundRtpStreamStats | None:
    """The last receiver report (RFC 3550, 6.4.2) about what ``sender`` sends; None before the first."""
    stats = await sender.getStats()
    return next(
        (entry for entry in stats.values() if isinstance(entry, RTCRemoteInboundRtpStreamStats)), None
    )


class ReportWatch:
    """Notices a receiver that is gone without a word, such as a server that was killed.

    ICE notices it too, after 30 s without consent (RFC 7675): long for a media server that is back after
    two. Receivers report about once a second, so one is gone when its reports stay away for 2.5 times the
    longest gap that there was between two of them, and 3 s at least. One that never reports is left to ICE.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: object = None
        self._last_s: float | None = None
        self._longest_gap_s = _FIRST_GAP_S

    def is_gone(self, mark: object) -> bool:
        """Tell it what the newest report is (anything that differs from report to report), often."""
        now_s = self._clock()
        if mark != self._last:
            if self._last_s is not None:
                self._longest_gap_s = max(self._longest_gap_s, now_s - self._last_s)
            self._last, self._last_s = mark, now_s
        return self._last_s is not None and now_s - self._last_s > max(_LEAST_S, _GAPS * self._longest_gap_s)
