"""The pool against workers on real sockets that die, refuse, dawdle and lie."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from aiohttp import web

from analytics.elf.types import Policy
from analytics.oip.messages import InferRequest, InferResponse
from analytics.oip.tensors import Tensor
from analytics.pool import EdgeWorkers, Pool, PoolOptions, PoolResult, WorkerAddress
from base.errors import UsageError
from base.frames import ClearFrame
from tests.support.edge_worker import ScriptedWorker, ShapeDetector, frame_of, moving

DEADLINE_S = 3.0  # of a starved machine, not of a good one
OPTIONS = PoolOptions(deadline_s=DEADLINE_S)


@asynccontextmanager
async def pool_of(
    *workers: ScriptedWorker,
    options: PoolOptions = OPTIONS,
    local: ShapeDetector | None = None,
    more: Sequence[dict[str, Any]] = (),
) -> AsyncIterator[Pool]:
    """A pool that has tried its workers; they are named w0, w1, ..."""
    extra: list[dict[str, Any]] = [*more, *[{}] * (len(workers) - len(more))]
    addresses = [
        dataclasses.replace(WorkerAddress(worker.url, f"w{n}"), **extra[n])
        for n, worker in enumerate(workers)
    ]
    shared = EdgeWorkers(addresses)
    pool = Pool(shared, options, local=local)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.close()
        await shared.close()


def finds_all(result: PoolResult, step: int) -> bool:
    """The rectangles of ``moving``, each within 3 pixels."""
    found = result.detections.boxes_xyxy
    return all(bool((np.abs(found - box) <= 3).all(1).any()) for box in moving(step)) if len(found) else False


async def run(pool: Pool, first: int, count: int) -> list[PoolResult]:
    """Frames ``first`` to ``first + count``, none missing a rectangle unless it says so."""
    return [await pool.detect(frame_of(moving(step)), step) for step in range(first, first + count)]


async def test_every_shape_is_found_in_every_frame_while_only_tiles_are_sent() -> None:
    async with ScriptedWorker() as a, ScriptedWorker() as b, pool_of(a, b) as pool:
        results = await run(pool, 0, 12)
        assert all(finds_all(result, step) for step, result in enumerate(results))
        assert all(result.missing == result.failed == 0 for result in results)
        sent = sum(tile.sent_pixels for tile in results[-1].plan.tiles)
        assert sent < 0.5 * 640 * 384
        assert {request.parameters["camera"] for request in a.tiles} == {"camera"}


async def test_a_worker_that_dies_costs_no_tile_and_is_used_again_when_it_is_back() -> None:
    async with ScriptedWorker() as a, ScriptedWorker() as b, pool_of(a, b) as pool:
        await run(pool, 0, 4)
        await b.stop()
        results = await run(pool, 4, 6)
        assert all(finds_all(result, step) for step, result in enumerate(results, 4))
        assert max(result.latency_s for result in results) < DEADLINE_S
        assert pool.states()[1].state != "closed"
        assert {outcome.worker for outcome in results[-1].outcomes if outcome.found} == {"w0"}
        async with ScriptedWorker(port=b.port) as again:
            async with asyncio.timeout(10):
                for step in itertools.count(10):
                    await run(pool, step, 1)
                    if again.tiles:
                        break
                    await asyncio.sleep(0.05)


async def test_a_worker_that_refuses_or_is_late_has_its_tiles_moved_in_time() -> None:
    async with (
        ScriptedWorker(seconds_per_pixel=5e-7) as a,
        ScriptedWorker(seconds_per_pixel=1e-6) as b,
        pool_of(a, b) as pool,
    ):
        await run(pool, 0, 6)
        a.status = 503
        refused = await run(pool, 6, 3)
        a.status, a.delay_s = 200, 5.0
        late = await run(pool, 9, 4)
        for step, result in enumerate([*refused, *late], 6):
            assert finds_all(result, step)
            assert result.latency_s < DEADLINE_S
        assert "moved" in {outcome.kind for result in refused for outcome in result.outcomes}
        assert sum(result.late for result in late) >= 1 or pool.states()[0].state != "closed"


async def test_when_nobody_answers_the_frame_ends_with_its_deadline_and_says_what_is_missing() -> None:
    async with ScriptedWorker() as a, pool_of(a) as pool:
        await run(pool, 0, 4)
        a.delay_s = 30.0
        began_s = time.monotonic()
        (result,) = await run(pool, 4, 1)
        assert time.monotonic() - began_s < 2 * DEADLINE_S
        assert result.missing == len(result.plan.tiles)
        (after,) = await run(pool, 5, 1)
        assert after.latency_s < 2 * DEADLINE_S


async def test_the_cameras_own_detector_answers_what_no_worker_does() -> None:
    async with ScriptedWorker() as a, pool_of(a, local=ShapeDetector()) as pool:
        await run(pool, 0, 4)
        await a.stop()
        results = await run(pool, 4, 4)
        assert all(finds_all(result, step) for step, result in enumerate(results, 4))
        assert results[-1].local == len(results[-1].plan.tiles)
        assert results[-1].sent_bytes == 0


def with_output(name: str, array: npt.NDArray[Any]) -> Callable[[InferRequest, InferResponse], InferResponse]:
    """A lie about one output."""

    def twist(_asked: InferRequest, answer: InferResponse) -> InferResponse:
        outputs = tuple(Tensor.of_array(name, array) if one.name == name else one for one in answer.outputs)
        return dataclasses.replace(answer, outputs=outputs)

    return twist


def told(**parameters: object) -> Callable[[InferRequest, InferResponse], InferResponse]:
    """A lie about the answer as a whole."""
    return lambda _asked, answer: dataclasses.replace(answer, parameters=answer.parameters | parameters)  # type: ignore[operator]


LIES: dict[str, Callable[[InferRequest, InferResponse], InferResponse | bytes]] = {
    "not a message": lambda _asked, _answer: b"SECRET-NOISE\xff\x00",
    "too many bytes for boxes": lambda _asked, answer: dataclasses.replace(
        answer, outputs=(*answer.outputs, Tensor.of_array("MORE", np.zeros(1 << 20, np.uint8)))
    ),
    "too large": lambda _asked, _answer: b'{"x":"' + b"SECRET-NOISE" * 200_000 + b'"}',
    "deeply nested": lambda _asked, _answer: b"[" * 100_000,
    "nothing, in a shape that numpy refuses": lambda asked, _answer: (
        b'{"id":"%s","outputs":[{"name":"BOXES","datatype":"FP32","shape":[0,%d,%d,%d],"data":[]}]}'
        % (asked.id.encode(), 2**31, 2**31, 2**31)
    ),
    "a name of several lines": lambda asked, _answer: (
        b'{"id":"%s","outputs":[{"name":"a\\nSECRET-NOISE","datatype":"?","shape":[1],"data":[1]}]}'
        % asked.id.encode()
    ),
    "a type that there is not": lambda asked, _answer: (
        b'{"id":"%s","outputs":[{"name":"BOXES","datatype":"SECRET-NOISE","shape":[1],"data":[1]}]}'
        % asked.id.encode()
    ),
    "another request's": lambda _asked, answer: dataclasses.replace(answer, id="SECRET-NOISE"),
    "no outputs": lambda _asked, answer: dataclasses.replace(answer, outputs=answer.outputs[:1]),
    "a box outside the tile": with_output("BOXES", np.full((1, 4), 5000, np.float32)),
    "a box of nan": with_output("BOXES", np.full((1, 4), np.nan, np.float32)),
    "scores above one": with_output("SCORES", np.full(1, 2, np.float32)),
    "an unknown class": with_output("CLASSES", np.full(1, 77, np.int64)),
    "a flood of boxes": with_output("BOXES", np.zeros((20_000, 4), np.float32)),
    "strings for boxes": lambda _asked, answer: dataclasses.replace(
        answer, outputs=(Tensor.of_strings("BOXES", [b"SECRET-NOISE"]), *answer.outputs[1:])
    ),
    "impossible times": told(inference_us=10**9),
    "negative times": told(inference_us=-1),
    "another detector's": told(names_sha256="SECRET-NOISE"),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_lying_worker_is_ignored_demoted_and_nothing_of_it_is_logged(
    lie: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "analytics")
    async with (
        ScriptedWorker(seconds_per_pixel=1e-6) as honest,
        ScriptedWorker(seconds_per_pixel=5e-7) as liar,  # quicker, so that it is asked
        pool_of(honest, liar) as pool,
    ):
        await run(pool, 0, 3)
        liar.twist = LIES[lie]
        results = await run(pool, 3, 4)
        # On a starved machine the honest one may be late, and a tile missing: never a lie in its place.
        assert all(finds_all(result, step) or result.missing for step, result in enumerate(results, 3))
        assert all(len(result.detections) <= len(moving(step)) for step, result in enumerate(results, 3))
        state = pool.states()[1]
        assert state.lied >= 1
        assert state.state == "open"
        assert results[-1].failed == 0  # it is not asked any more
        assert "SECRET-NOISE" not in caplog.text
        assert "SECRET-NOISE" not in state.error


async def test_a_worker_that_refuses_while_it_is_measured_is_tried_again() -> None:
    class BusyAtFirst(ScriptedWorker):
        async def _infer(self, request: web.Request) -> web.Response:
            self.status = 503 if 4 <= len(self.requests) < 7 else 200  # the three that are sent together
            return await super()._infer(request)

    async with BusyAtFirst() as a, pool_of(a) as pool:
        async with asyncio.timeout(10):
            while pool.states()[0].state != "closed":
                await asyncio.sleep(0.05)
        assert len(a.requests) > 7
        assert finds_all((await run(pool, 0, 1))[0], 0)


async def test_only_a_probe_brings_a_worker_back() -> None:
    async with ScriptedWorker() as a, pool_of(a) as pool:
        (worker,) = pool.workers.all
        a.delay_s = 0.3
        on_its_way = asyncio.create_task(pool.detect(frame_of(moving(0)), 0))
        await asyncio.sleep(0.15)
        a.ready = False  # no probe succeeds from here on
        worker.breaker.failure()
        worker.breaker._until_s = 0.0  # the hold is over before the answer comes
        await on_its_way
        assert worker.breaker.state != "closed"


async def test_a_worker_with_other_classes_is_not_used() -> None:
    async with ScriptedWorker() as a, ScriptedWorker(names=("cat",)) as b, pool_of(a, b) as pool:
        results = await run(pool, 0, 3)
        assert all(finds_all(result, step) for step, result in enumerate(results))
        assert not b.tiles
        assert "other classes" in pool.states()[1].error


async def test_no_worker_sees_more_of_a_frame_than_the_policy_allows_even_when_others_die() -> None:
    options = PoolOptions(deadline_s=DEADLINE_S, policy=Policy(max_share=0.35, look="local"))
    async with (
        ScriptedWorker() as a,
        ScriptedWorker() as b,
        ScriptedWorker() as c,
        pool_of(a, b, c, options=options, local=ShapeDetector()) as pool,
    ):
        results = await run(pool, 0, 6)
        await c.stop()
        results += await run(pool, 6, 6)
        assert all(finds_all(result, step) for step, result in enumerate(results))
        shares = [share for result in results for share in result.seen_share.values()]
        assert shares
        assert max(shares) <= 0.35
        looks = [outcome for result in results for outcome in result.outcomes if outcome.is_look]
        assert {outcome.worker for outcome in looks} <= {"local"}


async def test_only_a_trusted_worker_gets_the_look_at_the_whole_frame() -> None:
    options = PoolOptions(deadline_s=DEADLINE_S, policy=Policy(look="trusted", look_every=(2, 2)))
    more: list[dict[str, Any]] = [{"max_share": 0.6}, {"trusted": True}]
    async with (
        ScriptedWorker() as a,
        ScriptedWorker() as b,
        pool_of(a, b, options=options, more=more) as pool,
    ):
        results = await run(pool, 0, 12)
        await pool.settle()
        looks = [outcome for result in results for outcome in result.outcomes if outcome.is_look]
        assert looks
        assert {outcome.worker for outcome in looks} == {"w1"}


async def test_a_look_is_sent_when_its_worker_has_answered_its_tiles() -> None:
    options = PoolOptions(deadline_s=DEADLINE_S, policy=Policy(look_every=(2, 2)))
    waiting: list[str] = []  # "look" or "tile", as they came and are not answered yet
    beside: list[bool] = []

    def kind(asked: InferRequest) -> str:
        image = cv2.imdecode(np.frombuffer(asked.inputs[0].strings()[0], np.uint8), cv2.IMREAD_COLOR)
        return "look" if image is not None and image.shape[:2] == (192, 320) else "tile"

    def note(asked: InferRequest, answer: InferResponse) -> InferResponse:
        came = [kind(request) for request in a.tiles[len(waiting) :]]
        waiting.extend(came)
        if kind(asked) == "tile":
            beside.append("look" in came)
        return answer

    async with ScriptedWorker(fixed_s=0.02) as a, pool_of(a, options=options) as pool:
        for step in range(10):
            a.twist = note if step else None
            await run(pool, step, 1)
            await pool.settle()
            waiting.extend(kind(request) for request in a.tiles[len(waiting) :])
        assert waiting.count("look") >= 3
        assert beside
        assert not any(beside)


async def test_two_cameras_share_workers_and_what_is_known_of_them() -> None:
    async with ScriptedWorker() as a, ScriptedWorker() as b, pool_of(a, b) as pool:
        other = Pool(pool.workers, PoolOptions(deadline_s=DEADLINE_S, camera="yard"))
        await other.start()
        known = pool.workers.all[0].estimate.num_observations
        results = await asyncio.gather(run(pool, 0, 8), run(other, 0, 8))
        await other.close()
        for one in results:
            assert all(finds_all(result, step) for step, result in enumerate(one))
        assert pool.workers.all[0].estimate.num_observations > known
        assert {request.parameters["camera"] for request in a.tiles + b.tiles} == {"camera", "yard"}


async def test_a_frame_is_prepared_while_the_one_before_is_at_the_workers() -> None:
    async with ScriptedWorker(fixed_s=0.15) as a, pool_of(a) as pool:
        first = await pool.prepare(frame_of(moving(0)), 0)
        sending = asyncio.create_task(pool.infer(first))
        await asyncio.sleep(0.02)
        second = await pool.prepare(frame_of(moving(1)), 1)
        assert not sending.done()
        assert finds_all(await sending, 0)
        assert finds_all(await pool.infer(second), 1)


async def test_a_clear_frame_is_refused() -> None:
    async with ScriptedWorker() as a, pool_of(a) as pool:
        frame = frame_of(moving(0))
        clear = ClearFrame(frame.luma_hw, frame.cb_hw, frame.cr_hw, 0)
        with pytest.raises(UsageError, match="ProtectedFrame"):
            await pool.detect(clear)  # type: ignore[arg-type]
        assert not a.tiles


async def test_the_load_follows_the_workers_speed() -> None:
    async with (
        ScriptedWorker(seconds_per_pixel=4e-6) as slow,
        ScriptedWorker(seconds_per_pixel=1e-6) as quick,
        pool_of(slow, quick, options=PoolOptions(deadline_s=5.0)) as pool,
    ):
        await run(pool, 0, 10)
        pixels = []
        for result in await run(pool, 10, 10):
            pixels.append(
                [sum(t.sent_pixels for t in result.plan.tiles if t.worker == n) for n in ("w0", "w1")]
            )
        slow_px, quick_px = np.sum(pixels, 0)
        assert quick_px > 1.5 * slow_px
