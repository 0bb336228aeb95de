"""The command line, the demonstration and the self-check; everything below is importable without it."""

from __future__ import annotations

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """Give ``__version__`` on demand: `veilcam.__main__` must run before anything else is imported."""
    if name == "__version__":
        from base.version import __version__

        return __version__
    raise AttributeError(f"module 'veilcam' has no attribute {name!r}")
