"""One worker: models, engine and both servers."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from analytics.detector import load_detector
from analytics.interface import DetectorConfig, Progress
from analytics.worker.engine import Engine
from analytics.worker.grpc_server import WorkerGrpc
from analytics.worker.http_server import WorkerHttp
from analytics.worker.model import DetectorModel, ServedModel
from analytics.worker.onnx_model import OnnxModel
from analytics.worker.options import WorkerOptions
from analytics.worker.rest_api import RestApi
from base.errors import MediaError, VeilError

logger = logging.getLogger(__name__)


def load_models(options: WorkerOptions, progress: Progress | None = None) -> list[ServedModel]:
    """The models that the options name; detectors run at the size of each tile.

    Raises:
        VeilError: one does not load.
    """
    config = DetectorConfig(
        min_score=options.min_score, threads=options.threads, any_size=True, max_side=options.max_side
    )
    models: list[ServedModel] = [
        DetectorModel(served.name, load_detector(served.spec, config, progress=progress))
        for served in options.detectors
    ]
    models += [OnnxModel(served.name, Path(served.spec), options.threads) for served in options.models]
    return models


class Worker:
    """Serves models until stopped."""

    def __init__(self, options: WorkerOptions, *, progress: Progress | None = None) -> None:
        """Load the models; nothing is bound yet.

        Raises:
            VeilError: see WorkerOptions.check and load_models.
        """
        options.check()
        tls = options.tls.context() if options.tls is not None else None
        self._options = options
        default = options.detectors[0].name if options.detectors else None
        self.engine = Engine(load_models(options, progress), options.engine, default=default)
        self.api = RestApi(self.engine, options.token, options.limits)
        self._http = WorkerHttp(self.api, options.listen, tls)
        self._grpc: WorkerGrpc | None = None
        if options.grpc is not None:
            grpc_tls = options.tls.grpc() if options.tls is not None else None
            self._grpc = WorkerGrpc(self.api, options.grpc, grpc_tls)

    @property
    def url(self) -> str:
        """Base URL of REST, with the real port once started."""
        return self._http.url

    @property
    def grpc_address(self) -> str | None:
        """``HOST:PORT`` of gRPC, with the real port once started; None without it."""
        return None if self._grpc is None else self._grpc.address

    async def start(self) -> None:
        """Bind, then warm the models up; live at once, ready when this returns.

        Raises:
            PeerError: an address cannot be bound.
            MediaError: a model failed in its warm-up.
        """
        await self._http.start()
        if self._grpc is not None:
            await self._grpc.start()
        self.engine.start()
        try:
            await self.engine.wait_ready()
        except VeilError:
            raise
        except Exception as error:  # whatever a model's run-time raises
            message = f"a model failed in its warm-up: {str(error)[:200]}"
            raise MediaError(message) from error

    async def stop(self) -> int:
        """Say not ready, finish what waits within the limit, then close; how many requests were given up."""
        given_up = await self.engine.drain(self._options.drain_s)
        await asyncio.sleep(0.05)  # the last answers leave
        if self._grpc is not None:
            await self._grpc.close()
        await self._http.close()
        self.engine.close()
        return given_up
