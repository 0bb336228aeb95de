"""What a source string means."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from base.errors import UsageError

_LIVE_SCHEMES = frozenset({"rtsp", "rtsps", "rtmp", "rtmps", "rtp", "udp", "tcp", "srt", "http", "https"})
_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]+):", re.IGNORECASE)


class SourceKind(enum.Enum):
    """How a source is read."""

    FILE = "file"
    IMAGES = "images"
    V4L2 = "v4l2"
    URL = "url"
    SYNTHETIC = "synthetic"
    PUSHED = "whip"


@dataclass(frozen=True, slots=True)
class SourceUri:
    """A parsed source string. ``target`` may hold a password: show ``name`` only."""

    kind: SourceKind
    target: str
    name: str
    parameters: dict[str, str]


def parse_uri(text: str) -> SourceUri:
    """Read a source string.

    PATH or file:PATH, FOLDER or images:FOLDER[?fps=N], /dev/videoN or v4l2:DEVICE[?size=WxH&fps=N&format=F],
    rtsp:// rtmp:// udp:// srt:// http(s)://..., synthetic:[?size=WxH&fps=N&seed=N&seconds=N],
    whip: (somebody publishes to us over WHIP)

    Raises:
        UsageError: empty, or a scheme that is not known.
    """
    if not text:
        message = "source: expected a path, a URL or synthetic:, got an empty string"
        raise UsageError(message)
    if text == "synthetic" and not Path(text).exists():
        text = "synthetic:"  # a colon at the end is awkward in YAML
    if text in ("whip", "whip:") and not Path(text).exists():
        return SourceUri(SourceKind.PUSHED, "", "whip:", {})
    match = _SCHEME.match(text)
    scheme = match.group(1).lower() if match else ""
    if scheme in _LIVE_SCHEMES:
        return SourceUri(SourceKind.URL, text, without_credentials(text), {})
    if scheme in {"synthetic", "images", "v4l2"}:
        rest, _, query = text[len(scheme) + 1 :].partition("?")
        return SourceUri(SourceKind(scheme), rest, f"{scheme}:{rest}", _parameters(query))
    if scheme == "file":
        text = text[len("file:") :].removeprefix("//")
    elif scheme and not Path(text).exists():
        known = ", ".join(sorted(_LIVE_SCHEMES | {"file", "images", "v4l2", "synthetic", "whip"}))
        message = f"source: unknown scheme {scheme!r}, expected a path or one of {known}"
        raise UsageError(message)
    if re.fullmatch(r"/dev/video\d+", text):
        return SourceUri(SourceKind.V4L2, text, text, {})
    kind = SourceKind.IMAGES if Path(text).is_dir() else SourceKind.FILE
    return SourceUri(kind, text, Path(text).name, {})


def without_credentials(url: str) -> str:
    """A URL that may be logged: no user, no password, no query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def parse_size(text: str) -> tuple[int, int]:
    """``WIDTHxHEIGHT`` as two numbers.

    Raises:
        UsageError: anything else, or out of 16..8192.
    """
    match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", text)
    width, height = (int(match.group(1)), int(match.group(2))) if match else (0, 0)
    if not (16 <= width <= 8192 and 16 <= height <= 8192):
        message = f"source: size: expected WIDTHxHEIGHT of 16 to 8192 pixels, got {text!r}"
        raise UsageError(message)
    return width, height


def _parameters(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, strict_parsing=True)) if query else {}
    except ValueError as error:
        message = f"source: parameters: expected name=value&..., got {query!r}"
        raise UsageError(message) from error
