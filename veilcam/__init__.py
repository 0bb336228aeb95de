"""The command line, the demonstration and the self-check; everything below is importable without it."""

from __future__ import annotations

from base.version import __version__

__all__ = ["__version__"]
