"""Queue and inference thread of a worker. The event loop only waits; it never runs a model."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analytics.oip import InferRequest, InferResponse, Parameter, Tensor
from analytics.worker.cameras import Camera, CameraNames
from analytics.worker.estimate import Estimate
from analytics.worker.metrics import WorkerMetrics
from analytics.worker.model import VERSION, Answer, ServedModel, Work
from analytics.worker.queue import FairQueue, QueueFull
from analytics.worker.refusal import Refused, Why
from base.errors import FormatError, Malformed

logger = logging.getLogger(__name__)

DETECTOR = "detector"
"""The name under which the first detector is served besides its own."""
MAX_CAMERA_CHARS = 128
STUCK_S = 60.0
"""A model that works longer on one request makes the worker not live."""
_TIMEOUTS = ("timeout", "timeout_us", "deadline_us")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Limits of the queue.

    Attributes:
        max_queue: requests that wait, of all cameras.
        max_per_camera: of them from one camera; None: half of the queue, at least 1.
        max_cameras_per_client: names of cameras with turns of their own that one client (address) may use.
        default_deadline_s: of a request that names none.
        max_deadline_s: however long a request says it would wait.
    """

    max_queue: int = 16
    max_per_camera: int | None = None
    max_cameras_per_client: int = 16
    default_deadline_s: float = 5.0
    max_deadline_s: float = 30.0


@dataclass(slots=True, eq=False)
class _Job:
    model: str
    work: Work
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[tuple[Answer, float]]
    queued_s: float
    done: bool = field(default=False)


class Engine:
    """Serves models from one thread. ``infer`` may be called from any event loop."""

    def __init__(
        self,
        models: Sequence[ServedModel],
        options: EngineOptions | None = None,
        metrics: WorkerMetrics | None = None,
        *,
        default: str | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            models: with different names.
            options: limits.
            metrics: counters; own ones if None.
            default: the model that is also served as ``detector``.
        """
        self.options = options or EngineOptions()
        self.metrics = metrics or WorkerMetrics()
        self._models = {model.name: model for model in models}
        self._served: dict[str, ServedModel] = dict(self._models)
        if default is not None:
            self._served.setdefault(DETECTOR, self._models[default])
        self._outputs = {
            name: {spec.name for spec in model.metadata().outputs} for name, model in self._served.items()
        }
        per_camera = self.options.max_per_camera or max(1, self.options.max_queue // 2)
        self._queue: FairQueue[_Job] = FairQueue(self.options.max_queue, per_camera)
        self._cameras = CameraNames(self.options.max_cameras_per_client)
        self._estimates = {name: Estimate() for name in self._models}  # the inference thread's own
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = self._draining = self._warm = False
        self._failed: Exception | None = None
        self._running_since_s: float | None = None
        self._mean_s = 0.05  # of one request, moving

    @property
    def models(self) -> Mapping[str, ServedModel]:
        """By every name under which they are served."""
        return self._served

    @property
    def is_ready(self) -> bool:
        """Whether new work is taken: models are warm, and it is not draining."""
        return self._warm and not self._draining and self.is_live

    @property
    def is_live(self) -> bool:
        """Whether waiting helps: the inference thread is there and not stuck."""
        thread, since_s = self._thread, self._running_since_s
        if thread is None or self._failed is not None:
            return False
        return thread.is_alive() and (since_s is None or time.monotonic() - since_s < STUCK_S)

    @property
    def retry_after_s(self) -> float:
        """About when there will be room."""
        return max(0.05, self._mean_s * (len(self._queue) + 1) / 2)

    def start(self) -> None:
        """Start the thread; it warms the models up first, and is ready then."""
        self._thread = threading.Thread(target=self._run, name="veilcam-inference", daemon=True)
        self._thread.start()

    async def wait_ready(self) -> None:
        """Return when the models are warm.

        Raises:
            Exception: what a model raised in its warm-up.
        """
        while not self._warm:
            if self._failed is not None:
                raise self._failed
            await asyncio.sleep(0.02)

    def wait_ready_here(self, limit_s: float = 300.0) -> None:
        """The same, where there is no event loop.

        Raises:
            Exception: what a model raised in its warm-up.
            TimeoutError: it takes longer than ``limit_s``.
        """
        end_s = time.monotonic() + limit_s
        while not self._warm:
            if self._failed is not None:
                raise self._failed
            if time.monotonic() > end_s:
                message = f"models are not warm after {limit_s} s"
                raise TimeoutError(message)
            time.sleep(0.02)

    async def infer(
        self, request: InferRequest, timeout_s: float | None = None, peer: str = ""
    ) -> InferResponse:
        """Wait for a result until the deadline, not longer.

        Args:
            request: its parameters may hold ``timeout`` (microseconds) and ``camera``.
            timeout_s: a second deadline, from the transport; the earlier one counts.
            peer: the client's address: names of cameras are its own.

        Raises:
            Refused: there is no result, and why.
        """
        try:
            response = await self._infer(request, timeout_s, peer)
        except Refused as refused:
            self._count(request.model, refused.why.code)
            raise
        self._count(request.model, "ok")
        return response

    async def _infer(self, request: InferRequest, timeout_s: float | None, peer: str) -> InferResponse:
        if self._draining:
            raise Refused(Why.DRAINING, "this worker is going away; ask another one")
        if not self._warm:
            raise Refused(Why.NOT_READY, "the models are not warm yet", 1.0)
        model = self.model(request.model, request.version)
        try:
            wait_s = self._wait_s(request, timeout_s)
            name = _camera_name(request)
            self._check_outputs(request)
            work = model.prepare(request)
        except FormatError as error:
            raise Refused(Why.INVALID, str(error)) from error
        if wait_s <= 0:
            raise Refused(Why.LATE, "the deadline is past", None)
        loop = asyncio.get_running_loop()
        job = _Job(model.name, work, loop, loop.create_future(), time.monotonic())
        self._enqueue(job, (peer, name), job.queued_s + wait_s)
        try:
            answer, waited_s = await asyncio.wait_for(job.future, wait_s)
        except TimeoutError:
            raise Refused(Why.LATE, "no result before the deadline", self.retry_after_s) from None
        finally:
            self._forget(job)
        return _response(request, answer, waited_s)

    def model(self, name: str, version: str = "") -> ServedModel:
        """The model that is served under ``name``.

        Raises:
            Refused: there is none, or not in this version.
        """
        model = self._served.get(name)
        if model is None or version not in ("", VERSION):
            message = f"no model {name[:64]!r}" + (f" in version {version[:16]!r}" if model else "")
            raise Refused(Why.UNKNOWN, message)
        return model

    async def drain(self, limit_s: float) -> int:
        """Take no more work and finish what waits, for at most ``limit_s``; how many were given up."""
        self._draining = True
        self.metrics.ready.set(0)
        end_s = time.monotonic() + limit_s
        while (len(self._queue) or self._running_since_s is not None) and time.monotonic() < end_s:
            await asyncio.sleep(0.02)
        with self._changed:
            left = self._queue.clear()
            self._gauge()
        for job in left:
            _fail(job, Refused(Why.DRAINING, "this worker is going away; ask another one"))
        return len(left)

    def close(self) -> None:
        """End the thread after the request it works on, if that takes no more than a second."""
        self._draining = True
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(1.0)

    def _check_outputs(self, request: InferRequest) -> None:
        known = self._outputs[request.model]
        for output in request.outputs:
            if output.name not in known:
                message = f"outputs: expected some of {', '.join(sorted(known))}, got {output.name[:64]!r}"
                raise Malformed(message)

    def _wait_s(self, request: InferRequest, timeout_s: float | None) -> float:
        limits = [] if timeout_s is None else [timeout_s]
        for name in _TIMEOUTS:
            value = request.parameters.get(name)
            if value is None:
                continue
            if isinstance(value, bool | str | float) or value < 0:
                message = f"{name}: expected microseconds, a whole number"
                raise Malformed(message)
            limits.append(value / 1e6)
        return min(self.options.max_deadline_s, *(limits or [self.options.default_deadline_s]))

    def _enqueue(self, job: _Job, asks: Camera, deadline_s: float) -> None:
        with self._changed:
            camera = self._cameras.camera(*asks, job.queued_s)
            try:
                expired, pushed_out = self._queue.put(job, camera, deadline_s, job.queued_s)
            except QueueFull:
                raise Refused(Why.BUSY, "the queue is full", self.retry_after_s) from None
            self._gauge()
            self._changed.notify()
        for late in expired:
            _fail(late, Refused(Why.LATE, "no result before the deadline", self.retry_after_s))
        for other in pushed_out:
            _fail(other, Refused(Why.BUSY, "pushed out of the queue: too much from this camera", 1.0))

    def _forget(self, job: _Job) -> None:
        """Whatever became of the caller, nothing of it stays in the queue."""
        job.done = True
        with self._changed:
            if self._queue.remove(job):
                self._gauge()

    def _gauge(self) -> None:
        self.metrics.queued.set(len(self._queue))
        self.metrics.cameras.set(self._queue.num_cameras)

    def _count(self, model: str, outcome: str) -> None:
        self.metrics.requests.labels(model if model in self._served else "", outcome).inc()

    def _run(self) -> None:
        try:
            for model in self._models.values():
                model.warm_up()
        except Exception as error:  # whatever a model raises: the worker does not become ready
            logger.exception("warm-up failed")
            self._failed = error
            return
        self._warm = True
        self.metrics.ready.set(0 if self._draining else 1)
        while (job := self._next()) is not None:
            self._work(job)

    def _next(self) -> _Job | None:
        while True:
            with self._changed:
                job, expired = self._queue.take(time.monotonic(), self._needs_s)
                if job is not None:
                    self._running_since_s = time.monotonic()
                self._gauge()
                if job is None and not expired:
                    if self._stopping:
                        return None
                    self._changed.wait()
            for late in expired:
                _fail(late, Refused(Why.LATE, "no result before the deadline", self.retry_after_s))
            if job is not None:
                return job

    def _needs_s(self, job: _Job) -> float:
        return self._estimates[job.model].needs_s(job.work.pixels, time.monotonic())

    def _work(self, job: _Job) -> None:
        begun_s = time.monotonic()
        waited_s = begun_s - job.queued_s
        self.metrics.waiting.observe(waited_s)
        try:
            answer = job.work.run()
        except FormatError as error:
            _fail(job, Refused(Why.INVALID, str(error)))
        except Exception:  # a model's fault must not end the worker
            logger.exception("%s failed", job.model)
            _fail(job, Refused(Why.BROKEN, "the model failed; see the worker's log"))
        else:
            _settle(job, (answer, waited_s), None)
            now_s = time.monotonic()
            self._estimates[job.model].add(job.work.pixels, now_s - begun_s, now_s)
        finally:
            spent_s = time.monotonic() - begun_s
            self._running_since_s = None
            self._mean_s += 0.1 * (spent_s - self._mean_s)
            self.metrics.busy.inc(spent_s)
            self.metrics.inference.labels(job.model).observe(spent_s)


def _camera_name(request: InferRequest) -> str:
    camera = request.parameters.get("camera", "")
    if not isinstance(camera, str) or len(camera) > MAX_CAMERA_CHARS:
        message = f"camera: expected text of at most {MAX_CAMERA_CHARS} characters"
        raise Malformed(message)
    return camera


def _response(request: InferRequest, answer: Answer, waited_s: float) -> InferResponse:
    outputs: Sequence[Tensor] = answer.outputs
    if request.outputs:
        wanted = [output.name for output in request.outputs]
        by_name = {tensor.name: tensor for tensor in outputs}
        outputs = [by_name[name] for name in dict.fromkeys(wanted)]
    parameters: dict[str, Parameter] = {**answer.parameters, "queue_us": int(waited_s * 1e6)}
    return InferResponse(request.model, tuple(outputs), VERSION, request.id, parameters)


def _fail(job: _Job, refused: Refused) -> None:
    _settle(job, None, refused)


def _settle(job: _Job, result: tuple[Answer, float] | None, refused: Refused | None) -> None:
    def settle() -> None:
        if job.future.done():
            return
        if refused is not None:
            job.future.set_exception(refused)
        elif result is not None:
            job.future.set_result(result)

    if job.done:
        return
    try:
        job.loop.call_soon_threadsafe(settle)
    except RuntimeError:  # the loop is closed: nobody waits any more
        logger.debug("a result came after the end")
