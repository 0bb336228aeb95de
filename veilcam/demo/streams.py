"""Hashes of the coded streams inside a media file, whatever the container around them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import av

from base.errors import MediaError


@dataclass(frozen=True, slots=True)
class StreamDigest:
    """One elementary stream: SHA-256 over its packets' bytes, in order."""

    kind: str
    codec: str
    num_packets: int
    num_bytes: int
    sha256: str


def stream_digests(path: Path) -> tuple[StreamDigest, ...]:
    """Hash every video and audio stream of ``path`` without decoding it.

    Containers differ in padding, tables and timestamps even when they hold the same streams, so
    that the streams are what is compared.

    Raises:
        MediaError: the file cannot be read as media.
    """
    try:
        with av.open(str(path)) as container:
            streams = [stream for stream in container.streams if stream.type in {"video", "audio"}]
            hashes = {stream.index: _Running() for stream in streams}
            for packet in container.demux(streams):
                if packet.size:
                    hashes[packet.stream.index].add(bytes(packet))
            return tuple(
                hashes[stream.index].digest(stream.type, stream.codec_context.name) for stream in streams
            )
    except (av.FFmpegError, ValueError) as error:
        raise MediaError(f"{path.name}: cannot be read as media: {error}") from error


class _Running:
    """A stream's hash in the making."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._num_packets = self._num_bytes = 0

    def add(self, data: bytes) -> None:
        self._hash.update(data)
        self._num_packets += 1
        self._num_bytes += len(data)

    def digest(self, kind: str, codec: str) -> StreamDigest:
        return StreamDigest(kind, codec, self._num_packets, self._num_bytes, self._hash.hexdigest())
