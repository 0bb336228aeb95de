"""Secrets must not show up in anything that prints, logs, copies or stores objects."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
import logging
import operator
import pickle
import pprint
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from base.errors import VeilError
from keys import (
    CameraKey,
    EpochKey,
    EpochRing,
    Identity,
    Recipient,
    RegionKeys,
    SecretBytes,
    SegmentKeys,
    key_files,
    store,
    unwrap_epoch_key,
    wrap_epoch_key,
)
from keys.epoch import Epoch
from keys.secret import RevealToken
from keys.suite import Suite

KEY = b"\x00the secret of thirty-two bytes\xff"
PASSPHRASE = "open sesame, quickly"
CAMERA, STREAM, EPOCH = b"c" * 16, b"s" * 16, b"e" * 16
ALICE = Recipient.generate("alice", Suite.X25519)[0]


def _holders() -> list[object]:
    epoch_key = EpochKey(SecretBytes(KEY))
    ring = EpochRing(CAMERA, [ALICE])
    object.__setattr__(ring.current(), "key", epoch_key)
    return [
        SecretBytes(KEY),
        epoch_key,
        SegmentKeys(SecretBytes(KEY)),
        SegmentKeys(SecretBytes(KEY)).sealed_cipher(),
        RegionKeys({3: SecretBytes(KEY)}),
        Identity("alice", Suite.X25519, SecretBytes(KEY)),
        Identity("alice", Suite.MLKEM768_X25519, SecretBytes(KEY)),
        CameraKey("door", SecretBytes(KEY)),
        Epoch(EPOCH, epoch_key, wrap_epoch_key(epoch_key, [ALICE], CAMERA, EPOCH)),
        ring,
        [SecretBytes(KEY)],
        SecretBytes(KEY).expose(RevealToken("test")),
    ]


HOLDERS = [pytest.param(each, id=f"{i}-{type(each).__name__}") for i, each in enumerate(_holders())]


def _assert_clean(text: str, secret: bytes = KEY) -> None:
    spellings = {
        "text": secret[1:-1].decode(),
        "repr": repr(secret)[2:-1],
        "hex": secret.hex(),
        "upper hex": secret.hex().upper(),
        "base64": base64.b64encode(secret).decode(),
        "list": ", ".join(str(byte) for byte in secret),
        "integer": str(int.from_bytes(secret, "big")),
        "start": repr(secret[1:9])[2:-1],
    }
    found = [name for name, spelling in spellings.items() if spelling in text]
    assert not found, f"the secret shows up as {found}"


def test_the_check_itself_finds_secrets() -> None:
    for text in (repr(KEY), KEY.hex(), str(list(KEY)), base64.b64encode(KEY).decode()):
        with pytest.raises(AssertionError, match="shows up"):
            _assert_clean(text)


@pytest.mark.parametrize("holder", HOLDERS)
def test_nothing_that_prints_objects_shows_the_secret(
    holder: object, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("keys").error("%s %r", holder, holder)
    attributes = repr(vars(holder)) if hasattr(holder, "__dict__") else ""
    for text in (
        repr(holder),
        str(holder),
        f"{holder}",
        f"{holder!s:>5}",
        pprint.pformat(holder),
        caplog.text,
        attributes,
    ):
        _assert_clean(text)


@pytest.mark.parametrize("holder", HOLDERS[:-1])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_is_refused(holder: object, protocol: int) -> None:
    with pytest.raises(TypeError, match=r"holds a secret|cannot pickle"):
        pickle.dumps(holder, protocol)


@pytest.mark.parametrize("holder", HOLDERS[:-1])
def test_deep_copies_are_refused(holder: object) -> None:
    with pytest.raises(TypeError, match="holds a secret"):
        copy.deepcopy(holder)


@pytest.mark.parametrize("holder", [each for each in _holders()[:-2] if not isinstance(each, Epoch)])
def test_copies_and_states_are_refused(holder: object) -> None:
    attempts: list[Callable[[object], object]] = [
        copy.copy,
        operator.methodcaller("__getstate__"),
        operator.methodcaller("__reduce__"),
    ]
    for attempt in attempts:
        with pytest.raises(TypeError, match="holds a secret"):
            attempt(holder)


def test_dataclass_and_json_conversions_are_refused() -> None:
    epoch = next(each for each in _holders() if isinstance(each, Epoch))
    for convert in (dataclasses.asdict, dataclasses.astuple):
        with pytest.raises(TypeError, match="holds a secret"):
            convert(epoch)
    with pytest.raises(TypeError, match="not JSON serializable"):
        json.dumps({"key": SecretBytes(KEY)})


def _product_traceback(action: Callable[[], object]) -> str:
    """What a crash reporter could print: messages, causes, and the locals of the product's frames."""
    with pytest.raises(VeilError) as caught:
        action()
    report = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    lines = []
    current: traceback.TracebackException | None = report
    while current is not None:
        lines += list(current.format_exception_only())
        for frame in current.stack:
            if Path(frame.filename).parent.name == "keys" and "tests" not in Path(frame.filename).parts:
                lines += [str(frame.line), *(f"{k} = {v}" for k, v in (frame.locals or {}).items())]
        current = current.__cause__ or current.__context__
    assert any(" = " in line for line in lines), "no frame of the product in the traceback"
    return "\n".join(lines)


def test_a_failed_open_of_a_chunk_shows_no_key() -> None:
    cipher = EpochKey(SecretBytes(KEY)).segment(CAMERA, STREAM, EPOCH, 0).sealed_cipher()
    _assert_clean(_product_traceback(lambda: cipher.open(bytes(12), bytes(40), b"")))


@pytest.mark.parametrize("suite", Suite)
def test_a_failed_unwrap_shows_no_key(suite: Suite) -> None:
    identity = Identity("alice", suite, SecretBytes(KEY))
    stanzas = wrap_epoch_key(EpochKey(SecretBytes(KEY)), [identity.recipient], CAMERA, EPOCH)
    _assert_clean(_product_traceback(lambda: unwrap_epoch_key(stanzas, [identity], CAMERA, b"x" * 16)))


def test_a_failed_derivation_shows_no_key() -> None:
    key = EpochKey(SecretBytes(KEY))
    _assert_clean(_product_traceback(lambda: key.segment(CAMERA, STREAM, EPOCH, -1)))


def test_a_wrong_passphrase_shows_neither_passphrase_nor_key(tmp_path: Path) -> None:
    identity = Identity("alice", Suite.X25519, SecretBytes(KEY))
    path = store.save_identity(tmp_path, identity, "another one", log2_n=10)
    text = _product_traceback(lambda: store.load_identity(path, PASSPHRASE))
    _assert_clean(text)
    _assert_clean(text, f"x{PASSPHRASE}x".encode())
    assert "sesame" not in text


def test_a_refused_passphrase_is_not_shown(tmp_path: Path) -> None:
    identity = Identity("alice", Suite.X25519, SecretBytes(KEY))
    assert "sesame" not in _product_traceback(
        lambda: store.save_identity(tmp_path, identity, PASSPHRASE * 100)
    )
    path = store.save_identity(tmp_path, identity, PASSPHRASE, log2_n=10)
    assert "sesame" not in _product_traceback(lambda: store.load_identity(path, PASSPHRASE * 100))


def test_a_saved_identity_file_does_not_hold_the_key(tmp_path: Path) -> None:
    identity = Identity("alice", Suite.X25519, SecretBytes(KEY))
    path = store.save_identity(tmp_path, identity, PASSPHRASE, log2_n=10)
    _assert_clean(path.read_text())


def test_a_broken_camera_file_is_refused_without_quoting_it() -> None:
    good = key_files.render_camera(CameraKey("door", SecretBytes(KEY)))
    for broken in (good[:-1], good + b"x", good.replace(b"id: ", b"id: 0"), good.replace(b"seed", b"sead")):
        with pytest.raises(VeilError) as caught:
            key_files.parse_camera(broken)
        _assert_clean("".join(traceback.format_exception(caught.value)))
