"""A passphrase, or somebody to ask for one: only those back ends that need one do."""

from __future__ import annotations

from collections.abc import Callable

from base.errors import WrongPassphrase
from keys.identity_file import passphrase_bytes
from keys.secret import SecretBytes

Passphrase = str | SecretBytes | Callable[[str], str | SecretBytes] | None
"""The passphrase or PIN itself; or a function from what it is for (``identity alice``) to it; or None."""


def ask(passphrase: Passphrase, purpose: str) -> SecretBytes:
    """Return the passphrase for ``purpose`` as bytes.

    Raises:
        WrongPassphrase: None was given.
    """
    if passphrase is None:
        message = f"{purpose}: needs a passphrase"
        raise WrongPassphrase(message)
    return passphrase_bytes(passphrase(purpose) if callable(passphrase) else passphrase)
