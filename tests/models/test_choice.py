from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.card import WEIGHTS, read_card, read_weights
from models.choice import MAX_ENTRIES, cache_file, choice_key, remember, remembered
from models.protector import CARD, GATES_GRAPH
from models.session import BACKEND_VARIABLE, open_session

GRAPH = read_weights(read_card(WEIGHTS / CARD), GATES_GRAPH)
INPUTS = (np.zeros((1, 1, 64, 64), np.uint8), np.zeros((1, 2, 32, 32), np.uint8))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(BACKEND_VARIABLE, raising=False)
    return tmp_path / "veilcam" / "backends.json"


def test_the_file_lies_where_the_users_caches_do() -> None:
    assert cache_file({"XDG_CACHE_HOME": "/var/c"}) == Path("/var/c/veilcam/backends.json")
    assert cache_file({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache/veilcam/backends.json"
    assert cache_file({}) == Path.home() / ".cache/veilcam/backends.json"


def test_a_choice_is_for_these_weights_this_size_and_these_threads_only() -> None:
    keys = {
        choice_key((b"a",), ((1, 1, 64, 64),), 1),
        choice_key((b"b",), ((1, 1, 64, 64),), 1),
        choice_key((b"a", b"b"), ((1, 1, 64, 64),), 1),
        choice_key((b"a",), ((1, 1, 64, 128),), 1),
        choice_key((b"a",), ((1, 1, 64, 64),), 2),
    }
    assert len(keys) == 5
    assert choice_key((b"a",), ((1, 1, 64, 64),), 1) in keys


def test_choices_are_kept_and_the_oldest_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "new" / "backends.json"
    for index in range(MAX_ENTRIES + 5):
        remember(f"key {index}", f"name {index}", path)
    assert remembered("key 0", path) is None
    assert remembered("key 5", path) == "name 5"
    assert remembered(f"key {MAX_ENTRIES + 4}", path) == f"name {MAX_ENTRIES + 4}"


@given(st.binary(max_size=200) | st.just(b"[1]") | st.just(b'{"key": 3}') | st.just(b"[" * 50_000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_a_broken_file_is_as_if_it_were_not_there(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "backends.json"
    path.write_bytes(content)
    assert remembered("key", path) is None
    remember("key", "name", path)
    assert remembered("key", path) == "name"


def test_a_place_that_cannot_be_written_costs_nothing_but_the_measurement(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    remember("key", "name", tmp_path / "file" / "backends.json")
    assert remembered("key", tmp_path / "file" / "backends.json") is None


def test_candidates_are_measured_once_and_the_choice_is_used_again(cache: Path) -> None:
    first = open_session(GRAPH, INPUTS, threads=1, int8=GRAPH)
    (key,) = json.loads(cache.read_bytes())
    assert json.loads(cache.read_bytes()) == {key: first.name}
    other = "onnxruntime" if first.name != "onnxruntime" else "onnxruntime-int8"
    cache.write_text(json.dumps({key: other}))
    assert open_session(GRAPH, INPUTS, threads=1, int8=GRAPH).name == other
    cache.write_text(json.dumps({key: "a run-time of the future"}))
    assert open_session(GRAPH, INPUTS, threads=1, int8=GRAPH).name.startswith(("onnxruntime", "openvino"))


def test_the_variable_names_the_graph_too_and_measures_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wanted, int8, got in (
        ("onnxruntime", GRAPH, "onnxruntime"),
        ("onnxruntime-int8", GRAPH, "onnxruntime-int8"),
        ("onnxruntime-int8", None, "onnxruntime"),
    ):
        monkeypatch.setenv(BACKEND_VARIABLE, wanted)
        assert open_session(GRAPH, INPUTS, threads=1, int8=int8).name == got
    assert not cache.exists()
