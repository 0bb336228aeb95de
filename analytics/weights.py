"""Detector weights that are fetched once and checked."""

from __future__ import annotations

import hashlib
import logging
import os
import ssl
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, BinaryIO
from urllib.error import URLError
from urllib.request import Request

from analytics.interface import Progress
from base.errors import AuthenticationFailed, PeerError, UsageError
from base.files import atomic_file

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 16
_TIMEOUT_S = 30.0
_RELEASE = "https://github.com/Megvii-BaseDetection/YOLOX/releases/download/0.1.1rc0"


@dataclass(frozen=True, slots=True)
class Weights:
    """One file of weights: where it is published and what it must be."""

    file_name: str
    url: str
    num_bytes: int
    sha256: str
    licence: str


# Size and sha256 of the release's own files as many independent public projects pin them (2026-11): Megvii
# publishes no checksum, and the three agree wherever they are quoted.
WEIGHTS: Mapping[str, Weights] = {
    "yolox": Weights(
        "yolox_nano.onnx",
        f"{_RELEASE}/yolox_nano.onnx",
        3_659_407,
        "c789161ed43c8269fcd4e67c67eeeb4e80c622da2eb296a20bc6007bd18a0b7d",
        "Apache-2.0",
    ),
    "yolox-tiny": Weights(
        "yolox_tiny.onnx",
        f"{_RELEASE}/yolox_tiny.onnx",
        20_219_662,
        "427cc366d34e27ff7a03e2899b5e3671425c262ea2291f88bb942bc1cc70b0f7",
        "Apache-2.0",
    ),
    "yolox-s": Weights(
        "yolox_s.onnx",
        f"{_RELEASE}/yolox_s.onnx",
        35_858_002,
        "c5c2d13e59ae883e6af3b45daea64af4833a4951c92d116ec270d9ddbe998063",
        "Apache-2.0",
    ),
}


def model_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where weights are kept: VEILCAM_MODEL_DIR, else veilcam/models in the user's cache folder (XDG)."""
    environ = os.environ if environ is None else environ
    if chosen := environ.get("VEILCAM_MODEL_DIR"):
        return Path(chosen).expanduser()
    cache = environ.get("XDG_CACHE_HOME")
    root = Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache"
    return root / "veilcam" / "models"


def find_or_fetch(
    weights: Weights,
    *,
    environ: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    context: ssl.SSLContext | None = None,
) -> Path:
    """The path of ``weights``, fetched over HTTPS if they are not here yet.

    A file in VEILCAM_MODEL_DIR is the operator's own choice: it is used as it is, with a logged note if it is
    not the published one. A file in the cache folder must be the published one, or is fetched again.

    Raises:
        PeerError: not here, and the download failed; the message says where to put the file.
        AuthenticationFailed: what was downloaded is not what was published.
    """
    environ = os.environ if environ is None else environ
    folder = model_folder(environ)
    path = folder / weights.file_name
    if path.is_file():
        if file_sha256(path) == weights.sha256:
            return path
        if environ.get("VEILCAM_MODEL_DIR"):
            logger.warning("%s: not the published file, used because VEILCAM_MODEL_DIR has it", path)
            return path
        logger.warning("%s: damaged or outdated, fetching it again", path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _download(weights, path, progress, context)
    except (OSError, HTTPException) as error:
        message = (
            f"{weights.file_name}: not in {folder} and not fetched from {weights.url} ({error}); put the"
            " file there, or name its folder in VEILCAM_MODEL_DIR, or use the detector 'hog', which needs no"
            " download"
        )
        raise PeerError(message) from error
    return path


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(
    weights: Weights, path: Path, progress: Progress | None, context: ssl.SSLContext | None
) -> None:
    if not weights.url.startswith("https://"):
        message = f"{weights.file_name}: expected an https URL, got {weights.url}"
        raise UsageError(message)
    logger.info("fetching %s (%d bytes)", weights.url, weights.num_bytes)
    context = context or ssl.create_default_context()
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _HttpsOnly)
    with opener.open(weights.url, timeout=_TIMEOUT_S) as response, atomic_file(path) as file:
        _copy_checked(weights, response, file, progress)


class _HttpsOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirects (GitHub's releases need one) to https only."""

    def redirect_request(  # noqa: PLR0917  # the base class sets the signature
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        if not newurl.startswith("https://"):
            raise URLError("the server redirects to a URL that is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _copy_checked(weights: Weights, source: BinaryIO, target: BinaryIO, progress: Progress | None) -> None:
    digest, done = hashlib.sha256(), 0
    while chunk := source.read(_CHUNK_BYTES):
        done += len(chunk)
        if done > weights.num_bytes:
            break
        digest.update(chunk)
        target.write(chunk)
        if progress:
            progress(done, weights.num_bytes)
    if done != weights.num_bytes or digest.hexdigest() != weights.sha256:
        message = (
            f"{weights.file_name}: downloaded {done} bytes with sha256 {digest.hexdigest()},"
            f" expected {weights.num_bytes} bytes with {weights.sha256}"
        )
        raise AuthenticationFailed(message)
