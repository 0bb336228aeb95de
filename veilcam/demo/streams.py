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
            streams = [s for s in container.streams if s.type in {"video", "audio"}]
            hashes = {s.index: hashlib.sha256() for s in streams}
            counts = {s.index: [0, 0] for s in streams}
            for packet in container.demux(streams):
                if packet.size:
                    index = packet.stream.index
                    hashes[index].update(bytes(packet))
                    counts[index][0] += 1
                    counts[index][1] += packet.size
            return tuple(
                StreamDigest(s.type, s.codec_context.name, *counts[s.index], hashes[s.index].hexdigest())
                for s in streams
            )
    except (av.FFmpegError, ValueError) as error:
        raise MediaError(f"{path.name}: cannot be read as media: {error}") from error
