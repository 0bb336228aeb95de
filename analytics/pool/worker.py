"""One worker as the pool knows it: connection, breaker, estimate, counters."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise

from analytics.elf.types import WorkerView
from analytics.pool.address import WorkerAddress
from analytics.pool.answer import Answer
from analytics.pool.breaker import Breaker
from analytics.pool.estimate import Observation, WorkerEstimate
from analytics.pool.result import WorkerState
from analytics.pool.tiles import grey_tile
from analytics.pool.transport import Overloaded, Request, Served, Transport
from analytics.urls import shown_url
from base.errors import FormatError, Malformed, PeerError

logger = logging.getLogger(__name__)

PROBE_WH = ((96, 96), (256, 256))  # two sizes tell fixed cost and speed apart
PROBE_TIMEOUT_S = 5.0
LOAD_WINDOW_S = 5.0
MAX_NOTE_CHARS = 300
UNFORESEEN = "answer: it cannot be used"


class EdgeWorker:
    """Shared by every pool of the process, so that what one camera learns all know. One event loop's."""

    def __init__(
        self,
        address: WorkerAddress,
        transport: Transport,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = address
        self.name = address.name
        self.breaker = Breaker(clock)
        self.estimate = WorkerEstimate()
        self.served: Served | None = None
        self.error = "not tried yet"
        self.outstanding = 0
        self.last_used_s = clock()
        self._transport = transport
        self._clock = clock
        self._latency_s: float | None = None
        self._look_until_s = 0.0  # when it is expected to have ended a look
        self._last_answer_s: float | None = None  # of the tiles that are there together
        self._answered = self._late = self._failed = self._lied = self._sent_bytes = 0
        self._work: deque[tuple[float, float]] = deque(maxlen=512)  # (when, busy seconds)

    @property
    def available(self) -> bool:
        """It may be given a tile now."""
        return self.served is not None and self.breaker.state == "closed"

    def view(self) -> WorkerView:
        """What the planner is told."""
        estimate, address = self.estimate, self.address
        return WorkerView(
            self.name,
            pixels_per_s=estimate.pixels_per_s,
            bytes_per_s=estimate.bytes_per_s,
            delay_s=estimate.delay_s + max(0.0, self._look_until_s - self._clock()),
            fixed_s=estimate.fixed_s,
            max_share=address.max_share,
            trusted=address.trusted,
        )

    def patience_s(self, request: Request, planned_s: float) -> float:
        """How long to wait for this answer before somebody else is asked, too.

        Args:
            request: the tile.
            planned_s: from now until the worker's last tile of this frame is planned to be answered.
        """
        one_s = self.estimate.predicted_s(request.cut.pixels, self._transport.body_bytes(request))
        expected_s = max(one_s * max(1, self.outstanding), planned_s)
        return self.estimate.patience_s(expected_s)

    def predicted_s(self, request: Request) -> float:
        """When this answer is expected, with what is on its way already."""
        one_s = self.estimate.predicted_s(request.cut.pixels, self._transport.body_bytes(request))
        return one_s * (1 + self.outstanding)

    def body_bytes(self, request: Request) -> int:
        """What asking will upload."""
        return self._transport.body_bytes(request)

    def expect_look(self, request: Request) -> None:
        """It will be given this look after the tiles it has: plans made from now on count on that."""
        self._look_until_s = self._clock() + self.predicted_s(request)

    async def infer(self, request: Request) -> Answer:
        """Ask, and learn from the answer; cancelling it counts as an answer that did not come in time.

        Raises:
            PeerError: it cannot be reached, refuses or failed.
            FormatError: its answer cannot be true.
        """
        began_s = self._clock()
        size = self._transport.body_bytes(request)
        alone = self.outstanding == 0
        self._last_answer_s = None if alone else self._last_answer_s
        if request.is_look:
            self.expect_look(request)
        self.outstanding += 1
        self._sent_bytes += size
        try:
            answer = await self._transport.infer(request)
        except asyncio.CancelledError:
            self._too_late(request, size, self._clock() - began_s)
            raise
        except Overloaded as error:
            self._late += 1
            self.breaker.late()
            self._note(error)
            raise
        except PeerError as error:
            self._failed += 1
            self.breaker.failure()
            self._note(error)
            raise
        except FormatError as error:
            self._lied += 1
            self.breaker.lie()
            self._note(error)
            raise
        except Exception as error:  # an answer that our checks missed: whose it was pays, not the frame
            self._lied += 1
            self.breaker.lie()
            self._break(error)
            raise Malformed(UNFORESEEN) from error
        finally:
            if request.is_look:
                self._look_until_s = 0.0
            self.outstanding -= 1
            self.last_used_s = self._clock()
        seen = Observation(
            request.cut.pixels, size, self._clock() - began_s, answer.queue_s, answer.busy_s, alone
        )
        self._learn(seen)
        return answer

    async def probe(self, *, is_first: bool) -> None:
        """Find out whether it may be used: health, model, and grey pictures of two sizes. Raises nothing."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                await self._check_ready()
                self.served = await self._transport.describe()
                for width, height in PROBE_WH * (2 if is_first else 1):
                    await self._probe_once(width, height)
                if is_first:
                    await self._probe_pair()
        except TimeoutError:
            self.breaker.failure()
            self._note(PeerError(f"no answer within {PROBE_TIMEOUT_S:.0f} s"))
        except FormatError as error:
            self._lied += 1
            self.breaker.lie()
            self._note(error)
        except PeerError as error:
            self.breaker.failure()
            self._note(error)
        except Exception as error:  # as in infer; a watch that ended would never come back
            self._lied += 1
            self.breaker.lie()
            self._break(error)
        else:
            self.breaker.success()
            if self.error:
                logger.info("worker %s: in use (%s)", self.name, self.served.model)
            self.error = ""

    async def check_health(self) -> None:
        """Ask an idle worker whether it still takes work. Raises nothing."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                ready = await self._transport.is_ready()
        except (TimeoutError, PeerError) as error:
            self.breaker.failure()
            self._note(error)
            return
        self.last_used_s = self._clock()
        if not ready:
            self.breaker.failure()
            self._note(Overloaded("it is not ready"))

    def refuse(self, reason: str) -> None:
        """Do not use it: what it serves does not fit."""
        self.breaker.lie()
        self._note(PeerError(reason))

    def catch(self, reason: str) -> None:
        """It was caught lying by means of other workers."""
        self._lied += 1
        self.refuse(reason)

    async def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(PeerError):
            await self._transport.close()

    def state(self) -> WorkerState:
        """Everything about it, for people."""
        estimate = self.estimate
        return WorkerState(
            name=self.name,
            url=shown_url(self.address.url),
            state=self.breaker.state,
            model="" if self.served is None else self.served.model,
            error=self.error,
            load=self._load(),
            latency_s=self._latency_s,
            speed_pixels_per_s=estimate.pixels_per_s,
            link_bytes_per_s=estimate.bytes_per_s,
            delay_s=estimate.delay_s,
            fixed_s=estimate.fixed_s,
            answered=self._answered,
            late=self._late,
            failed=self._failed,
            lied=self._lied,
            sent_bytes=self._sent_bytes,
            max_share=self.address.max_share,
            trusted=self.address.trusted,
        )

    async def _check_ready(self) -> None:
        if not await self._transport.is_ready():
            raise Overloaded("it is not ready")

    async def _probe_once(self, width: int, height: int) -> None:
        request = Request(grey_tile(width, height), 80, PROBE_TIMEOUT_S, "probe", 0.5)
        size = self._transport.body_bytes(request)
        began_s = self._clock()
        answer = await self._transport.infer(request)
        waited_s = self._clock() - began_s
        self.estimate.add(Observation(request.cut.pixels, size, waited_s, answer.queue_s, answer.busy_s))

    async def _probe_pair(self) -> None:
        """Two tiles at once: what lies between them."""
        request = Request(grey_tile(*PROBE_WH[0]), 80, PROBE_TIMEOUT_S, "probe", 0.5)
        ended: list[tuple[float, float | None]] = []

        async def one() -> None:
            answer = await self._transport.infer(request)
            ended.append((self._clock(), answer.busy_s))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(one())
        except ExceptionGroup as errors:  # the caller knows each kind of them
            raise errors.exceptions[0] from None
        for (before_s, _), (after_s, busy_s) in pairwise(ended):
            if busy_s is not None:
                size = self._transport.body_bytes(request)
                self.estimate.add_gap(after_s - before_s - busy_s, size)

    def _learn(self, seen: Observation) -> None:
        self.estimate.add(seen)
        now_s = self._clock()
        if self._last_answer_s is not None and seen.busy_s is not None and not seen.alone:
            self.estimate.add_gap(now_s - self._last_answer_s - seen.busy_s, seen.sent_bytes)
        self._last_answer_s = now_s
        if self.breaker.state == "closed":  # otherwise a probe decides, which also looks at the classes
            self.breaker.success()
            self.error = ""
        self._answered += 1
        mean_s = self._latency_s
        self._latency_s = seen.total_s if mean_s is None else 0.8 * mean_s + 0.2 * seen.total_s
        self._work.append((self._clock(), seen.total_s if seen.busy_s is None else seen.busy_s))

    def _too_late(self, request: Request, size: int, waited_s: float) -> None:
        if waited_s <= self.estimate.predicted_s(request.cut.pixels, size):
            return  # nobody waited long enough to blame it
        self._late += 1
        self.estimate.add_lost(request.cut.pixels, size, waited_s)
        self.breaker.late()
        self._note(PeerError("no answer in time"))

    def _load(self) -> float:
        since_s = self._clock() - LOAD_WINDOW_S
        return min(1.0, sum(busy_s for when_s, busy_s in self._work if when_s >= since_s) / LOAD_WINDOW_S)

    def _note(self, error: Exception) -> None:
        """Logged once per change, and without anything that the worker sent."""
        text = ascii(str(error) or type(error).__name__)[1:-1][:MAX_NOTE_CHARS]  # no line ends, no escapes
        log = logger.debug if self.error == text else logger.warning
        log("worker %s: %s", self.name, text)
        self.error = text

    def _break(self, error: Exception) -> None:
        """Said with its kind, as it shows a check that we lack."""
        self._note(Malformed(f"{UNFORESEEN} ({type(error).__name__})"))
