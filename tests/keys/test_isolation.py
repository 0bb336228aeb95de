"""What is left of a key in a process that has used it: core dump, environment, log, error, pickle.

The limit: CPython and OpenSSL copy bytes and free them without clearing, so a key may outlive its use in
freed memory until that is used again. What is shown is that nothing keeps it: our buffers are cleared when
they go, and after some more allocations no copy is left. A process that opens through a service never has the
key at all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from base.errors import VeilError
from keys import CameraKey, EpochKey, Recipient, SecretBytes
from keys.secret import RevealToken
from keys.shares import split_identity
from keys.suite import Suite
from tests.veilcam.cli import ROOT, environment

REVEAL = RevealToken("test")
_READY = b"ready\n"

USE_KEYS = """
import gc, sys
from keys import CameraKey, EpochRing, Recipient, SecretBytes, unwrap_epoch_key
from keys.secret import RevealToken

def work():
    seed = SecretBytes(bytes.fromhex(sys.stdin.readline().strip()))
    camera = CameraKey("gate", seed)
    camera.sign(b"message")
    recipient, identity = Recipient.generate("custody")
    ring = EpochRing(camera.camera_id, [recipient])
    epoch = ring.current()
    opened = unwrap_epoch_key(epoch.stanzas, [identity], camera.camera_id, epoch.epoch_id)
    keys = opened.segment(camera.camera_id, b"s" * 16, epoch.epoch_id, 7)
    keys.sealed_cipher().seal(bytes(11) + b"\\x01", b"picture", b"")
    with open(sys.argv[1], "wb") as file:
        for secret in (seed, identity.seed, epoch.key.secret, keys.secret):
            # XORed, so that the test's own note is not what it finds.
            file.write(bytes(byte ^ 0x5A for byte in secret.expose(RevealToken("test"))))

def residue():
    # Freed memory is used again: what a longer run would do by itself.
    for size in (32, 33, 48, 64, 65, 80, 96, 97, 128, 160, 256, 512, 1024):
        blocks = [bytes(size) for _ in range(3000)]
        blocks += [bytearray(size) for _ in range(3000)]

work()
gc.collect()
residue()
gc.collect()
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
"""


def _core_of(process: subprocess.Popen[bytes]) -> bytes:
    """All writable memory of a running process: what a core dump of it would hold."""
    blocks = []
    with Path(f"/proc/{process.pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines():
            place, mode = line.split()[:2]
            if not mode.startswith("rw"):
                continue
            start, end = (int(number, 16) for number in place.split("-"))
            memory.seek(start)
            block = memory.read(end - start)
            assert len(block) == end - start
            blocks.append(block)
    return b"".join(blocks)


def _start(code: str, *arguments: str | Path, **variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(PYTHONPATH=str(ROOT), **variables),
        cwd=ROOT,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Memory and environment of a process that has used keys, and the keys."""
    folder = tmp_path_factory.mktemp("core")
    process = _start(USE_KEYS, folder / "secrets")
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(os.urandom(32).hex().encode() + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == _READY
        environ = Path(f"/proc/{process.pid}/environ").read_bytes()
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        core = _core_of(process)
    finally:
        _end(process)
    noted = bytes(byte ^ 0x5A for byte in (folder / "secrets").read_bytes())
    names = ("camera", "identity", "epoch", "segment")
    secrets = {name: noted[i * 32 : i * 32 + 32] for i, name in enumerate(names)}
    return {**secrets, "core": core, "environ": environ, "command": command}


def test_the_search_itself_finds_what_is_there(tmp_path: Path) -> None:
    """A process that keeps its key: the core has it. Without this the tests below could not fail."""
    code = """
import sys
from keys import SecretBytes
kept = SecretBytes(bytes(byte ^ 0x5A for byte in bytes.fromhex(sys.argv[1])))
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
"""
    secret = os.urandom(32)
    process = _start(code, bytes(byte ^ 0x5A for byte in secret).hex())
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == _READY
        is_there = secret in _core_of(process)
    finally:
        _end(process)
    assert is_there


@pytest.mark.parametrize("name", ["camera", "identity", "epoch", "segment"])
def test_a_core_dump_after_use_holds_no_key(used: dict[str, bytes], name: str) -> None:
    is_left = used[name] in used["core"]  # not in the assertion, which would print it all
    assert not is_left


@pytest.mark.parametrize("name", ["camera", "identity", "epoch", "segment"])
def test_environment_and_command_line_hold_no_key(used: dict[str, bytes], name: str) -> None:
    for text in (used["environ"], used["command"]):
        assert used[name] not in text
        assert used[name].hex().encode() not in text


def test_a_process_that_opens_through_a_service_never_has_the_private_key(tmp_path: Path) -> None:
    """Not after use but at any time: here while it holds everything it got."""
    key = ec.generate_private_key(ec.SECP256R1())
    scalar = key.private_numbers().private_value.to_bytes(32, "big")
    (tmp_path / "k.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    wrapped = Recipient("k", Suite.P256, point).wrap(SecretBytes(b"k" * 32), b"info")
    code = """
import sys
from keys.backends import open_identity
opener = open_identity(f"exec:{sys.executable}?arg=-m&arg=keys.plugins.example&key=k")
secret = opener.unwrap(bytes.fromhex(sys.argv[1]), b"info")
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
"""
    process = _start(code, wrapped.hex(), VEILCAM_EXAMPLE_KEYS=str(tmp_path))
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == _READY
        core = _core_of(process)
    finally:
        _end(process)
    assert [b"k" * 32 in core, scalar in core, scalar[::-1] in core] == [True, False, False]


def test_our_buffers_are_cleared_when_the_last_holder_goes() -> None:
    secret = SecretBytes(b"the secret of thirty-two bytes..")
    buffer = secret._data
    view = secret.expose(REVEAL)
    key = EpochKey(secret)
    del secret, key
    assert bytes(view) == b"the secret of thirty-two bytes.."  # a view keeps it: nobody encrypts under zeros
    buffer.wipe()
    assert bytes(view) == bytes(32)


@pytest.mark.parametrize(
    "action",
    [
        lambda: split_identity(Recipient.generate("a")[1], 9, ["b", "c"]),
        lambda: CameraKey("gate", SecretBytes(b"short secret")),
        lambda: EpochKey(SecretBytes(b"short secret")),
    ],
)
def test_errors_name_lengths_and_never_bytes(action: object) -> None:
    assert callable(action)
    with pytest.raises(VeilError) as caught:
        action()
    assert "short secret" not in str(caught.value)
    assert "73686f7274" not in str(caught.value)
