"""What is fuzzed. A target takes bytes and may raise the errors it lists; anything else is a bug."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from base.errors import AuthenticationFailed, FormatError, UsageError
from camera.settings import load_settings
from codec.recovery import recover_part
from forensics.audit import make_checkpoint, verify_ledger
from forensics.canonical import canonical_json, parse_canonical
from forensics.checkpoint import Checkpoint, VerifierKey
from forensics.ledger import Ledger, LedgerEntry
from forensics.ledger_key import key_path
from forensics.ledger_key import parse as parse_ledger_key
from forensics.ledger_proofs import ConsistencyProof, InclusionProof, parse_proof
from forensics.selection import parse_time
from keys.camera import CameraKey
from keys.identity_file import LockedIdentity
from keys.key_files import parse_camera_public, parse_recipient, render_camera_public, render_recipient
from keys.secret import SecretBytes
from keys.stanza import Stanza
from tests.codec.fuzz import TARGETS as CODEC_TARGETS
from tests.fuzz.custody import custody_targets
from tests.fuzz.target import FuzzTarget
from tests.fuzz.worker import worker_targets
from tests.support.streams import recipient

CORPUS = Path(__file__).parent / "corpus"
RSS_LIMIT_MB = 512
"""Of a fuzzing process, libraries and coverage tables included."""
HANG_S = 5
"""An input that takes longer is a bug."""

_SCRATCH = Path(tempfile.mkdtemp(prefix="veilcam-fuzz-"))


def _canonical(data: bytes) -> None:
    value = parse_canonical(data)
    assert canonical_json(value) == data, "two spellings of one document"


def _ledger_entry(data: bytes) -> None:
    LedgerEntry.parse(data)


def _ledger_file(data: bytes) -> None:
    path = _SCRATCH / "ledger.jsonl"
    path.write_bytes(data)
    verify_ledger(path).as_json()


def _config(data: bytes) -> None:
    path = _SCRATCH / "camera.yaml"
    path.write_bytes(data)
    load_settings(path, {})


def _mp4_part(data: bytes) -> None:
    path = _SCRATCH / "recording.mp4.part"
    path.write_bytes(data)
    recover_part(path)


def _time(data: bytes) -> None:
    with suppress(UnicodeDecodeError):
        parse_time(data.decode())


def _stanza(data: bytes) -> None:
    stanza, rest = Stanza.parse(data)
    assert bytes(stanza) + rest == data


def _ledger_sample() -> bytes:
    ledger = Ledger(_SCRATCH / "sample" / "ledger.jsonl")
    opening = ledger.append("open", {"who": {"uid": 0}, "reason": "x"})
    ledger.append("end", {"opening": opening.seq, "result": "opened"})
    return ledger.path.read_bytes()


def _mp4_sample() -> bytes:
    from codec.writers import Fmp4Writer  # noqa: PLC0415
    from tests.codec.fuzz import STREAM  # noqa: PLC0415

    path = _SCRATCH / "sample.mp4"
    writer = Fmp4Writer(path, 64, 48)
    for unit in STREAM.units:
        writer.write(unit)
    writer.close()
    return path.read_bytes()


CONFIG_SAMPLE = b"""\
name: gate
source: rtsp://camera.example/stream
recipients: [custodian.recipient]
camera: gate.camera
record: {folder: recordings, max_age_days: 3}
http: {listen: "127.0.0.1:8080"}
"""

_AREAS = {"header": "header", "frame": "header", "signature": "header", "meta": "header"}


def _all() -> dict[str, FuzzTarget]:
    targets = {
        name.replace(" ", "-"): FuzzTarget(_AREAS.get(name, "stream"), run, (sample,), max_bytes=65_536)
        for name, (run, sample) in CODEC_TARGETS.items()
    }
    targets["mp4-part"] = FuzzTarget("stream", _mp4_part, (_mp4_sample(),), max_bytes=16_384)
    targets["stanza"] = FuzzTarget("header", _stanza, (bytes(_sample_stanza()),))
    ledger = _ledger_sample()
    lines = ledger.splitlines()
    targets["canonical-json"] = FuzzTarget("ledger", _canonical, tuple(lines))
    targets["ledger-entry"] = FuzzTarget("ledger", _ledger_entry, tuple(lines))
    targets["ledger-file"] = FuzzTarget("ledger", _ledger_file, (ledger,))
    targets |= _proof_targets()
    targets["config"] = FuzzTarget("config", _config, (CONFIG_SAMPLE,), (UsageError, FormatError))
    targets["time-range"] = FuzzTarget(
        "config", _time, (b"12.5", b"01:02:03.5", b"2026-11-30T12:00:00Z"), (UsageError,)
    )
    public, _ = recipient()
    targets["recipient-file"] = FuzzTarget("keys", parse_recipient, (render_recipient(public),))
    camera = CameraKey("gate", SecretBytes(bytes(range(32)))).public
    targets["camera-file"] = FuzzTarget("keys", parse_camera_public, (render_camera_public(camera),))
    targets["identity-file"] = FuzzTarget("keys", LockedIdentity.parse, (_identity_sample(),))
    return targets | custody_targets() | worker_targets()


def _proof_targets() -> dict[str, FuzzTarget]:
    """What an auditor is given: checkpoints, proofs, a verifier key; and the file of a ledger's own key."""
    path = _SCRATCH / "sample" / "ledger.jsonl"
    checkpoint, key, leaves = make_checkpoint(path)
    line = path.read_bytes().splitlines()[0]
    proofs = (
        bytes(InclusionProof.make(checkpoint, leaves, 0, line)),
        bytes(ConsistencyProof.make(checkpoint, checkpoint, leaves)),
    )

    def verify(data: bytes) -> None:
        with suppress(AuthenticationFailed):
            parse_proof(data).verify(key)

    return {
        "ledger-proof": FuzzTarget("ledger", verify, proofs),
        "ledger-checkpoint": FuzzTarget("ledger", Checkpoint.parse, (bytes(checkpoint),)),
        "ledger-verifier-key": FuzzTarget("ledger", _verifier_key, (str(key).encode(),)),
        "ledger-key-file": FuzzTarget("ledger", parse_ledger_key, (key_path(path).read_bytes(),)),
    }


def _verifier_key(data: bytes) -> None:
    VerifierKey.parse(data.decode("utf-8", "replace"))


def _sample_stanza() -> Stanza:
    from tests.codec.fuzz import RING  # noqa: PLC0415

    return RING.current().stanzas[0]


def _identity_sample() -> bytes:
    _, identity = recipient()
    return bytes(LockedIdentity.seal(identity, SecretBytes(b"correct horse battery staple"), log2_n=10))


TARGETS: dict[str, FuzzTarget] = _all()
