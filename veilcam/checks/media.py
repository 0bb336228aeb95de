"""Codecs and containers in the FFmpeg libraries that PyAV brings."""

from __future__ import annotations

from veilcam.checks.finding import Finding, Status

_GROUP = "media"
# (what for, FFmpeg name, "w" encoder or "r" decoder, needed)
_CODECS = (
    ("protected picture", "libx264", "w", True),
    ("protected picture", "h264", "r", True),
    ("sealed hevc", "libx265", "w", False),
    ("sealed hevc", "hevc", "r", False),
    ("sealed av1", "libsvtav1", "w", False),
    ("sealed av1", "libdav1d", "r", False),
    ("sealed ffv1", "ffv1", "w", False),
    ("sealed ffv1", "ffv1", "r", False),
    ("sound in decoded files", "aac", "r", False),
    ("folders of images", "mjpeg", "r", False),
)


def check_codecs() -> list[Finding]:
    """Whether every coder that a mode of ours uses can be opened."""
    try:
        import av
    except ImportError as error:
        return [Finding(_GROUP, "av", Status.BROKEN, f"cannot be imported: {error}")]
    libavcodec = ".".join(str(part) for part in av.library_versions["libavcodec"])
    findings = [
        Finding(_GROUP, "ffmpeg libraries", Status.OK, f"PyAV {av.__version__}, libavcodec {libavcodec}")
    ]
    for purpose, name, direction, needed in _CODECS:
        kind = "encoder" if direction == "w" else "decoder"
        try:
            av.codec.Codec(name, "w" if direction == "w" else "r")
        except av.codec.codec.UnknownCodecError:
            status = Status.BROKEN if needed else Status.NOTE
            findings.append(Finding(_GROUP, f"{kind} {name}", status, f"missing; {purpose} will not work"))
        else:
            findings.append(Finding(_GROUP, f"{kind} {name}", Status.OK, purpose))
    return findings


def check_containers() -> list[Finding]:
    """Whether the containers that veilcam reads and writes are known."""
    try:
        from av.format import formats_available
    except ImportError:
        return []  # check_codecs has said it
    wanted = ("mp4", "matroska", "mpegts", "rtsp", "video4linux2,v4l2")
    absent = [name for name in wanted if name not in formats_available]
    if not absent:
        return [Finding(_GROUP, "containers", Status.OK, "mp4, matroska, mpegts, rtsp, v4l2")]
    status = Status.BROKEN if "mp4" in absent else Status.NOTE
    return [Finding(_GROUP, "containers", status, f"missing: {', '.join(absent)}")]
