"""When a viewer's access units are sent, and with which RTP time. Pure: no clock of its own.

A viewer who joins in the middle of a segment gets the segment's units so far, because a picture needs its
key frame. Sent in one burst with their own time stamps they would overrun receivers (there is no pacer below
us) and would teach the receiver's jitter buffer a delay as long as the segment is old. So they are played
fast: time runs ``SPEED`` times as quickly, in the time stamps and on the wire alike, until the past has
caught up with the present. With first = the oldest unit, edge = the newest one at the moment of joining:

    meet      = edge + (edge - first) / (SPEED - 1)
    stamp(t)  = meet - (meet - t) / SPEED   for t < meet, else t
    send at   = joined + (t - first) / SPEED for t < meet, else at once

At ``meet`` both lines touch, so stamps are continuous and strictly increasing.
"""

from __future__ import annotations

from dataclasses import dataclass

SPEED = 4


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one unit goes: its RTP time in microseconds and when to send it (seconds, the caller's clock)."""

    stamp_us: int
    send_at_s: float | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The plan of one join."""

    first_us: int
    edge_us: int
    joined_s: float

    @property
    def meet_us(self) -> int:
        """Capture time of the first unit that is sent the moment it is there."""
        age_us = max(0, self.edge_us - self.first_us)
        return self.first_us + age_us + -(-age_us // (SPEED - 1))

    def place(self, time_us: int) -> Slot:
        """The slot of the unit captured at ``time_us`` (microseconds)."""
        if time_us >= self.meet_us:
            return Slot(time_us, None)
        stamp_us = self.meet_us - (self.meet_us - time_us) // SPEED
        return Slot(stamp_us, self.joined_s + (time_us - self.first_us) / SPEED / 1e6)
