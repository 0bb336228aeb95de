"""Settings of what goes out beside the page: publishing to media servers, RTSP, ICE servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from camera.access import ListenAddress
from camera.outputs.target import PublishTarget, parse_target
from camera.rtsp.server import RtspOptions
from camera.settings_file import read_secret
from camera.webrtc.ice import IceServer


class StreamSection(BaseModel):
    """Strict, and silent about its values in errors: they may hold passwords."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class PublishSettings(StreamSection):
    """One media server to publish to; in YAML its URL alone will do."""

    url: str = Field(min_length=1, repr=False)  # whip(s)://, rtsp(s)://, srt://; may hold a password
    layer: Literal["protected", "sealed"] | None = None  # None: sealed for RTSP and SRT, protected for WHIP
    token_file: Path | None = None  # bearer token, WHIP only
    carrier: Literal["spread", "gop"] = "spread"  # gop: for recorders that keep key frames' SEI only

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:  # noqa: ANN401
        return {"url": value} if isinstance(value, str) else value

    def target(self) -> PublishTarget:
        """What the outputs take.

        Raises:
            UsageError: a URL that is not understood, or the token's file cannot be read.
        """
        return parse_target(
            self.url, layer=self.layer, token=read_secret(self.token_file), carrier=self.carrier
        )


class RtspSettings(StreamSection):
    """RTSP for recorders that pull; off unless an address is given."""

    listen: str | None = None
    path: str = "live"
    user: str = "veilcam"
    password_file: Path | None = None
    layer: Literal["protected", "sealed"] = "sealed"
    carrier: Literal["spread", "gop"] = "spread"  # gop: for recorders that keep key frames' SEI only

    def options(self) -> RtspOptions | None:
        """What the server takes; None when it is off.

        Raises:
            UsageError: an address beyond loopback without a password, or a value that is not allowed.
        """
        if self.listen is None:
            return None
        password = read_secret(self.password_file) or ""
        return RtspOptions(
            ListenAddress.parse(self.listen), self.path, self.user, password, self.layer, self.carrier
        )


class IceServerSettings(StreamSection):
    """One STUN or TURN server, for us and (as Link headers) for viewers."""

    url: str
    username: str = ""
    credential_file: Path | None = None

    def server(self) -> IceServer:
        """What peer connections take.

        Raises:
            UsageError: not such a URL, or TURN without a credential.
        """
        return IceServer(self.url, self.username, read_secret(self.credential_file) or "")
