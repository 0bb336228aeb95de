from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import FormatError, Malformed
from keys import CameraKey, Recipient, SecretBytes, key_files
from keys.identity_file import LockedIdentity
from keys.suite import Suite

VECTORS = Path(__file__).parent / "vectors"
KINDS: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    "hybrid.recipient": (key_files.parse_recipient, key_files.render_recipient),
    "plain.recipient": (key_files.parse_recipient, key_files.render_recipient),
    "door.pub": (key_files.parse_camera_public, key_files.render_camera_public),
    "door.camera": (key_files.parse_camera, key_files.render_camera),
    "hybrid.identity": (LockedIdentity.parse, bytes),
    "plain.identity": (LockedIdentity.parse, bytes),
}


def test_the_frozen_files_hold_the_keys_that_went_into_them() -> None:
    for name, suite in (("hybrid", Suite.MLKEM768_X25519), ("plain", Suite.X25519)):
        recipient = key_files.parse_recipient((VECTORS / f"{name}.recipient").read_bytes())
        assert (recipient.name, recipient.suite) == (name, suite)
    camera = key_files.parse_camera((VECTORS / "door.camera").read_bytes())
    assert camera.seed == SecretBytes(bytes(range(32, 64)))
    assert camera.public == key_files.parse_camera_public((VECTORS / "door.pub").read_bytes())


@pytest.mark.parametrize("name", KINDS)
def test_the_frozen_files_are_written_the_same_today(name: str) -> None:
    parse, render = KINDS[name]
    data = (VECTORS / name).read_bytes()
    assert render(parse(data)) == data


def test_fresh_keys_are_read_back() -> None:
    for suite in Suite:
        recipient, _ = Recipient.generate("alice", suite)
        assert key_files.parse_recipient(key_files.render_recipient(recipient)) == recipient
    camera = CameraKey.generate("door")
    again = key_files.parse_camera(key_files.render_camera(camera))
    assert (again.seed, again.public) == (camera.seed, camera.public)


@pytest.mark.parametrize("name", KINDS)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_changed_files_raise_only_format_errors_or_are_canonical(name: str, data: st.DataObject) -> None:
    parse, render = KINDS[name]
    content = bytearray((VECTORS / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        end = data.draw(st.sampled_from([at, at + 1, at + 4]))
        content[at:end] = data.draw(st.binary(max_size=3))
    with contextlib.suppress(FormatError):
        assert render(parse(bytes(content))) == content


@pytest.mark.parametrize("name", KINDS)
@given(data=st.binary(max_size=400))
def test_random_bytes_raise_only_format_errors(name: str, data: bytes) -> None:
    first_line = (VECTORS / name).read_bytes().split(b"\n")[0] + b"\n"
    for attempt in (data, first_line + data):
        with pytest.raises(FormatError):
            KINDS[name][0](attempt)


@pytest.mark.parametrize("name", KINDS)
def test_a_cut_file_is_refused(name: str) -> None:
    parse, _ = KINDS[name]
    data = (VECTORS / name).read_bytes()
    for length in (*range(0, len(data) - 1, 7), len(data) - 1):
        with pytest.raises(FormatError):
            parse(data[:length])


@pytest.mark.parametrize("name", ["hybrid.recipient", "plain.recipient", "door.pub", "door.camera"])
def test_an_id_that_is_not_the_keys_is_refused(name: str) -> None:
    lines = (VECTORS / name).read_bytes().split(b"\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(b"id: "))
    lines[at] = b"id: " + b"0" * 32
    with pytest.raises(Malformed, match="field id"):
        KINDS[name][0](b"\n".join(lines))


def test_a_recipient_key_of_low_order_is_refused_with_the_file_name() -> None:
    data = b"veilcam-recipient v1\nname: eve\nsuite: x25519\nid: 00\nkey: " + b"A" * 43 + b"=\n"
    with pytest.raises(Malformed, match=r"eve\.recipient: field key: .*nothing can be encrypted"):
        key_files.parse_recipient(data, where="eve.recipient")
