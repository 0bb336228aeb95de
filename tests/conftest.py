"""Rules for the whole test run."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

REQUIRED_PREFIX = "required:"


def _refuse_required_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip that starts with ``required:`` into a failure where everything must run (CI)."""
    if os.environ.get("VEILCAM_REQUIRE_ALL") != "1" or not report.skipped:
        return
    if not isinstance(report.longrepr, tuple):
        return
    path, line, text = report.longrepr
    reason = text.removeprefix("Skipped: ")
    if reason.startswith(REQUIRED_PREFIX):
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: skipped although VEILCAM_REQUIRE_ALL=1: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Refuse skips inside tests, fixtures and marks."""
    report = yield
    _refuse_required_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Refuse skips of whole modules."""
    report = yield
    _refuse_required_skip(report)
    return report
