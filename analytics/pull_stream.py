"""Access units pulled with libav from RTSP, SRT, UDP and HTTP: as they were encoded, never decoded.

libav blocks, so a thread of its own reads; units wait in a bounded queue as they do in a WHEP session.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction

import av
from av.bitstream import BitStreamFilterContext
from av.container import InputContainer

from analytics.encoded_unit import EncodedUnit, UnitQueue
from analytics.srt_program import SrtProgram
from base.errors import PeerError, UsageError, VeilError

logger = logging.getLogger(__name__)

SCHEMES = frozenset({"rtsp", "rtsps", "srt", "udp", "rtp", "tcp", "http", "https"})
OPEN_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 10.0
_JOIN_S = 2.0
_MICROSECOND = Fraction(1, 1_000_000)
_FORMATS = "rtsp,mpegts,mov,matroska,flv,h264"
# RTP over UDP loses packets under load, and a lost packet costs evidence.
_OPTIONS = {"rtsp": {"rtsp_transport": "tcp"}, "rtsps": {"rtsp_transport": "tcp"}}


class PullStream:
    """A stream that is being read: iterate over its units, once; ``close`` ends it. Use `open_pull`."""

    def __init__(self, url: str, shown: str, max_units: int, max_bytes: int) -> None:
        self._url = url
        self._shown = shown
        self._queue = UnitQueue(max_units, max_bytes)
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._opened = asyncio.Event()
        self._ended = False
        self._failure: VeilError | None = None
        self._stop = threading.Event()
        self._program: SrtProgram | None = None
        self._thread = threading.Thread(target=self._run, name="veilcam-pull", daemon=True)

    @property
    def num_dropped(self) -> int:
        """Units lost so far because they were not taken in time, or came before the first key frame."""
        return self._queue.num_dropped

    async def __aiter__(self) -> AsyncIterator[EncodedUnit]:
        """Units from a key frame on, until the stream ends.

        Raises:
            PeerError: it broke off.
        """
        while True:
            self._changed.clear()
            with self._lock:
                unit = self._queue.pop()
            if unit is not None:
                yield unit
            elif self._failure is not None:
                raise self._failure
            elif self._ended:
                return
            else:
                await self._changed.wait()

    def request_key_frame(self) -> None:
        """Nothing: these protocols have no way back; the next key frame comes by itself."""

    async def close(self) -> None:
        """End the reading; harmless when repeated. The thread ends within libav's read timeout."""
        self._stop.set()
        if self._program is not None:
            self._program.kill()
        self._ended = True
        self._changed.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, _JOIN_S)

    async def _open(self) -> None:
        self._thread.start()
        await self._opened.wait()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._read()
        except (av.FFmpegError, OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            self._failure = PeerError(f"{self._shown}: {reason}")
        except VeilError as error:
            self._failure = error
        finally:
            self._ended = True
            self._tell(self._opened, self._changed)

    def _read(self) -> None:
        with self._container() as container:
            self._tell(self._opened)
            first_us: int | None = None
            for data, time_us in self._units(container):
                if self._stop.is_set():
                    return
                first_us = time_us if first_us is None else first_us
                with self._lock:
                    self._queue.put(data, time_us - first_us)
                self._tell(self._changed)

    @contextmanager
    def _container(self) -> Iterator[InputContainer]:
        scheme = self._url.partition(":")[0].lower()
        options = {"format_whitelist": _FORMATS, **_OPTIONS.get(scheme, {})}
        if scheme == "srt":
            self._program = SrtProgram(self._url, sends=False)
            with self._program as program, av.open(program.pipe, "r", format="mpegts") as container:
                yield container
            return
        with av.open(self._url, "r", options=options, timeout=(OPEN_TIMEOUT_S, READ_TIMEOUT_S)) as container:
            yield container

    def _units(self, container: InputContainer) -> Iterator[tuple[bytes, int]]:
        streams = [stream for stream in container.streams.video if stream.codec_context.name == "h264"]
        if not streams:
            message = f"{self._shown}: holds no H.264 video"
            raise PeerError(message)
        stream = streams[0]
        is_avcc = bytes(stream.codec_context.extradata or b"")[:1] == b"\x01"
        to_annexb = BitStreamFilterContext("h264_mp4toannexb", stream) if is_avcc else None
        last_us = 0
        for packet in container.demux(stream):
            for ready in to_annexb.filter(packet) if to_annexb is not None else (packet,):
                if not ready.size:
                    continue
                ticks = ready.pts if ready.pts is not None else ready.dts
                if ticks is not None and ready.time_base is not None:
                    last_us = round(ticks * ready.time_base / _MICROSECOND)
                yield bytes(ready), last_us

    def _tell(self, *events: asyncio.Event) -> None:
        for event in events:
            with suppress(RuntimeError):  # the loop has closed
                self._loop.call_soon_threadsafe(event.set)


async def open_pull(url: str, *, shown: str, max_units: int = 256, max_bytes: int = 16 << 20) -> PullStream:
    """Open a stream and return it once libav has found out what it is.

    Args:
        url: rtsp, rtsps, srt, udp, rtp, tcp, http or https; may hold a user and a password.
        shown: the URL for messages, without those.
        max_units: bound of the queue, as ``max_bytes``.
        max_bytes: see there.

    Raises:
        UsageError: another scheme.
        PeerError: it does not open, or holds no H.264.
    """
    scheme = url.partition(":")[0].lower()
    if scheme not in SCHEMES:
        message = f"{shown}: expected one of {', '.join(sorted(SCHEMES))}"
        raise UsageError(message)
    stream = PullStream(url, shown, max_units, max_bytes)
    try:
        await stream._open()
    except BaseException:
        await stream.close()
        raise
    return stream
