"""Where the stream is published to, and what one output tells about itself."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from analytics.urls import shown_url
from base.errors import UsageError

Layer = Literal["protected", "sealed"]
Carrier = Literal["spread", "gop"]
Phase = Literal["connecting", "publishing", "waiting", "stopped"]

_WHIP = {"whip": "http", "whips": "https"}
_DEFAULT_LAYER: dict[str, Layer] = {"whip": "protected", "whips": "protected"}
_PORTS = {"rtsp": 554, "rtsps": 322, "srt": None}


class Protocol(enum.Enum):
    """How a target is spoken to."""

    WHIP = "whip"
    RTSP = "rtsp"
    SRT = "srt"


@dataclass(frozen=True, slots=True)
class PublishTarget:
    """One server to publish to. ``url`` may hold a password: show ``name`` only."""

    protocol: Protocol
    url: str = field(repr=False)
    name: str
    layer: Layer
    token: str | None = field(default=None, repr=False)
    carrier: Carrier = "spread"


@dataclass(frozen=True, slots=True)
class OutputState:
    """One output at one moment."""

    name: str
    phase: Phase
    layer: Layer
    reconnects: int
    units: int
    bytes: int
    skipped_units: int  # not sent: the server was away or too slow
    error: str  # why it was lost last; empty when it never was


def parse_target(
    text: str, *, layer: Layer | None = None, token: str | None = None, carrier: Carrier = "spread"
) -> PublishTarget:
    """Read a target.

    ``whip://`` and ``whips://HOST[:PORT]/PATH`` (http and https), ``rtsp://`` and ``rtsps://[USER:PASSWORD@]HOST
    [:PORT]/PATH``, ``srt://HOST:PORT[?streamid=...]``.

    Args:
        text: the URL.
        layer: ``sealed`` sends the encrypted original too; by default RTSP and SRT, which recorders read, do,
            and WHIP, which is for viewers, does not.
        token: bearer token, WHIP only.
        carrier: ``gop`` moves a segment's SEI into its key frame, a segment later, for recorders that drop
            it from other pictures; RTSP and SRT only.

    Raises:
        UsageError: anything else, or a token that would not be used.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        message = f"publish: not a URL: {error}"
        raise UsageError(message) from None
    scheme = parts.scheme.lower()
    if scheme not in _WHIP and scheme not in _PORTS:
        message = f"publish: expected whip(s), rtsp(s) or srt, got {scheme or 'no'}:// scheme"
        raise UsageError(message)
    if not parts.hostname:
        message = f"publish: {scheme}: no host"
        raise UsageError(message)
    chosen = layer or _DEFAULT_LAYER.get(scheme, "sealed")
    if scheme in _WHIP:
        if carrier == "gop":
            message = (
                "publish: whip: the gop carrier makes key frames that WebRTC cannot carry; use RTSP or SRT"
            )
            raise UsageError(message)
        if parts.username or parts.password:
            message = "publish: whip: a password in the URL is not used; give a token"
            raise UsageError(message)
        url = urlunsplit((_WHIP[scheme], parts.netloc, parts.path, parts.query, ""))
        return PublishTarget(Protocol.WHIP, url, shown_url(text), chosen, token)
    if token is not None:
        message = (
            f"publish: {scheme}: takes no token; RTSP takes user and password in the URL, SRT a passphrase"
        )
        raise UsageError(message)
    if scheme == "srt":
        if port is None:
            message = "publish: srt: no port"
            raise UsageError(message)
        return PublishTarget(Protocol.SRT, text, shown_url(text), chosen, carrier=carrier)
    return PublishTarget(Protocol.RTSP, text, shown_url(text), chosen, carrier=carrier)
