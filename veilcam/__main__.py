"""``python -m veilcam`` and the ``veilcam`` program."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_HOME = Path(__file__).resolve().parents[1]

# `python -m` puts the current folder first on the path. A folder of the user's named like one of our packages
# (`keys` is a likely one) would then hide ours in an editable install.
if __name__ == "__main__" and sys.path and Path(sys.path[0]).resolve() == Path.cwd() != _HOME:
    sys.path[0] = str(_HOME)

__all__ = ["main"]

_INTERRUPTED = 130  # `veilcam.exit_codes` says the same, but is not loaded yet where this counts


def main() -> int:
    """Run ``veilcam`` with the process's arguments and return its exit status."""
    try:
        with _leaving_at_ctrl_c():
            from veilcam.cli.run import main as run
        return run()
    except KeyboardInterrupt:  # between the two handlers
        print("veilcam: interrupted", file=sys.stderr)
        return _INTERRUPTED


@contextmanager
def _leaving_at_ctrl_c() -> Iterator[None]:
    """End at once at Ctrl-C. For imports, which have nothing to clear up and may swallow an exception."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"veilcam: interrupted\n")
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
