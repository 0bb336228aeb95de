"""Writes restored pictures; none gets into the file without its label."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import av
from av.container.core import Flags
from av.packet import Packet
from av.stream import Stream
from av.video.stream import VideoStream

from base.errors import MediaError, UsageError
from base.files import sync_folder
from base.frames import ClearFrame
from codec.muxer import MUXER_OF_SUFFIX, temporary_neighbour
from codec.nal import is_picture_nal, join_annexb, split_annexb
from codec.planes import to_picture
from forensics.restored import RestoredLabel, RestoredOrigin, label_metadata, label_sei

_TIME_BASE = Fraction(1, 90_000)
_SUFFIXES = (".mp4", ".m4v", ".mov", ".mkv")
_BITEXACT = cast(int, Flags.bitexact.value)


class RestoredWriter:
    """One H.264 video of restored pictures, mode 0600; it gets its name when closed without an error.

    Every picture is labelled here (`RestoredLabel`), every key frame carries the label's SEI, the container
    its metadata. The same pictures give the same bytes.
    """

    def __init__(
        self, path: Path, width: int, height: int, origin: RestoredOrigin, *, rate: Fraction | int = 25
    ) -> None:
        """Create the file.

        Args:
            path: ends in .mp4, .m4v, .mov or .mkv: the containers that keep the metadata.
            width: luma columns, even.
            height: luma rows, even.
            origin: goes into the label.
            rate: nominal, frames per second.

        Raises:
            UsageError: another ending.
            MediaError: the file cannot be created.
        """
        if path.suffix.lower() not in _SUFFIXES:
            message = f"{path.name}: restored pictures go into {', '.join(_SUFFIXES)}"
            raise UsageError(message)
        self._path, self._temporary = path, temporary_neighbour(path)
        self._label, self._sei = RestoredLabel(width, height), label_sei(origin)
        self._first_us: int | None = None
        try:
            self._container = av.open(
                f"file:{self._temporary}", "w", format=MUXER_OF_SUFFIX[path.suffix.lower()]
            )
        except (av.FFmpegError, OSError) as error:
            message = f"{path}: cannot be created: {error}"
            raise MediaError(message) from error
        self._container.flags |= _BITEXACT
        self._container.metadata.update(label_metadata(origin))
        options = {"crf": "16", "preset": "veryfast", "x264-params": "bframes=0:threads=1"}
        self._stream = self._container.add_stream("libx264", rate=rate, options=options)
        self._stream.width, self._stream.height, self._stream.pix_fmt = width, height, "yuv420p"
        self._stream.codec_context.time_base = _TIME_BASE
        self._stream.codec_context.gop_size = 50

    def write(self, frame: ClearFrame) -> None:
        """Label, code and write a picture; times have to rise.

        Raises:
            MediaError: it cannot be coded or written.
        """
        if self._first_us is None:
            self._first_us = frame.time_us
        picture = to_picture(self._label.apply(frame))
        picture.pts = int((frame.time_us - self._first_us) * _TIME_BASE.denominator / 1_000_000)
        picture.time_base = _TIME_BASE
        self._mux(self._stream.encode(picture))

    def _mux(self, packets: Sequence[Packet[VideoStream]]) -> None:
        try:
            for packet in packets:
                if not packet.size:
                    continue
                self._container.mux_one(self._with_label(packet) if packet.is_keyframe else packet)
        except (av.FFmpegError, OSError, ValueError) as error:
            message = f"{self._path.name}: cannot be written: {error}"
            raise MediaError(message) from error

    def _with_label(self, packet: Packet[VideoStream]) -> Packet[Stream]:
        nals = list(split_annexb(bytes(packet)))
        place = next(number for number, nal in enumerate(nals) if is_picture_nal(nal))
        labelled: Packet[Stream] = Packet(join_annexb([*nals[:place], self._sei, *nals[place:]]))
        labelled.stream, labelled.time_base = packet.stream, packet.time_base
        labelled.pts, labelled.dts, labelled.duration = packet.pts, packet.dts, packet.duration
        labelled.is_keyframe = True
        return labelled

    def close(self) -> None:
        """Finish the file and give it its name.

        Raises:
            MediaError: it cannot be written.
        """
        self._mux(self._stream.encode(None))
        self._container.close()
        self._temporary.chmod(0o600)
        self._temporary.replace(self._path)
        sync_folder(self._path.parent)

    def abort(self) -> None:
        """Leave nothing."""
        self._container.close()
        self._temporary.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()
