"""Run one command: exit status, and errors as plain lines instead of tracebacks."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import typer

from base.errors import VeilError
from veilcam.cli.app import app
from veilcam.cli.logs import configure_logging
from veilcam.cli.signals import terminating_like_ctrl_c
from veilcam.exit_codes import ExitCode, exit_code_of

_BUG = "please report this; VEILCAM_DEBUG=1 shows where it happened"


def _usage_error() -> type[Exception]:
    """The base of typer's usage errors, which it does not export (new releases hide click)."""
    found = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "UsageError")
    return cast("type[Exception]", found)


_UsageError = _usage_error()


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``veilcam`` with ``argv`` (default: the process's arguments) and return its exit status.

    Errors that veilcam, the operating system or the option parser raise become one or two
    lines on standard error; with ``VEILCAM_DEBUG=1`` the traceback is printed too.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = typer.main.get_command(app)
    _prepare_streams()
    try:
        configure_logging()
        with terminating_like_ctrl_c():
            result = command.main(args=arguments, prog_name="veilcam", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except SystemExit as end:  # the training code has an argument parser of its own
        return end.code if isinstance(end.code, int) else int(ExitCode.USAGE)
    except BrokenPipeError:
        # The reader went away (`veilcam ... | head`); there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.FAILURE)
    except Exception as error:  # Whatever it is, the user gets a sentence and an exit status.
        return _report(error, arguments)
    if result == ExitCode.INTERRUPTED:  # typer makes this of KeyboardInterrupt; no command does
        return _interrupted()
    return int(result) if isinstance(result, int) else int(ExitCode.OK)


def _prepare_streams() -> None:
    """Have an input to ask, and outputs that take every name.

    A program that is started with its input closed has none at all. File names need not be UTF-8; printing
    one must not end a command that has done its work.
    """
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115  # it closes with the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _interrupted() -> int:
    print("veilcam: interrupted", file=sys.stderr)
    return int(ExitCode.INTERRUPTED)


def _report(error: Exception, arguments: list[str]) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":  # `veilcam keys` alone: the message is the whole help
        print(error, file=sys.stderr)
        return int(ExitCode.USAGE)
    text, code = _explain(error)
    if os.environ.get("VEILCAM_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    print(f"veilcam: {text}", file=sys.stderr)
    if "--json" in arguments:
        shown = {"type": type(error).__name__, "message": text}
        print(json.dumps({"ok": False, "exit_code": int(code), "error": shown}, indent=2))
    return int(code)


def _explain(error: Exception) -> tuple[str, ExitCode]:
    if isinstance(error, _UsageError):
        return _usage_text(error), ExitCode.USAGE
    if isinstance(error, VeilError):
        return str(error) or type(error).__name__, exit_code_of(error)
    if isinstance(error, OSError):
        return _os_text(error), ExitCode.FAILURE
    return f"unexpected {type(error).__name__}: {error}\n{_BUG}", ExitCode.FAILURE


def _usage_text(error: BaseException) -> str:
    message = str(getattr(error, "format_message", error.__str__)())
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "veilcam"
    return f"{message.rstrip('.')}\nsee: {where} --help"


def _os_text(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename else reason
