"""Epochs: how long one key lives.

A fresh key is drawn at the start, every ``epoch_s`` seconds and whenever the recipients change. The ring
keeps only the current one: whoever steals the camera opens that epoch and none before. Old keys go when the
last segment that uses them lets go.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import final

from base.errors import UsageError
from keys.recipient import Recipient
from keys.schedule import ID_BYTES, EpochKey, checked_id
from keys.secret import Unshareable
from keys.stanza import Stanza
from keys.wrap import distinct_recipients, wrap_epoch_key

logger = logging.getLogger(__name__)

DEFAULT_EPOCH_S = 600.0


@final
@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch: its random id of 16 bytes, its key, and the key wrapped to every recipient."""

    epoch_id: bytes
    key: EpochKey
    stanzas: tuple[Stanza, ...]


@final
class EpochRing(Unshareable):
    """Hands out the current epoch of one camera. Safe to share between threads.

    Args:
        camera_id: 16 bytes.
        recipients: who may open the footage; 1 to 64.
        epoch_s: longest life of an epoch, seconds.
        clock: seconds that never jump; the default does not count a suspended machine's sleep.
    """

    def __init__(
        self,
        camera_id: bytes,
        recipients: Iterable[Recipient],
        *,
        epoch_s: float = DEFAULT_EPOCH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not epoch_s > 0:
            message = f"epoch_s: expected more than 0 seconds, got {epoch_s}"
            raise UsageError(message)
        self._camera_id = checked_id("camera id", camera_id)
        self._recipients = distinct_recipients(recipients)
        self._epoch_s = epoch_s
        self._clock = clock
        self._lock = threading.Lock()
        self._rotations = 0
        self._current, self._started_s = self._draw()

    @property
    def camera_id(self) -> bytes:
        """The camera that the epochs belong to, 16 bytes."""
        return self._camera_id

    @property
    def rotations(self) -> int:
        """How many epochs followed the first."""
        return self._rotations

    def current(self) -> Epoch:
        """Return the current epoch, a fresh one if the last is over. Ask once per segment."""
        with self._lock:
            if not 0 <= self._clock() - self._started_s < self._epoch_s:
                self._rotate("age")
            return self._current

    def rotate(self) -> Epoch:
        """End the current epoch now and return the next."""
        with self._lock:
            self._rotate("request")
            return self._current

    def set_recipients(self, recipients: Iterable[Recipient]) -> None:
        """Change who may open the footage from the next segment on; the same set changes nothing.

        Raises:
            UsageError: no recipient, or more than 64; the old ones stay.
        """
        distinct = distinct_recipients(recipients)
        with self._lock:
            before = {recipient.recipient_id for recipient in self._recipients}
            self._recipients = distinct
            if before != {recipient.recipient_id for recipient in distinct}:
                self._rotate("recipients")

    def _rotate(self, reason: str) -> None:
        self._current, self._started_s = self._draw()
        self._rotations += 1
        logger.info("epoch %s begins (%s)", self._current.epoch_id.hex(), reason)

    def _draw(self) -> tuple[Epoch, float]:
        started_s = self._clock()
        key = EpochKey.generate()
        epoch_id = secrets.token_bytes(ID_BYTES)
        stanzas = wrap_epoch_key(key, self._recipients, self._camera_id, epoch_id)
        return Epoch(epoch_id, key, stanzas), started_s
