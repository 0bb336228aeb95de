"""Load the key files that options name; a wrong kind of file is a mistake of usage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from base.errors import FormatError, UsageError
from keys.backends import file_path, open_identity
from keys.camera import CameraKey, CameraPublic
from keys.recipient import Recipient
from keys.scope import ScopedRecipient, load_scoped
from keys.store import load_camera, load_camera_public, load_locked_identity, load_recipient
from keys.uri import KeyUri, Scheme
from keys.wrap import Unwrapper
from veilcam.cli.passphrase import known_passphrase
from veilcam.cli.paths import existing_file

_Loaded = TypeVar("_Loaded")


def recipients_from(paths: Sequence[Path]) -> tuple[Recipient, ...]:
    """The recipients of ``--recipient``.

    Raises:
        UsageError: a file is missing or is no NAME.recipient.
    """
    return tuple(_load(load_recipient, path, "--recipient") for path in paths)


def scoped_recipients_from(paths: Sequence[Path]) -> tuple[ScopedRecipient, ...]:
    """The recipients of ``--recipient``, for a camera, with their scopes; raises as `recipients_from`."""
    return tuple(_load(load_scoped, path, "--recipient") for path in paths)


def camera_key_from(path: Path) -> CameraKey:
    """The signing key of ``--camera``.

    Raises:
        UsageError: the file is missing or is no NAME.camera.
        KeyUnavailable: others may read it.
    """
    return _load(load_camera, path, "--camera")


def camera_public_from(path: Path) -> CameraPublic:
    """The verifying key of ``--camera``.

    Raises:
        UsageError: the file is missing or is no NAME.pub.
    """
    return _load(load_camera_public, path, "--camera")


def identities_from(places: Sequence[Path | str]) -> tuple[Unwrapper, ...]:
    """The identities of ``--identity``: files, and keys by URI; each opened with its passphrase or PIN.

    Raises:
        UsageError: a file is missing or is no NAME.identity, or a URI that says too little.
        WrongPassphrase: one does not open.
        KeyUnavailable: whoever holds the key refuses.
    """
    return tuple(identity_from(place) for place in places)


def identity_from(place: Path | str, option: str = "--identity") -> Unwrapper:
    """One identity; raises as `identities_from`."""
    with wrong_kind_is_usage(option):
        parsed = KeyUri.parse(str(place))
        if parsed.scheme is not Scheme.FILE:
            return open_identity(str(place), known_passphrase)
        locked = load_locked_identity(existing_file(file_path(parsed), option))
    return locked.open(known_passphrase(f"identity {locked.name}"))


def _load(loader: Callable[[Path], _Loaded], path: Path, option: str) -> _Loaded:
    with wrong_kind_is_usage(option):
        return loader(existing_file(path, option))


@contextmanager
def wrong_kind_is_usage(option: str) -> Iterator[None]:
    """Report a file of another kind as a mistake in ``option``."""
    try:
        yield
    except FormatError as error:
        raise UsageError(f"{option}: {error}") from error
