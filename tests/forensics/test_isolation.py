"""What is left of keys in the memory of the two programs that use them: the camera's and the investigator's.

The commands themselves run, to their end, in a process that then goes on: after some more allocations its
writable memory, which is what a core dump would hold, is searched. See tests/keys/test_isolation.py for the
limit of what CPython permits.
"""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codec.container import read_access_units
from codec.segments import read_segments
from keys import CameraKey, IdentityKeys
from keys.secret import RevealToken, SecretBytes
from keys.store import load_camera, load_identity, save_camera, save_identity, save_recipient
from tests.forensics.recordings import Recording, authority
from tests.keys.test_isolation import _core_of
from tests.veilcam.cli import PASSPHRASE, ROOT, environment

REVEAL = RevealToken("test")
PROGRAM = """
import gc, sys
from veilcam.cli.run import main

def residue():
    # Freed memory is used again: what a longer run would do by itself.
    for size in (32, 33, 48, 64, 65, 80, 96, 97, 128, 160, 256, 512, 1024, 4096):
        blocks = [bytes(size) for _ in range(3000)]
        blocks += [bytearray(size) for _ in range(3000)]

status = main(sys.argv[1:])
for _ in range(2):
    gc.collect()
    residue()
sys.stderr.write(f"ready {status}\\n")
sys.stderr.flush()
sys.stdin.readline()
"""


def _after(folder: Path, *arguments: str) -> tuple[bytes, bytes]:
    """Memory and environment of a process that ran ``veilcam`` with ``arguments`` and is still there."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=folder,
        env=environment(PYTHONPATH=str(ROOT), VEILCAM_LEDGER=str(folder / "ledger.jsonl")),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == b"ready 0\n"
        return _core_of(process), Path(f"/proc/{process.pid}/environ").read_bytes()
    finally:
        process.kill()
        process.communicate()


def _forms(secret: SecretBytes) -> Iterator[bytes]:
    raw = bytes(secret.expose(REVEAL))
    yield from (raw, raw.hex().encode(), base64.b64encode(raw))


def _found(secrets: dict[str, SecretBytes], memory: bytes) -> list[str]:
    return [name for name, secret in secrets.items() if any(form in memory for form in _forms(secret))]


def _keys_of(path: Path) -> dict[str, SecretBytes]:
    """Epoch and segment keys of a recording, opened here and not in the process under test."""
    source = IdentityKeys([authority()[1]])
    found: dict[str, SecretBytes] = {}
    with read_access_units(path) as units:
        for number, view in enumerate(read_segments(units)):
            header = view.header()
            assert header is not None
            found[f"segment {number}"] = source.segment_keys(header).secret
            found["epoch"] = source.epoch_key(header).secret
    return found


@pytest.fixture
def folder(recording: Recording, tmp_path: Path) -> Path:
    save_identity(tmp_path, authority()[1], SecretBytes(PASSPHRASE.encode()), log2_n=10)
    save_camera(tmp_path, CameraKey.generate("gate"))
    (tmp_path / "protected.mp4").write_bytes(recording.path.read_bytes())
    return tmp_path


def test_after_decoding_the_process_holds_no_identity_epoch_or_segment_key(folder: Path) -> None:
    arguments = ("decode", "protected.mp4", "-o", "out.mkv", "-i", "authority-1.identity")
    memory, environ = _after(folder, *arguments)
    identity = load_identity(folder / "authority-1.identity", PASSPHRASE)
    secrets = {"identity": identity.seed, **_keys_of(folder / "protected.mp4")}
    assert len(secrets) > 6
    assert (folder / "out.mkv").exists()
    assert _found(secrets, memory) == []
    assert _found(secrets, environ) == []


def test_after_protecting_the_process_holds_no_camera_epoch_or_segment_key(
    folder: Path, recording: Recording
) -> None:
    assert recording.source is not None
    save_recipient(folder, authority()[0])
    (folder / "source.mp4").write_bytes(recording.source.read_bytes())
    keys = ("-r", "authority-1.recipient", "-c", "gate.camera")
    memory, environ = _after(folder, "protect", "source.mp4", "-o", "new.mp4", "--pixels", "off", *keys)
    secrets = {"camera": load_camera(folder / "gate.camera").seed, **_keys_of(folder / "new.mp4")}
    assert len(secrets) > 3
    assert _found(secrets, memory) == []
    assert _found(secrets, environ) == []
