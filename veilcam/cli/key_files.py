"""Load the key files that options name; a wrong kind of file is a mistake of usage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from base.errors import FormatError, UsageError
from keys.camera import CameraKey, CameraPublic
from keys.recipient import Identity, Recipient
from keys.store import load_camera, load_camera_public, load_locked_identity, load_recipient
from veilcam.cli.passphrase import known_passphrase
from veilcam.cli.paths import existing_file

_Loaded = TypeVar("_Loaded")


def recipients_from(paths: Sequence[Path]) -> tuple[Recipient, ...]:
    """The recipients of ``--recipient``.

    Raises:
        UsageError: a file is missing or is no NAME.recipient.
    """
    return tuple(_load(load_recipient, path, "--recipient") for path in paths)


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


def identities_from(paths: Sequence[Path]) -> tuple[Identity, ...]:
    """The identities of ``--identity``, opened with the passphrase.

    Raises:
        UsageError: a file is missing or is no NAME.identity.
        WrongPassphrase: one does not open.
    """
    locked = [_load(load_locked_identity, path, "--identity") for path in paths]
    return tuple(each.open(known_passphrase(f"identity {each.name}")) for each in locked)


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
