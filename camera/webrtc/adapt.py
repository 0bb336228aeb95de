"""Which rendition a viewer gets, by what his receiver reports. Pure: time comes in with the reports.

Down to the sub rendition at once when it hurts: two reports in a row with more than 5 % loss, or one with
more than 15 %, or a round trip that has grown by more than 400 ms (a queue that fills), or skipped pictures.
Up again after a calm time without any loss above 1 %. Each fall soon after a rise doubles that time, so that
a viewer whose link only carries the small one is not switched for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Rendition = Literal["main", "sub"]

LOSS_BAD = 0.05
LOSS_VERY_BAD = 0.15
LOSS_CALM = 0.01
RTT_GROWTH_S = 0.4
CALM_S = 10.0
MAX_CALM_S = 160.0
RELAPSE_S = 30.0


@dataclass(frozen=True, slots=True)
class LinkReport:
    """What one receiver report says.

    Attributes:
        loss: share of packets lost since the report before, 0 to 1.
        rtt_s: round trip; None where it is not known yet.
        skips: how often pictures were skipped for this viewer so far.
    """

    loss: float
    rtt_s: float | None = None
    skips: int = 0


class Adapter:
    """One viewer's choice."""

    def __init__(self) -> None:
        self.rendition: Rendition = "main"
        self._calm_s = CALM_S
        self._calm_since_s: float | None = None
        self._rose_s: float | None = None
        self._num_bad = 0
        self._best_rtt_s: float | None = None
        self._skips = 0

    def report(self, report: LinkReport, now_s: float) -> Rendition:
        """Take a report and say which rendition it should be."""
        if report.rtt_s is not None:
            self._best_rtt_s = min(report.rtt_s, self._best_rtt_s or report.rtt_s)
        if self._hurts(report):
            self._calm_since_s = None
            if self.rendition == "main":
                self._fall(now_s)
        elif report.loss > LOSS_CALM:
            self._calm_since_s = None
        elif self._calm_since_s is None:
            self._calm_since_s = now_s
        elif self.rendition == "sub" and now_s - self._calm_since_s >= self._calm_s:
            self.rendition, self._rose_s, self._num_bad = "main", now_s, 0
        return self.rendition

    def _hurts(self, report: LinkReport) -> bool:
        self._num_bad = self._num_bad + 1 if report.loss > LOSS_BAD else 0
        skipped, self._skips = report.skips > self._skips, report.skips
        late = (
            report.rtt_s is not None
            and self._best_rtt_s is not None
            and report.rtt_s - self._best_rtt_s > RTT_GROWTH_S
        )
        return self._num_bad >= 2 or report.loss > LOSS_VERY_BAD or late or skipped

    def _fall(self, now_s: float) -> None:
        relapsed = self._rose_s is not None and now_s - self._rose_s < RELAPSE_S
        self._calm_s = min(2 * self._calm_s, MAX_CALM_S) if relapsed else CALM_S
        self.rendition, self._num_bad = "sub", 0
