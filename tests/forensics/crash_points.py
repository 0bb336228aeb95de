"""Kills itself at random points: ``python -m tests.forensics.crash_points FOLDER NUMBER [SEED]``.

Every round forks a child that does one kind of work as fast as it can, kills it (SIGKILL) after a random
time, and then looks at all files as the next program to come would: each has to be absent or whole, what a
child said it had done has to be there, and the ledger has to verify and take another entry. Forking saves
the seconds that importing costs, so that hundreds of points take minutes. Prints one JSON object.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from base.errors import VeilError
from camera.broadcast import Broadcast
from camera.recorder import Recorder, RecorderOptions
from codec.sealer import SealedUnit
from codec.segments import view_unit
from forensics.audit import verify_ledger
from forensics.case_files import describe
from forensics.decode import DecodeOptions, decode, report_path
from forensics.grants import issue_grant, write_grant
from forensics.ledger import Ledger
from forensics.verdict import Verdict
from forensics.verify_file import verify
from keys import Identity, SecretBytes
from keys.grant import Grant
from keys.grant_terms import GrantRequest, TimeSpan
from keys.signer import SignerKey
from keys.store import load_camera, load_camera_public, load_identity, load_recipient
from keys.suite import Suite
from tests.forensics.recordings import (
    START_US,
    authority,
    camera_key,
    make_source,
    payloads,
    seal_copy,
    units_of,
    write_units,
)
from veilcam.cli.run import main as veilcam

_SECONDS = 4
_INVESTIGATOR = Identity("iris", Suite.X25519, SecretBytes(b"\x22" * 32))
_DORA = SignerKey("dora", SecretBytes(b"\x01" * 32))
_PASSPHRASE = "correct horse battery staple"


class World:
    """The folder that all rounds share, as a machine's disk would be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = Ledger(folder / "ledger.jsonl")
        source = make_source(folder / "source.mp4", seconds=_SECONDS)
        self.protected = write_units(folder / "protected.mp4", seal_copy(source))
        self.originals = payloads(source)
        self.live = [_live(number, unit) for number, unit in enumerate(units_of(self.protected))]
        for name in ("grants", "out", "keys", "recordings"):
            (folder / name).mkdir()
        self.num_promised = 0

    def check_ledger(self) -> None:
        """It verifies, holds what was said to be in it, and goes on."""
        self.num_promised = max(self.num_promised, self.ledger.append("open", {"round": 1}).seq + 1)
        report = verify_ledger(self.ledger.path)
        assert report.is_intact, report.problems
        assert report.num_entries >= self.num_promised

    def entries(self, kind: str) -> list[dict[str, object]]:
        """Bodies of the entries of a kind."""
        lines = map(json.loads, self.ledger.path.read_text().splitlines())
        return [line["body"] for line in lines if line["kind"] == kind]


def _live(number: int, unit: object) -> SealedUnit:
    from codec.access_unit import AccessUnit  # noqa: PLC0415

    assert isinstance(unit, AccessUnit)
    meta = view_unit(unit).meta
    starts, last = (
        meta is not None and meta.header is not None,
        meta is not None and meta.signature is not None,
    )
    return SealedUnit(
        AccessUnit(unit.nals, START_US + number * 100_000, unit.is_keyframe), starts, number, last
    )


def write_ledger(world: World, _: int, say: Callable[[str], None]) -> None:
    """Entry after entry."""
    while True:
        say(str(world.ledger.append("open", {"input": "x" * 200}).seq))


def check_ledger(world: World, said: list[str]) -> None:
    """What was said to be written is there."""
    world.num_promised = max([world.num_promised, *(int(each) + 1 for each in said)])


def write_grants(world: World, number: int, say: Callable[[str], None]) -> None:
    """Grants of all that the recording holds."""
    span = TimeSpan(START_US, START_US + _SECONDS * 1_000_000)
    request = GrantRequest.new(
        camera_key().camera_id,
        [span],
        _INVESTIGATOR.recipient,
        case="1",
        reason="crash",
        made_us=1,
        expires_us=2**52,
        uses=None,
    )
    given = {"camera": camera_key().public, "identities": [authority()[1]], "issuer": _DORA}
    for count in range(100):
        issued = issue_grant(request, [world.protected], ledger=world.ledger, **given)  # type: ignore[arg-type]
        path = world.folder / "grants" / f"{number}-{count}.grant"
        say(f"{path.name} {write_grant(issued, path, world.ledger)}")


def check_grants(world: World, said: list[str]) -> None:
    """Every grant opens, and the ledger has its hash; every promised one is there."""
    there = {}
    for path in (world.folder / "grants").glob("*.grant"):
        data = path.read_bytes()
        Grant.parse(data).open([_INVESTIGATOR])
        there[path.name] = hashlib.sha256(data).hexdigest()
    assert set(there.values()) <= {body["sha256"] for body in world.entries("grant-issued")}
    for line in said:
        name, sha256 = line.split()
        assert there[name] == sha256


def write_videos(world: World, number: int, say: Callable[[str], None]) -> None:
    """The same recording decoded again and again to a few names."""
    for count in range(100):
        out = world.folder / "out" / f"{(number + count) % 3}.mkv"
        options = DecodeOptions(overwrite=True)
        camera = camera_key().public
        decode(world.protected, out, [authority()[1]], camera=camera, ledger=world.ledger, options=options)
        say(out.name)


def check_videos(world: World, said: list[str]) -> None:
    """A video is whole and its hash was in the ledger before it had its name."""
    folder = world.folder / "out"
    known = [body.get("output") for body in world.entries("end")]
    for path in folder.glob("*.mkv"):
        assert payloads(path)["video"] == world.originals["video"]
        assert describe(path).as_json() in known
        assert json.loads(report_path(path).read_text())["output"]["sha256"] == describe(path).sha256
    assert all((folder / name).exists() for name in said)
    # What a killed decode left has mode 0700, and the next one to that name removes it.
    left = [path for path in folder.iterdir() if path.name.endswith(".part")]
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in left)
    assert len({path.name.rsplit(".", 2)[0] for path in left}) == len(left)


def write_recordings(world: World, number: int, say: Callable[[str], None]) -> None:
    """A camera's recorder, fed as fast as it takes."""
    for count in range(100):
        broadcast = Broadcast()
        options = RecorderOptions(world.folder / "recordings", f"cam{number}-{count}", min_free_bytes=0)
        recorder = Recorder(broadcast, options)
        recorder.start()
        for unit in world.live:
            broadcast.publish(unit)
        recorder.close(None)
        say(f"cam{number}-{count}")


def check_recordings(world: World, said: list[str]) -> None:
    """After the next start every file is whole segments that verify, and nothing is left half."""
    root = world.folder / "recordings"
    for folder in root.iterdir():
        recorder = Recorder(Broadcast(), RecorderOptions(root, folder.name, min_free_bytes=0))
        recorder.start()
        recorder.close(None)
        files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
        assert all(path.suffix == ".mp4" for path in files), files
        for path in files:
            found = verify(path, camera_key().public)
            assert found.verdict is Verdict.AUTHENTIC, (path, found.text())
        if folder.name in said:
            assert files, folder
            assert len(units_of(files[0])) == len(world.live)
        _remove(folder)


def write_keys(world: World, number: int, say: Callable[[str], None]) -> None:
    """Keys made and rotated by the commands."""
    os.environ.update(VEILCAM_PASSPHRASE=_PASSPHRASE, VEILCAM_LEDGER=str(world.ledger.path))
    folder = world.folder / "keys"
    with contextlib.redirect_stdout(io.StringIO()):
        for kind, private in (("camera", "camera"), ("recipient", "identity")):
            name = folder / f"{kind}{number}"
            assert veilcam(["keys", kind, str(name)]) == 0
            say(f"{kind}{number}.{private}")
            for _ in range(2):
                assert veilcam(["keys", "rotate", f"{name}.{private}"]) == 0
            say(f"{kind}{number}-3.{private}")


def check_keys(world: World, said: list[str]) -> None:
    """Every key file loads; no public key without its private one, which cameras would seal to in vain."""
    folder = world.folder / "keys"
    loaders = {".camera": load_camera, ".pub": load_camera_public, ".recipient": load_recipient}
    # Identities last: what was looked at is removed then, its recipient with it.
    for path in sorted(folder.iterdir(), key=lambda path: path.suffix == ".identity"):
        if path.suffix in loaders:
            loaders[path.suffix](path)
        if path.suffix == ".recipient":
            assert path.with_suffix(".identity").exists()
        if path.suffix == ".pub":
            assert path.with_suffix(".camera").exists()
        if path.suffix == ".identity":
            load_identity(path, _PASSPHRASE)
            path.with_suffix(".recipient").unlink(missing_ok=True)
            path.unlink()  # scrypt: once is enough
            said = [name for name in said if name != path.name]
    assert all((folder / name).exists() for name in said)


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


_Write = Callable[[World, int, Callable[[str], None]], None]
_Check = Callable[[World, list[str]], None]
WORK: dict[str, tuple[_Write, _Check, float, int]] = {
    # name: what the child does, what must hold, the longest it may live (s), children at a time
    "ledger": (write_ledger, check_ledger, 0.05, 2),
    "grant": (write_grants, check_grants, 0.25, 2),
    "decode": (write_videos, check_videos, 0.4, 1),
    "recording": (write_recordings, check_recordings, 0.15, 1),
    "keys": (write_keys, check_keys, 1.2, 1),
}


def kill_while(world: World, work: _Write, number: int, lives_s: list[float]) -> list[str]:
    """Fork children that work, kill each after its time, and return the whole lines that they said."""
    children = []
    for place, _ in enumerate(lives_s):
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            with contextlib.suppress(BaseException):  # its end is ours to bring about
                work(world, 10 * number + place, partial(_say, writing))
            os._exit(0)
        os.close(writing)
        children.append((child, reading))
    said: list[str] = []
    start = time.monotonic()
    for life_s, (child, reading) in sorted(zip(lives_s, children, strict=True)):
        time.sleep(max(0.0, start + life_s - time.monotonic()))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as pipe:
            said += pipe.read().decode().split("\n")[:-1]
    return said


def _say(descriptor: int, text: str) -> None:
    os.write(descriptor, text.encode() + b"\n")


def run(folder: Path, num_rounds: int, seed: int) -> dict[str, object]:
    """Do so many kills, in turn over all kinds of work; the result says what did not hold."""
    world = World(folder)
    chance = random.Random(seed)
    counts: Counter[str] = Counter()
    promises: Counter[str] = Counter()
    problems: list[str] = []
    rounds = 0
    while sum(counts.values()) < num_rounds and len(problems) < 10:
        name = list(WORK)[rounds % len(WORK)]
        rounds += 1
        work, check, longest_s, num_children = WORK[name]
        lives_s = [chance.uniform(0.0, longest_s) for _ in range(num_children)]
        said = kill_while(world, work, sum(counts.values()), lives_s)
        counts[name] += num_children
        promises[name] += len(said)
        try:
            check(world, said)
            world.check_ledger()
        except (AssertionError, VeilError, OSError, ValueError, KeyError) as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            problems.append(f"{name}, {lives_s}: {type(error).__name__}: {error}; {where.line}"[:600])
    return {"kills": dict(counts), "promises": dict(promises), "problems": problems}


if __name__ == "__main__":
    given = sys.argv[1:]
    print(json.dumps(run(Path(given[0]), int(given[1]), int(given[2]) if len(given) > 2 else 1)))
