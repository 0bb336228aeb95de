"""Lies that look like answers."""

from __future__ import annotations

import asyncio
import dataclasses
import logging

import cv2
import numpy as np
import pytest

from analytics.detections import Detections
from analytics.elf.types import Policy
from analytics.oip.messages import InferRequest, InferResponse
from analytics.oip.tensors import Tensor
from analytics.pool import PoolOptions
from analytics.pool.audit import agree
from tests.analytics.pool.test_pool import pool_of, run
from tests.support.edge_worker import NAMES, ScriptedWorker

OPTIONS = PoolOptions(deadline_s=4.0, audit_every=1)


def blind(_asked: InferRequest, answer: InferResponse) -> InferResponse:
    """Says that there is nothing."""
    nothing = (
        Tensor.of_array("BOXES", np.zeros((0, 4), np.float32)),
        Tensor.of_array("SCORES", np.zeros(0, np.float32)),
        Tensor.of_array("CLASSES", np.zeros(0, np.int64)),
    )
    return dataclasses.replace(answer, outputs=nothing)


async def test_a_worker_that_hides_what_it_sees_is_found_out_by_two_others() -> None:
    async with (
        ScriptedWorker(seconds_per_pixel=5e-7) as a,
        ScriptedWorker(seconds_per_pixel=5e-7) as b,
        ScriptedWorker(seconds_per_pixel=5e-7) as liar,
        pool_of(a, b, liar, options=OPTIONS) as pool,
    ):
        await run(pool, 0, 2)
        liar.twist = blind
        for step in range(2, 40):
            await run(pool, step, 1)
            await pool.settle()
            if pool.states()[2].lied:
                break
        assert pool.auditor.num_lies == 1
        assert [state.lied for state in pool.states()] == [0, 0, 1]
        assert pool.states()[2].state == "open"
        assert "two others" in pool.states()[2].error


async def test_honest_workers_are_never_accused() -> None:
    async with (
        ScriptedWorker() as a,
        ScriptedWorker() as b,
        ScriptedWorker() as c,
        pool_of(a, b, c, options=OPTIONS) as pool,
    ):
        for step in range(12):
            await run(pool, step, 1)
            await pool.settle()
        assert (
            pool.auditor.num_audits >= 4
        )  # fewer than frames where the machine is starved and workers are late
        assert pool.auditor.num_lies == 0
        assert all(state.lied == 0 for state in pool.states())


async def test_two_who_disagree_are_told_of_and_both_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "analytics")
    async with (
        ScriptedWorker(seconds_per_pixel=5e-7) as a,
        ScriptedWorker(seconds_per_pixel=5e-7) as b,
        pool_of(a, b, options=OPTIONS) as pool,
    ):
        await run(pool, 0, 2)
        b.twist = blind
        for step in range(2, 60):  # on a starved machine a late worker is left alone for a while
            await run(pool, step, 1)
            await pool.settle()
            if "disagree" in caplog.text:
                break
            await asyncio.sleep(0.05)
        assert "disagree" in caplog.text
        assert all(state.lied == 0 for state in pool.states())


async def test_audits_show_nobody_more_than_policy_allows() -> None:
    share = 0.12
    options = dataclasses.replace(OPTIONS, policy=Policy(max_share=share, look="local"))
    async with ScriptedWorker() as a, ScriptedWorker() as b, pool_of(a, b, options=options) as pool:
        for step in range(10):
            before = [len(a.tiles), len(b.tiles)]
            await run(pool, step, 1)
            await pool.settle()
            for worker, count in zip((a, b), before, strict=True):
                assert sum(pixels_of(request) for request in worker.tiles[count:]) <= share * 640 * 384
        assert pool.auditor.num_audits > 0


def pixels_of(request: InferRequest) -> int:
    """Of the picture in a request."""
    data = np.frombuffer(request.inputs[0].strings()[0], np.uint8)
    return int(np.prod(np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR)).shape[:2]))


def found(*boxes: tuple[float, float, float, float, float]) -> Detections:
    rows = np.array(boxes, np.float32).reshape(-1, 5)
    return Detections(rows[:, :4], rows[:, 4], np.zeros(len(rows), np.int64), NAMES)


def test_what_counts_as_agreement() -> None:
    box, moved = (10, 10, 50, 90, 0.9), (12, 11, 52, 92, 0.4)
    assert agree(found(), found())
    assert agree(found(box), found(moved))
    assert agree(found(box), found(box, (60, 60, 70, 70, 0.4)))  # a weak box more is chance
    assert not agree(found(box), found())
    assert not agree(found(), found(box))
    assert not agree(found(box), found((60, 10, 100, 90, 0.9)))
