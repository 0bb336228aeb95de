"""Passphrases come from the terminal or from VEILCAM_PASSPHRASE, never from the arguments.

Where several people have one each, VEILCAM_PASSPHRASE_NAME goes before: ``share of dora`` is asked of
VEILCAM_PASSPHRASE_DORA first.
"""

from __future__ import annotations

import getpass
import os
import re
import sys

from base.errors import UsageError, WrongPassphrase

VARIABLE = "VEILCAM_PASSPHRASE"


def _given(purpose: str) -> str | None:
    name = re.sub(r"[^A-Z0-9]", "_", purpose.rsplit(" ", maxsplit=1)[-1].upper())
    return os.environ.get(f"{VARIABLE}_{name}", os.environ.get(VARIABLE))


def new_passphrase(purpose: str) -> str:
    """Ask twice for a new passphrase, or take it from the environment.

    Raises:
        UsageError: it is empty, the two differ, or there is neither terminal nor variable.
    """
    given = _given(purpose)
    if given is None:
        if not sys.stdin.isatty():
            raise UsageError(f"no passphrase for {purpose}: set {VARIABLE} or run on a terminal")
        given = getpass.getpass(f"New passphrase for {purpose}: ")
        if getpass.getpass("Once more: ") != given:
            raise UsageError("the two passphrases differ; nothing was written")
    if not given:
        raise UsageError(f"the passphrase for {purpose} is empty; nothing was written")
    return given


def known_passphrase(purpose: str) -> str:
    """Ask for an existing passphrase, or take it from the environment.

    Raises:
        WrongPassphrase: there is neither terminal nor variable to take it from.
    """
    given = _given(purpose)
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise WrongPassphrase(f"no passphrase for {purpose}: set {VARIABLE} or run on a terminal")
    return getpass.getpass(f"Passphrase for {purpose}: ")
