"""What the camera tells about itself over HTTP: /healthz, /readyz, /metrics and /api/v1/state."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from aiohttp import web

from base.version import __version__
from camera.health import Check, RecorderState, check_readiness, is_alive
from camera.metrics import CameraMetrics
from camera.stream_metrics import StreamStates
from camera.webrtc.viewers import LiveCamera, Viewers

Json = dict[str, object]


class CameraView:
    """A camera and its viewers, as values for programs and for the page."""

    def __init__(
        self,
        name: str,
        camera: LiveCamera,
        viewers: Viewers,
        recorder: Callable[[], RecorderState | None] = lambda: None,
        streams: Callable[[], StreamStates] = StreamStates,
    ) -> None:
        self.name = name
        self.viewers = viewers
        self._camera = camera
        self._recorder = recorder
        self._streams = streams
        self._metrics = CameraMetrics(camera, viewers, streams)

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put the routes into an application's router."""
        router.add_get("/healthz", self._healthz)
        router.add_get("/readyz", self._readyz)
        router.add_get("/metrics", self._metrics_page)
        router.add_get("/api/v1/state", self._state)

    def readiness(self) -> tuple[Check, ...]:
        """The checks of /readyz at this moment."""
        return check_readiness(self._camera.stats(), self._camera.broadcast.idle_s, self._recorder())

    def state(self) -> Json:
        """Everything the page shows and a program may want, without any secret."""
        stats = self._camera.stats()
        recorder = self._recorder()
        checks = check_readiness(stats, self._camera.broadcast.idle_s, recorder)
        return {
            "product": "veilcam",
            "version": __version__,
            "name": self.name,
            "live": self.viewers.is_live,
            "ready": all(check.ok for check in checks),
            "checks": [asdict(check) for check in checks],
            "pipeline": stats.state,
            "error": stats.error,
            "uptime_s": _rounded(stats.uptime_s),
            "source": {
                "state": stats.source_state,
                "age_s": _rounded(stats.source_age_s),
                "reconnects": stats.reconnects,
            },
            "picture": {
                "width": stats.width,
                "height": stats.height,
                "fps": _rounded(stats.fps),
                "bitrate_bps": round(stats.bitrate_bps),
                "protector": stats.protector,
            },
            "key_epoch": stats.epoch,
            "segment_age_s": _rounded(self._camera.broadcast.segment_age_s),
            "segments": stats.segments,
            "sealed": {"mode": stats.sealed_mode, "bytes": stats.sealed_bytes},
            "dropped_frames": stats.dropped,
            "recording": asdict(recorder) if recorder is not None else None,
            "viewers": len(self.viewers),
            "max_viewers": self.viewers.max_viewers,
            "sessions": [asdict(viewer) for viewer in self.viewers.stats()],
            **asdict(self._streams()),
        }

    async def _healthz(self, _request: web.Request) -> web.Response:
        alive = is_alive(self._camera.stats())
        return _json(
            {"status": "alive" if alive else "failed", "version": __version__}, 200 if alive else 503
        )

    async def _readyz(self, _request: web.Request) -> web.Response:
        checks = self.readiness()
        ready = all(check.ok for check in checks)
        body: Json = {"ready": ready, "checks": {check.name: check.ok for check in checks}}
        return _json(body, 200 if ready else 503)

    async def _metrics_page(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": self._metrics.content_type})

    async def _state(self, _request: web.Request) -> web.Response:
        return _json(self.state(), 200)


def _json(body: Json, status: int) -> web.Response:
    return web.Response(
        status=status,
        body=json.dumps(body).encode(),
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
