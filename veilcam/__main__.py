"""``python -m veilcam`` and the ``veilcam`` program."""

from __future__ import annotations

import sys

from veilcam.cli.run import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
