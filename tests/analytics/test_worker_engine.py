"""Deadlines, fairness, warm-up and drain of the worker's engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from analytics.oip import InferResponse
from analytics.worker.engine import Engine, EngineOptions
from analytics.worker.refusal import Refused, Why
from tests.analytics.serving_worker import GatedModel, asking


@asynccontextmanager
async def running(model: GatedModel, options: EngineOptions | None = None) -> AsyncIterator[Engine]:
    engine = Engine([model], options)
    engine.start()
    try:
        await engine.wait_ready()
        yield engine
    finally:
        model.gate.set()
        engine.close()


async def why(task: asyncio.Task[InferResponse]) -> Why | str:
    try:
        return (await task).id
    except Refused as refused:
        return refused.why


async def occupied(engine: Engine, model: GatedModel) -> asyncio.Task[InferResponse]:
    """The thread works on one request until the gate opens."""
    task = asyncio.create_task(engine.infer(asking("first", "x")))
    assert await asyncio.to_thread(model.begun.wait, 10)
    return task


async def queued(engine: Engine, *requests: tuple[str, str]) -> list[asyncio.Task[InferResponse]]:
    tasks = []
    for id, camera in requests:
        tasks.append(asyncio.create_task(engine.infer(asking(id, camera))))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    return tasks


async def test_late_work_is_answered_at_its_deadline_and_never_done() -> None:
    model = GatedModel()
    async with running(model) as engine:
        first = await occupied(engine, model)
        began_s = time.monotonic()
        assert await why(asyncio.create_task(engine.infer(asking("late", "a", 0.1)))) is Why.LATE
        assert 0.05 < time.monotonic() - began_s < 2  # although the thread was busy all the time
        model.gate.set()
        assert await why(first) == "first"
        assert await why(asyncio.create_task(engine.infer(asking("next", "a")))) == "next"
    assert model.done == ["first", "next"]


async def test_what_cannot_be_done_in_time_is_refused_early_and_not_done() -> None:
    model = GatedModel()
    async with running(model) as engine:
        first = await occupied(engine, model)
        await asyncio.sleep(0.5)
        model.gate.set()
        assert await why(first) == "first"  # it took half a second, so nobody is done in 0.3 s
        began_s = time.monotonic()
        assert await why(asyncio.create_task(engine.infer(asking("hopeless", "a", 0.3)))) is Why.LATE
        assert time.monotonic() - began_s < 0.25
        assert await why(asyncio.create_task(engine.infer(asking("good", "a", 20)))) == "good"
    assert model.done == ["first", "good"]


async def test_work_without_any_time_left_is_refused_at_once() -> None:
    async with running(GatedModel()) as engine:
        assert await why(asyncio.create_task(engine.infer(asking("x", "a", 0)))) is Why.LATE
        assert await why(asyncio.create_task(engine.infer(asking("x", "a"), timeout_s=-1))) is Why.LATE


async def test_the_event_loop_runs_while_the_model_works() -> None:
    model = GatedModel()
    async with running(model) as engine:
        await occupied(engine, model)
        began_s = time.monotonic()
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert time.monotonic() - began_s < 2
        assert engine.is_ready


async def test_cameras_take_turns_and_a_flood_hurts_only_its_sender() -> None:
    model = GatedModel()
    async with running(model, EngineOptions(max_queue=4, max_per_camera=4)) as engine:
        first = await occupied(engine, model)
        flood = await queued(engine, *((f"a{n}", "a") for n in range(6)))
        quiet = await queued(engine, ("b0", "b"))
        model.gate.set()
        outcomes = [await why(task) for task in (first, *flood, *quiet)]
    assert outcomes == ["first", Why.BUSY, "a1", "a2", "a3", Why.BUSY, Why.BUSY, "b0"]
    assert model.done == ["first", "a3", "b0", "a2", "a1"]


async def test_a_caller_that_goes_away_frees_its_place() -> None:
    model = GatedModel()
    async with running(model, EngineOptions(max_queue=1)) as engine:
        first = await occupied(engine, model)
        (gone,) = await queued(engine, ("gone", "a"))
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        (kept,) = await queued(engine, ("kept", "a"))
        model.gate.set()
        assert [await why(first), await why(kept)] == ["first", "kept"]
    assert model.done == ["first", "kept"]


async def test_draining_finishes_what_waits_and_takes_nothing_new() -> None:
    model = GatedModel()
    async with running(model) as engine:
        first = await occupied(engine, model)
        (waiting,) = await queued(engine, ("waiting", "a"))
        draining = asyncio.create_task(engine.drain(10))
        await asyncio.sleep(0.05)
        assert not engine.is_ready
        assert engine.is_live
        assert await why(asyncio.create_task(engine.infer(asking("new", "b")))) is Why.DRAINING
        model.gate.set()
        assert await draining == 0
        assert [await why(first), await why(waiting)] == ["first", "waiting"]


async def test_draining_gives_up_at_its_limit() -> None:
    model = GatedModel()
    async with running(model) as engine:
        await occupied(engine, model)
        (waiting,) = await queued(engine, ("waiting", "a"))
        assert await engine.drain(0.1) == 1
        assert await why(waiting) is Why.DRAINING


async def test_a_fault_of_the_model_is_told_and_survived(caplog: pytest.LogCaptureFixture) -> None:
    model = GatedModel()
    model.gate.set()
    async with running(model) as engine:
        assert await why(asyncio.create_task(engine.infer(asking("bad")))) is Why.BROKEN
        assert await why(asyncio.create_task(engine.infer(asking("good")))) == "good"
    assert "a fault of the model" in caplog.text


async def test_it_is_ready_only_when_the_models_are_warm() -> None:
    model = GatedModel()
    engine = Engine([model])
    with pytest.raises(Refused) as caught:
        await engine.infer(asking("x"))
    assert caught.value.why is Why.NOT_READY
    states = [engine.is_ready]
    engine.start()
    await engine.wait_ready()
    assert model.is_warm
    states.append(engine.is_ready)
    engine.close()
    assert [*states, engine.is_ready] == [False, True, False]


async def test_a_model_that_fails_in_its_warm_up_makes_the_worker_not_live() -> None:
    engine = Engine([GatedModel(fails=True)])
    engine.start()
    with pytest.raises(RuntimeError):
        await engine.wait_ready()
    assert not engine.is_live
    engine.close()


@pytest.mark.parametrize("value", [-1, "5", 1.5, True])
async def test_a_timeout_that_is_no_number_of_microseconds_is_refused(value: object) -> None:
    request = asking("x")
    async with running(GatedModel()) as engine:
        request.parameters["timeout"] = value  # type: ignore[index]
        with pytest.raises(Refused, match="microseconds"):
            await engine.infer(request)


async def test_invented_names_of_cameras_get_a_client_no_more_turns_and_nobody_elses_places() -> None:
    model = GatedModel()
    options = EngineOptions(max_queue=12, max_per_camera=3, max_cameras_per_client=2)
    async with running(model, options) as engine:
        first = await occupied(engine, model)
        greedy = []
        for n in range(9):
            greedy.append(asyncio.create_task(engine.infer(asking(f"g{n}", f"new-{n}"), peer="10.0.0.9")))
            await asyncio.sleep(0.01)
        honest = [
            asyncio.create_task(engine.infer(asking(f"h{n}", "new-0"), peer="10.0.0.7")) for n in range(2)
        ]
        await asyncio.sleep(0.05)
        model.gate.set()
        assert await why(first) == "first"
        assert [await why(task) for task in honest] == ["h0", "h1"]
        outcomes = [await why(task) for task in greedy]
    assert outcomes.count(Why.BUSY) == 4  # of nine: one for each of two names, three that share a turn
    assert model.done.index("h0") <= 8
    assert model.done.index("h1") <= 4
