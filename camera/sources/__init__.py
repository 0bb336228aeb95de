"""Where pictures come from: files, folders, devices, network cameras and a synthetic scene."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from urllib.parse import urlsplit

from base.errors import UsageError
from camera.sources.captured import Captured, Source
from camera.sources.container import ContainerOptions, ContainerSource
from camera.sources.images import ImageFolder
from camera.sources.pushed import PushedSource
from camera.sources.synthetic import SyntheticScene
from camera.sources.uri import SourceKind, SourceUri, parse_size, parse_uri

__all__ = ["Captured", "Source", "open_source", "parse_uri"]

# RTP over UDP loses packets under load, and a lost packet costs evidence.
_RTSP_OPTIONS = {"rtsp_transport": "tcp"}
# A URL that ends like this is read once; any other is a live stream that is opened again when it ends.
_FILE_SUFFIXES = frozenset({".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg"})


def open_source(
    uri: str,
    *,
    loop: bool = False,
    realtime: bool = False,
    options: dict[str, str] | None = None,
    start_unix_us: int | None = None,
    open_timeout_s: float = 10.0,
    read_timeout_s: float = 5.0,
) -> Source:
    """A source for a string as in ``parse_uri``. Nothing is opened before the first iteration.

    Args:
        uri: what to read.
        loop: files and folders begin again at their end.
        realtime: files, folders and the scene play at their recorded speed, and may drop pictures as a
            camera does; otherwise they come as fast as they are taken and none is dropped.
        options: FFmpeg options of protocol and demuxer, such as ``{"rtsp_transport": "udp"}``.
        start_unix_us: capture time of the first picture of a file; default: what the file says.
        open_timeout_s: a network source that does not open in this time is tried again.
        read_timeout_s: a network source that is silent for this long is opened again.

    Raises:
        UsageError: the string or its parameters are not understood, or the file does not exist.
    """
    source = parse_uri(uri)
    common = ContainerOptions(
        options=dict(options or {}),
        open_timeout_s=open_timeout_s,
        read_timeout_s=read_timeout_s,
        start_unix_us=start_unix_us,
    )
    match source.kind:
        case SourceKind.SYNTHETIC:
            return _synthetic(source, realtime, start_unix_us)
        case SourceKind.PUSHED:
            return PushedSource()
        case SourceKind.IMAGES:
            rate = _rate(source, "10")
            _refuse_unknown(source, "fps")
            folder = Path(source.target)
            return ImageFolder(folder, rate=rate, realtime=realtime, loop=loop, start_unix_us=start_unix_us)
        case SourceKind.V4L2:
            return ContainerSource(source.target or "/dev/video0", source.name, _v4l2(source, common))
        case SourceKind.URL if not _is_remote_file(source.target):
            if source.target.lower().startswith("rtsp"):
                common = replace(common, options=_RTSP_OPTIONS | common.options)
            return ContainerSource(source.target, source.name, replace(common, live=True))
        case _:
            if source.kind is SourceKind.FILE and not Path(source.target).exists():
                message = f"source: no such file: {source.target}"
                raise UsageError(message)
            return ContainerSource(source.target, source.name, replace(common, loop=loop, realtime=realtime))


def _synthetic(source: SourceUri, realtime: bool, start_unix_us: int | None) -> SyntheticScene:
    _refuse_unknown(source, "size", "fps", "seed", "seconds")
    width, height = parse_size(source.parameters.get("size", "1280x720"))
    seconds = source.parameters.get("seconds")
    return SyntheticScene(
        width=width,
        height=height,
        rate=_rate(source, "25"),
        seed=int(_number(source, "seed", "1", minimum=0)),
        seconds=None if seconds is None else float(_number(source, "seconds", seconds)),
        realtime=realtime,
        start_unix_us=start_unix_us,
    )


def _v4l2(source: SourceUri, common: ContainerOptions) -> ContainerOptions:
    _refuse_unknown(source, "size", "fps", "format")
    wanted: dict[str, str] = {}
    if "size" in source.parameters:
        wanted["video_size"] = "{}x{}".format(*parse_size(source.parameters["size"]))
    if "fps" in source.parameters:
        wanted["framerate"] = str(_rate(source, "25"))
    if "format" in source.parameters:
        wanted["input_format"] = source.parameters["format"]
    return replace(common, format="v4l2", options=wanted | common.options, live=True)


def _is_remote_file(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme.lower() in {"http", "https"} and Path(parts.path).suffix.lower() in _FILE_SUFFIXES


def _rate(source: SourceUri, default: str) -> Fraction:
    return _number(source, "fps", default, maximum=1000)


def _number(
    source: SourceUri, name: str, default: str, *, minimum: float = 1e-3, maximum: float = 1e9
) -> Fraction:
    text = source.parameters.get(name, default)
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(-1)
    if not minimum <= value <= maximum:
        message = f"source: {name}: expected a number of {minimum:g} to {maximum:g}, got {text!r}"
        raise UsageError(message)
    return value


def _refuse_unknown(source: SourceUri, *known: str) -> None:
    for name in source.parameters:
        if name not in known:
            message = f"source: unknown parameter {name!r}, expected one of {', '.join(known)}"
            raise UsageError(message)
