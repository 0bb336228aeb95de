"""Names of keys: safe as file names and on a terminal."""

from __future__ import annotations

import re

from base.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


def is_valid_name(name: str) -> bool:
    """Whether ``name`` may name a key: 1 to 64 of ``A-Za-z0-9._@-``, starting with a letter or digit."""
    return _NAME.fullmatch(name) is not None


def checked_name(name: str) -> str:
    """Return ``name`` if `is_valid_name`.

    Raises:
        UsageError: it is not.
    """
    if not is_valid_name(name):
        message = "key name: expected 1 to 64 of A-Z a-z 0-9 . _ @ - starting with a letter or digit"
        raise UsageError(message)
    return name
