from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codec.fuzz import TARGETS, execute, mutate


@pytest.mark.parametrize("name", TARGETS)
def test_the_undamaged_sample_is_accepted(name: str) -> None:
    assert execute(name, TARGETS[name][1]) == "accepted"


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_samples_raise_nothing_but_our_errors(name: str) -> None:
    rng = random.Random(name)
    for _ in range(150):
        outcome = execute(name, mutate(TARGETS[name][1], rng))
        assert name != "whole stream" or outcome == "accepted"


@given(st.sampled_from(list(TARGETS)), st.binary(max_size=300))
@settings(max_examples=150, deadline=None)
def test_random_bytes_raise_nothing_but_our_errors(name: str, data: bytes) -> None:
    execute(name, data)
