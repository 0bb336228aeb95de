"""Sending ready H.264 with aiortc: what every peer connection of ours needs, whoever opened it."""

from __future__ import annotations

from collections.abc import Callable

from aiortc import RTCRtpSender, RTCRtpTransceiver
from aiortc import sdp as aiortc_sdp
from aiortc.rtcrtpparameters import RTCRtpCodecCapability

from base.errors import PeerError

H264 = "video/H264"


def h264_capabilities() -> list[RTCRtpCodecCapability]:
    """What may be negotiated.

    Set before ``setRemoteDescription``: a transceiver that aiortc creates itself negotiates VP8 first, and
    our H.264 bytes would then be packetised as VP8: connected, and never a picture.
    """
    codecs = RTCRtpSender.getCapabilities("video").codecs
    return [codec for codec in codecs if codec.mimeType in (H264, "video/rtx")]


def hook_key_frame_requests(sender: RTCRtpSender, callback: Callable[[], None]) -> None:
    """Route PLI and FIR to ``callback``: aiortc itself only sets a flag that its packet path ignores.

    Raises:
        PeerError: another release of aiortc.
    """
    if not callable(getattr(sender, "_send_keyframe", None)):
        message = "aiortc has no RTCRtpSender._send_keyframe: this release does not fit (expected 1.16)"
        raise PeerError(message)
    sender._send_keyframe = callback  # type: ignore[method-assign]  # there is no public hook


def require_h264(description: str, transceiver: RTCRtpTransceiver) -> None:
    """Refuse anything but H.264 as the first codec of our section: that is the one aiortc packetises with.

    Raises:
        PeerError: something else was negotiated.
    """
    media = [
        m for m in aiortc_sdp.SessionDescription.parse(description).media if m.rtp.muxId == transceiver.mid
    ]
    mime = media[0].rtp.codecs[0].mimeType if media and media[0].rtp.codecs else "nothing"
    if mime != H264:
        message = f"negotiated {mime}, expected {H264}"
        raise PeerError(message)
