"""Names of cameras: believed per client, and only so many of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from analytics.worker.cameras import FORGET_S, MAX_CLIENTS, CameraNames


def test_a_camera_keeps_its_turn_and_no_client_gets_into_that_of_another() -> None:
    names = CameraNames(2)
    assert names.camera("10.0.0.7", "gate", 0) == names.camera("10.0.0.7", "gate", 1)
    assert names.camera("10.0.0.7", "gate", 2) != names.camera("10.0.0.8", "gate", 2)


def test_names_above_the_bound_share_one_turn_until_others_are_forgotten() -> None:
    names = CameraNames(2)
    known = [names.camera("a", name, 0) for name in ("gate", "yard")]
    invented = {names.camera("a", f"x{n}", 1) for n in range(100)}
    assert len(invented) == 1
    assert not invented & set(known)
    assert [names.camera("a", name, FORGET_S / 2) for name in ("gate", "yard")] == known
    assert names.camera("a", "x0", FORGET_S * 1.4) in invented
    assert names.camera("a", "x0", FORGET_S * 1.6) not in invented


def test_clients_are_forgotten_before_they_fill_the_memory() -> None:
    names = CameraNames(1)
    first = names.camera("first", "gate", 0)
    shared = names.camera("first", "yard", 0)
    assert shared != first
    for n in range(MAX_CLIENTS):
        names.camera(f"10.0.{n}", "gate", 0)
    assert names.camera("first", "yard", 0) != shared  # nothing is known of it any more


@given(st.lists(st.tuples(st.sampled_from("ab"), st.text(max_size=2), st.floats(0, 10)), max_size=80))
def test_no_client_ever_has_more_turns_than_its_bound_and_one(asked: list[tuple[str, str, float]]) -> None:
    names, now_s = CameraNames(3), 0.0
    turns: dict[str, set[tuple[str, str]]] = {"a": set(), "b": set()}
    for client, name, step_s in asked:
        now_s += step_s / 100  # nothing is forgotten
        turns[client].add(names.camera(client, name, now_s))
    assert all(len(found) <= 4 for found in turns.values())
