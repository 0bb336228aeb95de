"""Workers as replicas of Ray Serve: more machines behind one address. Needs the extra ``serve``.

Ray starts, spreads, restarts and scales the replicas and routes requests to them; each replica is the same
engine and the same REST side as ``veilcam worker``. TLS and tokens towards the outside are the business of
what stands before Ray's proxy, so it listens on loopback unless told otherwise; the token is asked for by
the replicas too. gRPC is not served here.

    from analytics.worker.ray_serve import application
    from ray import serve
    serve.run(application("yolox", replicas=4), route_prefix="/")
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analytics.worker.engine import Engine, EngineOptions
from analytics.worker.options import Served, WorkerOptions
from analytics.worker.rest_api import Reply, RestApi
from analytics.worker.server import load_models
from base.access import find_token
from base.errors import MissingDependency

DEPLOYMENT = "veilcam-worker"
_OVERSUBSCRIPTION = 4  # requests that Ray may have at one replica, of its queue's size


def application(
    *detectors: str,
    replicas: int | str = 1,
    cpus: float = 1.0,
    max_queue: int = 16,
    token_file: str | None = None,
    max_side: int | None = None,
    autoscaling: Mapping[str, Any] | None = None,
) -> Any:  # noqa: ANN401  # Ray's classes have no types here
    """What ``serve.run`` takes.

    Args:
        detectors: as ``--detector`` of ``veilcam worker``; the first is also ``detector``.
        replicas: how many workers; ``auto`` to scale by load.
        cpus: that Ray reserves for each, and threads of an inference (at least 1).
        max_queue: requests that wait at one replica.
        token_file: of a bearer token, on every machine that may run a replica.
        max_side: larger pictures are scaled down.
        autoscaling: Ray Serve's ``autoscaling_config``, with ``replicas="auto"``.

    Raises:
        MissingDependency: ray[serve] is not installed.
    """
    try:
        serve: Any = importlib.import_module("ray.serve")
    except ImportError as error:
        message = "workers on Ray Serve need the extra 'serve': pip install 'veilcam[serve]'"
        raise MissingDependency(message) from error
    options: dict[str, Any] = {"num_replicas": replicas} if autoscaling is None else {}
    if autoscaling is not None:
        options["autoscaling_config"] = dict(autoscaling)
    deployment = serve.deployment(
        Replica,
        name=DEPLOYMENT,
        ray_actor_options={"num_cpus": cpus},
        max_ongoing_requests=max_queue + _OVERSUBSCRIPTION,
        graceful_shutdown_timeout_s=15,
        health_check_period_s=5,
        **options,
    )
    return deployment.bind(list(detectors), max(1, int(cpus)), max_queue, token_file, max_side)


class Replica:
    """One worker inside Ray Serve."""

    def __init__(
        self,
        detectors: list[str],
        threads: int,
        max_queue: int,
        token_file: str | None,
        max_side: int | None,
    ) -> None:
        """Load and warm up; Ray routes nothing here before this has returned.

        Raises:
            VeilError: a detector does not load.
        """
        served = tuple(Served.detector(text) for text in detectors)
        options = WorkerOptions(detectors=served, threads=threads, max_side=max_side)
        options.check()
        self._engine = Engine(
            load_models(options), EngineOptions(max_queue=max_queue), default=served[0].name
        )
        self._engine.start()
        self._engine.wait_ready_here()
        self._response: Any = importlib.import_module("starlette.responses").Response
        token = find_token(Path(token_file), {}) if token_file is not None else None
        self._api = RestApi(self._engine, token, options.limits)

    async def __call__(self, request: Any) -> Any:  # noqa: ANN401
        """Answer one HTTP request (Starlette's classes, which Ray Serve brings)."""
        method, headers = request.method, request.headers
        path = request.scope.get("raw_path", request.url.path.encode()).decode("ascii", "replace")
        peer = request.client.host if request.client is not None else ""
        reply = self._api.refuse(method, path, headers, peer)
        if reply is None:
            body = await _read(request, self._api.limits.body_bytes) if method == "POST" else b""
            reply = (
                Reply(413, b'{"error": "the body is too long"}')
                if body is None
                else await self._api.reply(method, path, headers, body, peer)
            )
        return self._response(reply.body, reply.status, dict(reply.headers), reply.content_type)

    def check_health(self) -> None:
        """Ray replaces a replica for which this raises.

        Raises:
            RuntimeError: the inference thread is gone or stuck.
        """
        if not self._engine.is_live:
            message = "the inference thread is gone or stuck"
            raise RuntimeError(message)

    def __del__(self) -> None:
        self._engine.close()


async def _read(request: Any, limit_bytes: int) -> bytes | None:  # noqa: ANN401
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit_bytes:
            return None
        parts.append(part)
    return b"".join(parts)
