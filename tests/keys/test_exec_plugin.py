"""Keys behind a program: the shipped example, and programs that misbehave."""

from __future__ import annotations

import base64
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

import keys.plugins.example
from base.errors import AuthenticationFailed, FormatError, KeyUnavailable, UsageError
from keys import Recipient, SecretBytes
from keys.backends import open_identity
from keys.exec_plugin import ExecUri, open_exec, parse_answer
from keys.suite import Suite

SECRET = SecretBytes(bytes(range(32)))
EXAMPLE = keys.plugins.example.__file__


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the example plug-in, with a key ``custody``."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "custody.pem").write_bytes(pem)
    monkeypatch.setenv("VEILCAM_EXAMPLE_KEYS", str(tmp_path))
    return tmp_path


def uri(*arguments: str, key: str = "custody", timeout_s: int = 30) -> str:
    """The URI of a Python program."""
    parts = [f"key={quote(key)}", f"timeout-s={timeout_s}", *(f"arg={quote(each)}" for each in arguments)]
    return f"exec:{sys.executable}?{'&'.join(parts)}"


def program(folder: Path, body: str) -> str:
    """The URI of a plug-in that does ``body``, with the request in ``request``."""
    path = folder / "plugin.py"
    path.write_text(f"import json, os, sys, time\nrequest = json.loads(sys.stdin.readline())\n{body}\n")
    return uri(str(path), timeout_s=2)


def test_what_is_sealed_to_the_example_opens_through_it(service: Path) -> None:
    opener = open_identity(uri(EXAMPLE))
    assert opener.recipient.suite is Suite.P256
    assert opener.unwrap(opener.recipient.wrap(SECRET, b"info"), b"info") == SECRET
    with pytest.raises(AuthenticationFailed):
        opener.unwrap(opener.recipient.wrap(SECRET, b"info"), b"other")


def test_a_service_that_locks_its_key_stops_the_opening(service: Path) -> None:
    opener = open_identity(uri(EXAMPLE))
    wrapped = opener.recipient.wrap(SECRET, b"")
    (service / "custody.locked").touch()
    with pytest.raises(KeyUnavailable, match="denied: the key is locked"):
        opener.unwrap(wrapped, b"")


def test_a_key_that_the_service_does_not_have_is_named(service: Path) -> None:
    with pytest.raises(KeyUnavailable, match="no such key"):
        open_identity(uri(EXAMPLE, key="nobody"))


def test_a_plugin_may_do_all_of_hpke(tmp_path: Path) -> None:
    recipient, _ = Recipient.generate("remote")
    body = f"""
import base64
if request["do"] == "describe":
    answer = {{"ok": True, "name": "remote", "suite": "mlkem768x25519", "can": "unwrap",
              "public": "{_base64(recipient.public_key)}"}}
elif base64.b64decode(request["info"]) == b"right":
    answer = {{"ok": True, "secret": base64.b64encode(bytes(range(32))).decode()}}
else:
    answer = {{"ok": False, "error": "does not open", "message": "no"}}
print(json.dumps(answer))"""
    opener = open_exec(program(tmp_path, body))
    assert opener.recipient == recipient
    assert opener.unwrap(b"anything", b"right") == SECRET
    with pytest.raises(AuthenticationFailed):
        opener.unwrap(b"anything", b"wrong")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("", FormatError),
        ("print('hello')", FormatError),
        ("print('[]')", FormatError),
        ("""print('{"ok": 1}')""", FormatError),
        ("sys.stdout.write('x' * 100_000)", FormatError),
        ("sys.stdout.write('{\"ok\": true')", FormatError),
        (
            """print('{"ok": true, "name": "a", "suite": "rot13", "public": "", "can": "agree"}')""",
            FormatError,
        ),
        (
            """print('{"ok": true, "name": "../a", "suite": "p256", "public": "", "can": "agree"}')""",
            FormatError,
        ),
        (
            """print('{"ok": true, "name": "a", "suite": "p256", "public": "AA==", "can": "agree"}')""",
            FormatError,
        ),
        ("sys.exit(3)", FormatError),
        ("""print('{"ok": false}')""", KeyUnavailable),
        ("time.sleep(30)", KeyUnavailable),
    ],
)
def test_whatever_a_plugin_says_is_a_clear_error_in_time(
    tmp_path: Path, body: str, error: type[Exception]
) -> None:
    before = time.monotonic()
    with pytest.raises(error):
        open_exec(program(tmp_path, body))
    assert time.monotonic() - before < 10


def test_a_refusal_cannot_write_on_our_terminal(tmp_path: Path) -> None:
    body = (
        r"""print(json.dumps({"ok": False, "error": "denied", "message": "\x1b[2J\r\nhello" + "x" * 5000}))"""
    )
    with pytest.raises(KeyUnavailable) as caught:
        open_exec(program(tmp_path, body))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_a_plugin_does_not_inherit_passphrases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VEILCAM_PASSPHRASE", "open sesame")
    monkeypatch.setenv("VEILCAM_PASSPHRASE_ALICE", "open sesame")
    body = """
found = [v for v in os.environ if v.startswith("VEILCAM_PASSPHRASE")]
print(json.dumps({"ok": False, "error": "denied", "message": "found " + str(found)}))"""
    with pytest.raises(KeyUnavailable, match=r"found \[\]"):
        open_exec(program(tmp_path, body))


def test_a_plugin_that_is_not_there_is_named() -> None:
    with pytest.raises(KeyUnavailable, match="cannot be started"):
        open_exec("exec:/no/such/program?key=k")


@pytest.mark.parametrize(
    "text",
    [
        "exec:relative?key=k",
        "exec:/x",
        "exec:/x?key=",
        "exec:/x?key=a&key=b",
        "exec:/x?key=a&timeout-s=0",
        "exec:/x?key=a&timeout-s=9999999999",
        "exec:/x?key=a&shell=1",
        "exec:/x?key",
        "exec:/x?key=%0a",
        "file:/x",
    ],
)
def test_a_uri_that_says_too_little_or_too_much_is_refused(text: str) -> None:
    with pytest.raises((UsageError, FormatError)):
        ExecUri.parse(text)


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_random_answers_raise_only_format_errors(data: bytes) -> None:
    try:
        answer = parse_answer(data)
    except FormatError:
        return
    assert isinstance(answer["ok"], bool)
