"""A C2PA manifest in an opened video, for tools that read Content Credentials; extra ``c2pa``.

It says with whose key it was exported, from which protected recording (SHA-256, camera, verdict), and
which entry of the ledger opened it. It adds nothing to what the camera's signature proves, and readers that
do not know it see an ordinary video. The packets stay as they are; the file's own hash changes, so the
manifest goes into a copy.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from base.errors import (
    AuthenticationFailed,
    FormatError,
    Malformed,
    MediaError,
    MissingDependency,
    UsageError,
)
from base.files import read_bounded
from codec.muxer import temporary_neighbour
from forensics.canonical import JsonObject
from forensics.ledger_entry import EventKind
from forensics.ledger_index import LedgerIndex, Query
from forensics.report import TOOL, FileDigest
from forensics.restored import find_label

LABEL = "org.veilcam.decode"
_TYPES = {".mp4": "video/mp4", ".m4v": "video/mp4", ".mov": "video/quicktime"}
_SOURCES = "http://cv.iptc.org/newscodes/digitalsourcetype/"
_MAX_PEM_BYTES = 64 * 1024
_MAX_REPORT_BYTES = 64 << 20
_ALGORITHMS = ("ES256", "ES384", "PS256", "ED25519")


def _library() -> ModuleType:
    try:
        import c2pa  # noqa: PLC0415  # an extra
    except ImportError as error:
        message = "C2PA manifests need the extra `c2pa`: pip install 'veilcam[c2pa]'"
        raise MissingDependency(message) from error
    module: ModuleType = c2pa
    return module


def add_manifest(
    video: Path,
    out: Path,
    *,
    certificates: Path,
    key: Path,
    ledger: Path | None = None,
    algorithm: str = "ES256",
    tsa_url: str | None = None,
) -> JsonObject:
    """Write ``video``, which `veilcam decode` made, to ``out`` with a manifest in it; returns its statement.

    Args:
        video: .mp4 or .mov with its ``.report.json`` beside it.
        out: same ending; mode 0600.
        certificates: PEM chain, the signer's first.
        key: PEM private key of the signer, mode 0600.
        ledger: that recorded the opening; the report is held against it. None: the report is believed, and
            the statement says so (``report_in_ledger``).
        algorithm: ES256, ES384, PS256 or ED25519, as the key.
        tsa_url: RFC 3161 authority that stamps the claim; None: no stamp.

    Raises:
        UsageError: a wrong ending or algorithm, an output that exists, or a video without its report.
        Malformed: the report is none.
        AuthenticationFailed: the report is not this video's, or not the one that the ledger knows.
        MediaError: the library refuses the video, key or certificates.
        MissingDependency: the extra is not installed.
    """
    library = _library()
    suffix = video.suffix.lower()
    if suffix not in _TYPES or out.suffix.lower() != suffix:
        message = f"C2PA: expected .mp4 or .mov on both sides, got {video.name} and {out.name}"
        raise UsageError(message)
    if out.exists():
        message = f"{out}: exists already"
        raise UsageError(message)
    if algorithm not in _ALGORITHMS:
        message = f"C2PA: expected an algorithm of {', '.join(_ALGORITHMS)}; got {algorithm}"
        raise UsageError(message)
    statement = _statement(video, ledger)
    manifest = {
        "claim_generator_info": [{"name": "veilcam", "version": TOOL.split()[-1]}],
        "title": out.name,
        "format": _TYPES[suffix],
        "assertions": [
            {"label": "c2pa.actions", "data": {"actions": [_action(video)]}},
            {"label": LABEL, "data": statement},
        ],
    }
    temporary = temporary_neighbour(out)
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        info = library.C2paSignerInfo(
            getattr(library.C2paSigningAlg, algorithm),
            read_bounded(certificates, _MAX_PEM_BYTES),
            read_bounded(key, _MAX_PEM_BYTES),
            tsa_url.encode() if tsa_url else None,
        )
        with (
            library.Signer.from_info(info) as signer,
            library.Builder(manifest) as builder,
            video.open("rb") as source,
            temporary.open("w+b") as target,
        ):
            builder.sign(signer, _TYPES[suffix], source, target)
        temporary.chmod(0o600)
        temporary.replace(out)
    except library.C2paError as error:
        message = f"C2PA: {video.name}: {str(error)[:300]}"
        raise MediaError(message) from error
    finally:
        temporary.unlink(missing_ok=True)
    return statement


def read_manifest(video: Path) -> JsonObject:
    """What the manifest in a video says about its opening; {} if there is none.

    Raises:
        MediaError: the manifest does not verify, or is not ours to read.
    """
    library = _library()
    try:
        with video.open("rb") as file, library.Reader(_TYPES[video.suffix.lower()], file) as reader:
            document: dict[str, Any] = json.loads(reader.json())
    except library.C2paError as error:
        if "ManifestNotFound" in str(error):
            return {}
        message = f"C2PA: {video.name}: {str(error)[:300]}"
        raise MediaError(message) from error
    failures = [
        status["code"]
        for status in document.get("validation_status", [])
        if status["code"] != "signingCredential.untrusted"  # whom to trust is the reader's decision
    ]
    if failures:
        message = f"C2PA: {video.name}: {', '.join(failures[:5])}"
        raise MediaError(message)
    active = document["manifests"][document["active_manifest"]]
    found = [a["data"] for a in active.get("assertions", []) if a["label"] == LABEL]
    statement: JsonObject = found[0] if found else {}
    return statement


def _statement(video: Path, ledger: Path | None) -> JsonObject:
    from forensics.case_files import describe  # noqa: PLC0415  # keeps this module light without the extra

    path = video.with_name(video.name + ".report.json")
    if not path.is_file():
        message = f"{path.name}: missing; C2PA manifests are made for what `veilcam decode` wrote"
        raise UsageError(message)
    digest: FileDigest = describe(video)
    content = read_bounded(path, _MAX_REPORT_BYTES)
    if ledger is not None:
        _check_known(hashlib.sha256(content).hexdigest(), path.name, ledger)
    try:
        report = json.loads(content)
        if report["output"]["sha256"] != digest.sha256:
            message = f"{video.name}: is not the video that its report speaks of"
            raise AuthenticationFailed(message)
        return {
            "tool": report["tool"],
            "verdict": report["verdict"],
            "recording_sha256": report["input"]["sha256"],
            "video_sha256": digest.sha256,
            "camera": report["camera"],
            "case": report["case"],
            "ledger": report["ledger"],
            "report_in_ledger": ledger is not None,
            "restored": bool(find_label(video)),
        }
    except FormatError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        message = f"{path.name}: not a decode report"
        raise Malformed(message) from error


def _check_known(sha256: str, name: str, ledger: Path) -> None:
    """The end of an opening names its report's hash: an edited report must not be signed for."""
    if not ledger.is_file():
        message = (
            f"{ledger}: no ledger that could know {name}; name the one of the opening, or say --unchecked"
        )
        raise UsageError(message)
    with LedgerIndex(ledger) as index:
        found = index.find(Query(kinds=[EventKind.END.value], words=[sha256], limit=10))
    if not any(entry.body.get("report_sha256") == sha256 for entry in found):
        message = f"{name}: is not the report of any opening in {ledger}: changed, or of another machine"
        raise AuthenticationFailed(message)


def _action(video: Path) -> JsonObject:
    """Opened pictures are a capture; what a network restored must say so (decode never writes that)."""
    if find_label(video):
        kind = "compositeWithTrainedAlgorithmicMedia"
        return {"action": "c2pa.edited", "digitalSourceType": _SOURCES + kind}
    return {"action": "c2pa.created", "digitalSourceType": _SOURCES + "digitalCapture"}
