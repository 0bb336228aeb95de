"""All checks, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from veilcam.checks.finding import Finding
from veilcam.checks.media import check_codecs, check_containers
from veilcam.checks.model import check_detectors, check_protector, check_weights
from veilcam.checks.packages import check_installed, check_not_shadowed, check_python
from veilcam.checks.system import check_clock, check_devices, check_folders, check_port

DEFAULT_LISTEN = ("127.0.0.1", 8080)
_CHECKS: tuple[Callable[[], list[Finding]], ...] = (
    check_python,
    check_installed,
    check_not_shadowed,
    check_codecs,
    check_containers,
    check_weights,
    check_protector,
    check_detectors,
    check_clock,
    check_folders,
    lambda: check_port(*DEFAULT_LISTEN),
    check_devices,
)


def run_checks() -> Iterator[Finding]:
    """Run every check; findings come as they are made."""
    for check in _CHECKS:
        yield from check()
