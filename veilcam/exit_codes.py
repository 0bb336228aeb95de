"""What the program's exit status says; scripts depend on it, so the numbers never change."""

from __future__ import annotations

import enum

from base.errors import AuthenticationFailed, KeyUnavailable, UsageError


class ExitCode(enum.IntEnum):
    """Exit status of every command."""

    OK = 0
    FAILURE = 1
    """It did not work: unreadable media, a port in use, a missing package, a full disk."""
    USAGE = 2
    """It was asked wrongly: unknown option, missing file, output that already exists."""
    INTEGRITY = 3
    """Something does not verify: changed, cut, swapped, replayed or unsigned."""
    KEY = 4
    """There is no key, or the wrong one, or the wrong passphrase."""
    INTERRUPTED = 130
    """Stopped from the keyboard (128 + SIGINT), as shells expect; also by SIGTERM and SIGHUP."""


def exit_code_of(error: BaseException) -> ExitCode:
    """The exit status that ``error`` ends the program with."""
    if isinstance(error, UsageError):
        return ExitCode.USAGE
    if isinstance(error, AuthenticationFailed):
        return ExitCode.INTEGRITY
    if isinstance(error, KeyUnavailable):
        return ExitCode.KEY
    return ExitCode.FAILURE
