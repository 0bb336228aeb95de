"""Log records on standard error; off for commands that report by themselves."""

from __future__ import annotations

import logging
import os

from base.errors import UsageError

VARIABLE = "VEILCAM_LOG"
_LEVELS = ("debug", "info", "warning", "error", "off")
_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def configure_logging(default: str = "off") -> None:
    """Log from the level in VEILCAM_LOG upwards, else from ``default``.

    Raises:
        UsageError: the variable holds no level.
    """
    level = os.environ.get(VARIABLE, default).lower()
    if level not in _LEVELS:
        raise UsageError(f"{VARIABLE}: expected one of {', '.join(_LEVELS)}; got {level!r}")
    if level == "off":
        logging.basicConfig(handlers=[logging.NullHandler()], force=True)
        return
    logging.basicConfig(level=level.upper(), format=_FORMAT, force=True)
