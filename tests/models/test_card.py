from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import AuthenticationFailed, FormatError, LimitExceeded, UnknownVersion
from models.card import MAX_CARD_BYTES, read_card, read_weights


def _write_card(folder: Path, **changes: object) -> Path:
    card = {
        "card": 1,
        "name": "test",
        "network": {"bands": 6, "size_multiple": 64},
        "files": {"net.onnx": {"sha256": hashlib.sha256(b"net").hexdigest(), "bytes": 3}},
        **changes,
    }
    path = folder / "card.json"
    path.write_text(json.dumps(card))
    (folder / "net.onnx").write_bytes(b"net")
    return path


def test_weights_that_are_not_those_on_the_card_are_refused(tmp_path: Path) -> None:
    card = read_card(_write_card(tmp_path))
    assert read_weights(card, "net.onnx", tmp_path) == b"net"
    (tmp_path / "net.onnx").write_bytes(b"nest")
    with pytest.raises(AuthenticationFailed, match=r"net\.onnx"):
        read_weights(card, "net.onnx", tmp_path)


def test_weights_that_the_card_does_not_name_are_refused(tmp_path: Path) -> None:
    card = read_card(_write_card(tmp_path))
    (tmp_path / "other.onnx").write_bytes(b"other")
    with pytest.raises(FormatError, match=r"other\.onnx is missing"):
        read_weights(card, "other.onnx", tmp_path)


def test_a_newer_card_is_refused_by_version(tmp_path: Path) -> None:
    with pytest.raises(UnknownVersion, match="card version 2"):
        read_card(_write_card(tmp_path, card=2))


def test_an_endless_card_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_bytes(b" " * (MAX_CARD_BYTES + 1))
    with pytest.raises(LimitExceeded):
        read_card(path)


def test_the_model_id_follows_the_weights(tmp_path: Path) -> None:
    first = read_card(_write_card(tmp_path)).model_id
    other = {"net.onnx": {"sha256": "00" * 32, "bytes": 3}}
    assert len(first) == 8
    assert read_card(_write_card(tmp_path, files=other)).model_id != first
    assert read_card(_write_card(tmp_path, name="renamed")).model_id == first


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.binary(max_size=200) | _json.map(lambda value: json.dumps(value).encode()))
def test_anything_else_is_a_format_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("cards") / "card.json"
    path.write_bytes(data)
    with pytest.raises(FormatError):
        read_card(path)


@given(st.sampled_from(["card", "name", "network", "files"]), _json)
def test_a_card_with_one_wrong_field_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, field: str, value: object
) -> None:
    path = _write_card(tmp_path_factory.mktemp("cards"), **{field: value})
    with contextlib.suppress(FormatError):
        read_card(path)
