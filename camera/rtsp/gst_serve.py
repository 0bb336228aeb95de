"""A program of its own: GStreamer's RTSP server, for one H.264 stream that comes on standard input.

Runs under whichever Python has PyGObject (Debian's, usually) and therefore imports nothing of veilcam. Units
are payloaded as they are: no parser, no encoder, nothing that would touch an SEI.

    input   one line of JSON: host, port, path, user, password (user empty: nobody is asked)
            then units: length u32 | capture time in microseconds u64 | key u8 | Annex-B bytes
    output  lines: ``ready PORT`` once, ``key`` when a client waits for a key frame
"""

from __future__ import annotations

import json
import struct
import sys
import threading
from typing import Any, BinaryIO

HEAD = struct.Struct(">IQB")
MAX_UNIT_BYTES = 32 * 1024 * 1024
MAX_QUEUED_BYTES = 8 * 1024 * 1024  # in front of the payloader; then the oldest units go
ROLE = "viewer"
LAUNCH = (
    "( appsrc name=src is-live=true format=time block=false leaky-type=downstream"
    f" max-bytes={MAX_QUEUED_BYTES}"
    " caps=video/x-h264,stream-format=byte-stream,alignment=au"
    " ! rtph264pay name=pay0 pt=96 mtu=1400 config-interval=0 )"
)


class Feed:
    """The running media, if anybody watches."""

    def __init__(self, gst: Any) -> None:  # noqa: ANN401  # the module Gst
        self._gst = gst
        self._lock = threading.Lock()
        self._source: Any = None
        self._needs_key = True
        self._base_us: int | None = None

    def configure(self, _factory: object, media: Any) -> None:  # noqa: ANN401  # GObject
        """A client came: feed its media from the next key frame on."""
        element = media.get_element().get_by_name_recurse_up("src")
        with self._lock:
            self._source, self._needs_key, self._base_us = element, True, None
        media.connect("unprepared", self._ended, element)
        say("key")

    def push(self, data: bytes, time_us: int, is_key: bool) -> None:
        """Hand a unit to the media."""
        with self._lock:
            source = self._source
            if source is None or (self._needs_key and not is_key):
                return
            if self._base_us is None:
                running_ns = source.get_current_running_time()
                if running_ns >= self._gst.CLOCK_TIME_NONE:  # its clock does not run yet: the next key frame
                    say("key")
                    return
                self._base_us = running_ns // 1000 - time_us
            self._needs_key = False
            stamp = max(0, self._base_us + time_us)
        buffer = self._gst.Buffer.new_wrapped(data)
        buffer.pts = buffer.dts = stamp * 1000
        source.emit("push-buffer", buffer)

    def _ended(self, _media: object, element: object) -> None:
        with self._lock:
            if self._source is element:
                self._source = None


def say(line: str) -> None:
    """Tell the camera."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def take(stream: BinaryIO, count: int) -> bytes:
    """Exactly ``count`` bytes, or an end."""
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data


def read_units(stream: BinaryIO, feed: Feed, loop: Any) -> None:  # noqa: ANN401  # GLib.MainLoop
    """Until the camera closes the pipe."""
    try:
        while True:
            size, time_us, is_key = HEAD.unpack(take(stream, HEAD.size))
            if size > MAX_UNIT_BYTES:
                break
            feed.push(take(stream, size), time_us, bool(is_key))
    except EOFError:
        pass
    finally:
        loop.quit()


def protect(rtsp: Any, server: Any, factory: Any, user: str, password: str) -> None:  # noqa: ANN401  # GObject
    """Ask for user and password, by Digest."""
    auth = rtsp.RTSPAuth()
    token = rtsp.RTSPToken()
    token.set_string("media.factory.role", ROLE)
    auth.set_supported_methods(2)  # GST_RTSP_AUTH_DIGEST: the password does not cross the network
    auth.add_digest(user, password, token)
    permissions = rtsp.RTSPPermissions()
    permissions.add_permission_for_role(ROLE, "media.factory.access", True)
    permissions.add_permission_for_role(ROLE, "media.factory.construct", True)
    factory.set_permissions(permissions)
    server.set_auth(auth)


def main() -> int:
    """Serve until standard input ends."""
    import gi  # noqa: PLC0415  # only where this runs

    for name in ("Gst", "GstApp", "GstRtspServer"):
        gi.require_version(name, "1.0")
    from gi.repository import GLib, Gst, GstRtspServer  # noqa: PLC0415

    settings = json.loads(sys.stdin.buffer.readline(4096))
    Gst.init(None)
    feed, loop = Feed(Gst), GLib.MainLoop()
    server = GstRtspServer.RTSPServer()
    server.set_address(settings["host"])
    server.set_service(str(settings["port"]))
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(LAUNCH)
    factory.set_shared(True)
    factory.set_latency(0)
    factory.connect("media-configure", feed.configure)
    if settings["user"]:
        protect(GstRtspServer, server, factory, settings["user"], settings["password"])
    server.get_mount_points().add_factory("/" + settings["path"], factory)
    if not server.attach(None):
        return 3
    GLib.timeout_add_seconds(10, lambda: server.get_session_pool().cleanup() >= 0)
    say(f"ready {server.get_bound_port()}")
    threading.Thread(target=read_units, args=(sys.stdin.buffer, feed, loop), daemon=True).start()
    loop.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
