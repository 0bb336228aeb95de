"""Epochs: how long one key lives.

A fresh key is drawn at the start, every ``epoch_s`` seconds and whenever the recipients change, be it that
somebody changes them or that a recipient's scope (`keys.scope`) begins or ends. The ring keeps only the
current one: whoever steals the camera opens that epoch and none before. Old keys go when the last segment
that uses them lets go.
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
from keys.scope import ScopedRecipient, scoped
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
        recipients: who may open the footage, with or without a scope; 1 to 64, at least one of them now.
        epoch_s: longest life of an epoch, seconds.
        clock: seconds that never jump; the default does not count a suspended machine's sleep.
        wall_clock: Unix seconds, for scopes.

    Where all scopes have ended, epochs are sealed to nobody: the camera goes on with its protected picture,
    and what it saw stays closed for ever. That is logged at each epoch.
    """

    def __init__(
        self,
        camera_id: bytes,
        recipients: Iterable[Recipient | ScopedRecipient],
        *,
        epoch_s: float = DEFAULT_EPOCH_S,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        if not epoch_s > 0:
            message = f"epoch_s: expected more than 0 seconds, got {epoch_s}"
            raise UsageError(message)
        self._camera_id = checked_id("camera id", camera_id)
        self._scoped = _checked(recipients)
        self._epoch_s = epoch_s
        self._clock = clock
        self._wall_clock = wall_clock
        self._recipients = self._in_force()
        if not self._recipients:
            message = (
                f"recipients: none of the {len(self._scoped)} has a scope with this camera and this time"
            )
            raise UsageError(message)
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
            in_force = self._in_force()
            if in_force != self._recipients:
                self._recipients = in_force
                self._rotate("scopes")
            elif not 0 <= self._clock() - self._started_s < self._epoch_s:
                self._rotate("age")
            return self._current

    def rotate(self) -> Epoch:
        """End the current epoch now and return the next."""
        with self._lock:
            self._rotate("request")
            return self._current

    def set_recipients(self, recipients: Iterable[Recipient | ScopedRecipient]) -> None:
        """Change who may open the footage from the next segment on; the same set changes nothing.

        Raises:
            UsageError: no recipient, or more than 64; the old ones stay.
        """
        given = _checked(recipients)
        with self._lock:
            before = {recipient.recipient_id for recipient in self._recipients}
            self._scoped = given
            self._recipients = self._in_force()
            if before != {recipient.recipient_id for recipient in self._recipients}:
                self._rotate("recipients")

    def _rotate(self, reason: str) -> None:
        self._current, self._started_s = self._draw()
        self._rotations += 1
        logger.info("epoch %s begins (%s)", self._current.epoch_id.hex(), reason)

    def _draw(self) -> tuple[Epoch, float]:
        started_s = self._clock()
        key = EpochKey.generate()
        epoch_id = secrets.token_bytes(ID_BYTES)
        if not self._recipients:
            logger.error("epoch %s is sealed to nobody: all scopes have ended", epoch_id.hex())
            return Epoch(epoch_id, key, ()), started_s
        stanzas = wrap_epoch_key(key, self._recipients, self._camera_id, epoch_id)
        return Epoch(epoch_id, key, stanzas), started_s

    def _in_force(self) -> tuple[Recipient, ...]:
        now_us = int(self._wall_clock() * 1_000_000)
        admitted = (each.recipient for each in self._scoped if each.scope.admits(self._camera_id, now_us))
        return tuple({recipient.recipient_id: recipient for recipient in admitted}.values())


def _checked(recipients: Iterable[Recipient | ScopedRecipient]) -> tuple[ScopedRecipient, ...]:
    given = tuple(map(scoped, recipients))
    distinct_recipients(each.recipient for each in given)
    return given
