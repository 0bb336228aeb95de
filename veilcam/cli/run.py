"""Run one command: exit status, and errors as plain lines instead of tracebacks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

import typer

from base.errors import VeilError
from veilcam.cli.app import app
from veilcam.cli.logs import configure_logging
from veilcam.exit_codes import ExitCode, exit_code_of

# typer does not export the base class of its usage errors, and newer releases ship click under a private name.
_UsageError = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "UsageError")


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``veilcam`` with ``argv`` (default: the process's arguments) and return its exit status.

    Errors that veilcam, the operating system or the option parser raise become one or two
    lines on standard error; with ``VEILCAM_DEBUG=1`` the traceback is printed too.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = typer.main.get_command(app)
    try:
        configure_logging()
        result = command.main(args=arguments, prog_name="veilcam", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        print("veilcam: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except _UsageError as error:
        return _report(_usage_text(error), error, ExitCode.USAGE, arguments)
    except BrokenPipeError:
        # The reader went away (`veilcam ... | head`); there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.FAILURE)
    except OSError as error:
        return _report(_os_text(error), error, ExitCode.FAILURE, arguments)
    except VeilError as error:
        return _report(str(error) or type(error).__name__, error, exit_code_of(error), arguments)
    except Exception as error:  # A bug of ours: the user still gets a sentence, and a way to see more.
        text = f"unexpected {type(error).__name__}: {error}\nplease report this; VEILCAM_DEBUG=1 shows where it happened"
        return _report(text, error, ExitCode.FAILURE, arguments)
    return int(result) if isinstance(result, int) else int(ExitCode.OK)


def _report(text: str, error: BaseException, code: ExitCode, arguments: list[str]) -> int:
    if os.environ.get("VEILCAM_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    print(f"veilcam: {text}", file=sys.stderr)
    if "--json" in arguments:
        document = {"ok": False, "exit_code": int(code), "error": {"type": type(error).__name__, "message": text}}
        print(json.dumps(document, indent=2))
    return int(code)


def _usage_text(error: BaseException) -> str:
    message = str(getattr(error, "format_message", error.__str__)())
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "veilcam"
    return f"{message.rstrip('.')}\nsee: {where} --help"


def _os_text(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename else reason
