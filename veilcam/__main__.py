"""``python -m veilcam`` and the ``veilcam`` program."""

from __future__ import annotations

import sys
from pathlib import Path

_HOME = Path(__file__).resolve().parents[1]

# `python -m` puts the current folder first on the path. A folder of the user's named like one of our packages
# (`keys` is a likely one) would then hide ours in an editable install.
if __name__ == "__main__" and sys.path and Path(sys.path[0]).resolve() == Path.cwd() != _HOME:
    sys.path[0] = str(_HOME)

from veilcam.cli.run import main  # noqa: E402  # after the path is right

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
