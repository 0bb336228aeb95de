from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from base.errors import UsageError
from keys import EpochRing, Recipient, unwrap_epoch_key
from keys.suite import Suite

CAMERA = b"c" * 16
ALICE, ALICE_IDENTITY = Recipient.generate("alice", Suite.X25519)
BOB, BOB_IDENTITY = Recipient.generate("bob", Suite.X25519)


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_an_epoch_lasts_until_its_time_is_over() -> None:
    clock = Clock()
    ring = EpochRing(CAMERA, [ALICE], epoch_s=600, clock=clock)
    first = ring.current()
    clock.now_s += 599.9
    assert ring.current() is first
    clock.now_s += 0.1
    second = ring.current()
    assert second.epoch_id != first.epoch_id
    assert second.key.secret != first.key.secret
    assert ring.rotations == 1
    clock.now_s += 599
    assert ring.current() is second


def test_every_start_begins_a_fresh_epoch() -> None:
    first, second = (EpochRing(CAMERA, [ALICE]).current() for _ in range(2))
    assert first.epoch_id != second.epoch_id
    assert first.key.secret != second.key.secret


def test_the_recipients_of_an_epoch_open_it() -> None:
    epoch = EpochRing(CAMERA, [ALICE, BOB]).current()
    for identity in (ALICE_IDENTITY, BOB_IDENTITY):
        opened = unwrap_epoch_key(epoch.stanzas, [identity], CAMERA, epoch.epoch_id)
        assert opened.secret == epoch.key.secret


def test_a_change_of_recipients_begins_an_epoch_for_the_new_ones_alone() -> None:
    ring = EpochRing(CAMERA, [ALICE])
    first = ring.current()
    ring.set_recipients([BOB])
    second = ring.current()
    assert second.epoch_id != first.epoch_id
    assert [stanza.recipient_id for stanza in second.stanzas] == [BOB.recipient_id]


def test_the_same_recipients_in_another_order_change_nothing() -> None:
    ring = EpochRing(CAMERA, [ALICE, BOB])
    first = ring.current()
    ring.set_recipients([BOB, ALICE, BOB])
    assert ring.current() is first
    assert ring.rotations == 0


def test_an_empty_set_of_recipients_is_refused_and_the_old_stay() -> None:
    ring = EpochRing(CAMERA, [ALICE])
    first = ring.current()
    with pytest.raises(UsageError, match="recipients"):
        ring.set_recipients([])
    assert ring.current() is first


def test_rotation_on_request() -> None:
    clock = Clock()
    ring = EpochRing(CAMERA, [ALICE], epoch_s=600, clock=clock)
    first = ring.current()
    clock.now_s += 500
    second = ring.rotate()
    assert second is not first
    clock.now_s += 500
    assert ring.current() is second


def test_a_clock_that_jumps_back_ends_the_epoch() -> None:
    clock = Clock()
    ring = EpochRing(CAMERA, [ALICE], clock=clock)
    first = ring.current()
    clock.now_s -= 1
    assert ring.current() is not first


def test_an_epoch_in_use_keeps_its_key_after_the_next_has_begun() -> None:
    ring = EpochRing(CAMERA, [ALICE])
    epoch = ring.current()
    ring.rotate()
    opened = unwrap_epoch_key(epoch.stanzas, [ALICE_IDENTITY], CAMERA, epoch.epoch_id)
    assert opened.secret == epoch.key.secret


def test_threads_see_whole_epochs_one_after_the_other() -> None:
    ticks = count()
    ring = EpochRing(CAMERA, [ALICE], epoch_s=10, clock=lambda: float(next(ticks)))
    with ThreadPoolExecutor(8) as pool:
        epochs = list(pool.map(lambda _: ring.current(), range(400)))
    distinct = {epoch.epoch_id: epoch for epoch in epochs}
    assert len(distinct) <= ring.rotations + 1 <= 400
    assert ring.rotations >= 400 // 10
    for epoch in distinct.values():
        opened = unwrap_epoch_key(epoch.stanzas, [ALICE_IDENTITY], CAMERA, epoch.epoch_id)
        assert opened.secret == epoch.key.secret


@pytest.mark.parametrize("epoch_s", [0, -1, float("nan")])
def test_an_epoch_without_length_is_refused(epoch_s: float) -> None:
    with pytest.raises(UsageError, match="epoch_s"):
        EpochRing(CAMERA, [ALICE], epoch_s=epoch_s)


def test_a_camera_id_of_another_length_is_refused() -> None:
    with pytest.raises(UsageError, match="camera id"):
        EpochRing(b"short", [ALICE])


def test_rotations_are_logged_with_id_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    ring = EpochRing(CAMERA, [ALICE])
    with caplog.at_level(logging.INFO, logger="keys"):
        epoch = ring.rotate()
    assert caplog.messages == [f"epoch {epoch.epoch_id.hex()} begins (request)"]
