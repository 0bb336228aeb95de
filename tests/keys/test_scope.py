"""Recipients with a scope, and epochs that keep to it."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import FormatError, NoMatchingIdentity, UsageError
from keys import EpochRing, Recipient, unwrap_epoch_key
from keys.scope import Scope, ScopedRecipient, load_scoped, parse_scoped, render_scoped, save_scoped
from keys.store import save_recipient
from keys.suite import Suite

CAMERA, OTHER_CAMERA = b"c" * 16, b"o" * 16
ALICE, ALICE_IDENTITY = Recipient.generate("alice", Suite.X25519)
BOB, BOB_IDENTITY = Recipient.generate("bob", Suite.X25519)
DAY_S = 86_400
START_S = 1_800_000_000


def days(first: int, last: int, **more: frozenset[bytes]) -> Scope:
    return Scope(from_us=(START_S + first * DAY_S) * 10**6, until_us=(START_S + last * DAY_S) * 10**6, **more)


class Clock:
    def __init__(self) -> None:
        self.now_s = float(START_S)

    def __call__(self) -> float:
        return self.now_s


def test_each_day_is_sealed_to_the_recipient_of_that_day_alone() -> None:
    clock = Clock()
    ring = EpochRing(
        CAMERA,
        [ScopedRecipient(ALICE, days(0, 1)), ScopedRecipient(BOB, days(1, 2))],
        epoch_s=10 * DAY_S,
        clock=clock,
        wall_clock=clock,
    )
    first = ring.current()
    clock.now_s += DAY_S - 0.001
    assert ring.current() is first
    clock.now_s += 0.001
    second = ring.current()
    assert second.epoch_id != first.epoch_id
    for epoch, opens, stays_out in (
        (first, ALICE_IDENTITY, BOB_IDENTITY),
        (second, BOB_IDENTITY, ALICE_IDENTITY),
    ):
        assert unwrap_epoch_key(epoch.stanzas, [opens], CAMERA, epoch.epoch_id).secret == epoch.key.secret
        with pytest.raises(NoMatchingIdentity):
            unwrap_epoch_key(epoch.stanzas, [stays_out], CAMERA, epoch.epoch_id)


def test_behind_the_last_scope_epochs_are_sealed_to_nobody_and_that_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    ring = EpochRing(CAMERA, [ScopedRecipient(ALICE, days(0, 1))], clock=clock, wall_clock=clock)
    clock.now_s += DAY_S
    with caplog.at_level(logging.ERROR):
        assert ring.current().stanzas == ()
    assert "sealed to nobody" in caplog.text
    ring.set_recipients([BOB])
    assert [stanza.recipient_id for stanza in ring.current().stanzas] == [BOB.recipient_id]


def test_another_cameras_recipient_gets_nothing_here() -> None:
    elsewhere = ScopedRecipient(BOB, Scope(cameras=frozenset({OTHER_CAMERA})))
    ring = EpochRing(CAMERA, [ALICE, elsewhere])
    assert [stanza.recipient_id for stanza in ring.current().stanzas] == [ALICE.recipient_id]
    with pytest.raises(UsageError, match="none of the 1 has a scope"):
        EpochRing(CAMERA, [elsewhere])


def test_a_recipient_may_have_several_scopes() -> None:
    clock = Clock()
    parts: list[Recipient | ScopedRecipient] = [
        ScopedRecipient(ALICE, days(0, 1)),
        ScopedRecipient(ALICE, days(2, 3)),
        BOB,
    ]
    ring = EpochRing(CAMERA, parts, epoch_s=10 * DAY_S, clock=clock, wall_clock=clock)
    counts = []
    for _ in range(3):
        counts.append(len(ring.current().stanzas))
        clock.now_s += DAY_S
    assert counts == [2, 1, 2]


@given(
    st.none() | st.frozensets(st.binary(min_size=16, max_size=16), min_size=1, max_size=5),
    st.none() | st.integers(-(10**10), 10**10),
    st.none() | st.integers(1, 10**9),
)
def test_what_is_written_is_read_back(
    cameras: frozenset[bytes] | None, start_s: int | None, length_s: int | None
) -> None:
    until_us = None if length_s is None else ((start_s or 0) + length_s) * 10**6
    scope = Scope(cameras, None if start_s is None else start_s * 10**6, until_us)
    given_recipient = ScopedRecipient(ALICE, scope)
    assert parse_scoped(render_scoped(given_recipient)) == given_recipient


@given(st.binary(max_size=300), st.integers(0, 600), st.integers(0, 255))
def test_broken_files_raise_only_format_errors(data: bytes, place: int, byte: int) -> None:
    broken = bytearray(render_scoped(ScopedRecipient(ALICE, days(0, 1, cameras=frozenset({CAMERA})))))
    broken[place % len(broken)] = byte
    for each in (data, bytes(broken)):
        with contextlib.suppress(FormatError):
            assert render_scoped(parse_scoped(each)) == each


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("cameras", "*"),
        ("cameras", f"{'ff' * 16},{'ee' * 16}"),
        ("cameras", f"{'ff' * 16},{'ff' * 16}"),
        ("from", "2026-13-01T00:00:00Z"),
        ("from", "2026-12-01"),
        ("until", "1999-01-01T00:00:00Z"),
    ],
)
def test_scopes_that_could_mean_two_things_are_refused(line: str, value: str) -> None:
    text = render_scoped(ScopedRecipient(ALICE, days(0, 1))).decode().splitlines()
    changed = [f"{line}: {value}" if each.startswith(f"{line}: ") else each for each in text]
    with pytest.raises(FormatError):
        parse_scoped("".join(f"{each}\n" for each in changed).encode())


def test_both_kinds_of_recipient_files_are_loaded(tmp_path: Path) -> None:
    scoped = ScopedRecipient(ALICE, days(0, 1))
    assert load_scoped(save_scoped(tmp_path, scoped)) == scoped
    assert load_scoped(save_recipient(tmp_path, BOB)) == ScopedRecipient(BOB)
