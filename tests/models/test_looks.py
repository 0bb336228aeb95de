from __future__ import annotations

import numpy as np

from models.looks import KEPT_LOOKS, QUIET_GAP, LookMemory
from models.session import Array


def _map(value: int) -> Array:
    return np.full((1, 6, 4, 4), value, np.uint8)


def test_a_gate_shuts_at_once_and_opens_after_several_looks_in_a_row() -> None:
    memory = LookMemory(1)
    seen = []
    for value in (128, 0, 128, 128, 128, 128, 128):
        memory.add(_map(value), _map(5))
        seen.append(int(memory.in_force[0].max()))
    assert seen == [128] + KEPT_LOOKS * [0] + 2 * [128]


def test_the_strongest_coring_of_the_last_looks_holds() -> None:
    memory = LookMemory(1)
    for value in (3, 20, 4):
        memory.add(_map(128), _map(value))
    assert int(memory.in_force[1].min()) == 20


def test_gates_in_force_are_never_more_open_than_the_newest_look() -> None:
    rng = np.random.default_rng(1)
    for refresh in (1, 2):
        memory = LookMemory(refresh)
        for _ in range(12):
            look = rng.integers(0, 129, (1, 6, 9, 11), dtype=np.uint8)
            memory.add(look, look)
            assert (memory.in_force[0] <= look).all()


def test_looks_come_at_the_asked_rate_while_things_change_and_seldom_in_a_quiet_scene() -> None:
    memory = LookMemory(2)
    looks = []
    for picture in range(60):
        if memory.is_due(changing=picture < 20 or picture == 50):
            memory.add(_map(128), _map(0))
            looks.append(picture)
    busy = [picture for picture in looks if picture < 20]
    assert busy == list(range(0, 20, 2))
    assert max(np.diff(looks)) == QUIET_GAP
    assert 50 in looks  # the first picture with something new in a quiet scene is looked at


def test_a_look_every_picture_stays_one_while_things_change() -> None:
    memory = LookMemory(1)
    for _ in range(5):
        assert memory.is_due(changing=True)
        memory.add(_map(1), _map(1))
