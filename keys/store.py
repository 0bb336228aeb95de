"""Key files on disk: NAME.recipient, NAME.identity, NAME.camera, NAME.pub.

Private files are created with mode 0600 and never overwritten. Public ones may be written again with the same
content. Missing or unreadable files raise the operating system's own `OSError`; folders, pipes and devices
`UsageError`.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import final

from base.errors import KeyUnavailable, LimitExceeded
from base.files import open_regular, read_bounded
from keys import key_files, textfile, tpm
from keys.camera import CameraKey, CameraPublic
from keys.identity_file import DEFAULT_LOG2_N, LockedIdentity, passphrase_bytes
from keys.recipient import Identity, Recipient
from keys.scope import KIND as SCOPED_KIND
from keys.scope import load_scoped
from keys.secret import SecretBytes
from keys.shares import KIND as SHARE_KIND
from keys.shares import LockedShare
from keys.signer_file import KIND as SIGNER_KIND
from keys.signer_file import PUBLIC_KIND as SIGNER_PUBLIC_KIND
from keys.signer_file import load_signer_public, signer_file_name
from keys.tpm import SealedCamera
from keys.writing import refuse_existing, write_private, write_public

_TOO_OPEN = 0o077


def save_recipient(folder: Path, recipient: Recipient) -> Path:
    """Write NAME.recipient into ``folder``; returns its path.

    Raises:
        UsageError: the file exists and holds something else.
    """
    return write_public(folder / f"{recipient.name}.recipient", key_files.render_recipient(recipient))


def load_recipient(path: Path) -> Recipient:
    """Read a NAME.recipient.

    Raises:
        FormatError: it is not one.
    """
    return key_files.parse_recipient(read_bounded(path, textfile.MAX_FILE_BYTES), where=path.name)


def save_identity(
    folder: Path, identity: Identity, passphrase: str | SecretBytes, *, log2_n: int = DEFAULT_LOG2_N
) -> Path:
    """Write NAME.identity, encrypted under ``passphrase``, into ``folder``; returns its path.

    ``log2_n`` is the cost of scrypt; anything below the default is for tests.

    Raises:
        UsageError: the file exists, the passphrase is empty or too long, or the cost is out of bounds.
    """
    path = folder / f"{identity.recipient.name}.identity"
    refuse_existing(path)
    secret = passphrase_bytes(passphrase)
    del passphrase  # so that no traceback below shows it
    locked = LockedIdentity.seal(identity, secret, log2_n=log2_n)
    return write_private(path, bytes(locked))


def load_identity(path: Path, passphrase: str | SecretBytes) -> Identity:
    """Read a NAME.identity; takes about as long as writing it took.

    Raises:
        FormatError: it is not one.
        WrongPassphrase: it does not open.
    """
    secret = passphrase_bytes(passphrase)
    del passphrase
    return load_locked_identity(path).open(secret)


def load_locked_identity(path: Path) -> LockedIdentity:
    """Read a NAME.identity without opening it, to ask for the passphrase by name.

    Raises:
        FormatError: it is not one.
    """
    return LockedIdentity.parse(read_bounded(path, textfile.MAX_FILE_BYTES), where=path.name)


def save_camera(folder: Path, camera: CameraKey) -> Path:
    """Write NAME.camera, mode 0600, into ``folder``; returns its path.

    Raises:
        UsageError: the file exists.
    """
    path = folder / f"{camera.public.name}.camera"
    refuse_existing(path)
    return write_private(path, key_files.render_camera(camera))


def save_sealed_camera(folder: Path, camera: SealedCamera) -> Path:
    """Write NAME.camera of a key that the TPM sealed, mode 0600, into ``folder``; returns its path.

    Raises:
        UsageError: the file exists.
    """
    path = folder / f"{camera.public.name}.camera"
    refuse_existing(path)
    return write_private(path, bytes(camera))


def sealed_pcrs(path: Path) -> str | None:
    """Return the PCRs of a NAME.camera that is sealed to the machine; raises as `load_camera`."""
    return SealedCamera.parse(_read_private(path), where=path.name).pcrs


def load_camera(path: Path) -> CameraKey:
    """Read a NAME.camera; one that is sealed to the machine is opened by its TPM.

    Raises:
        KeyUnavailable: others than its owner may access the file, or the owner is neither us nor root; or the
            TPM does not open it.
        FormatError: it is not a camera file.
        MissingDependency: it is sealed, and tpm2-tools are not installed.
    """
    data = _read_private(path)
    if textfile.kind_of(data, where=path.name) == tpm.KIND:
        return tpm.SealedCamera.parse(data, where=path.name).open()
    return key_files.parse_camera(data, where=path.name)


def save_camera_public(folder: Path, public: CameraPublic) -> Path:
    """Write NAME.pub into ``folder``; returns its path.

    Raises:
        UsageError: the file exists and holds something else.
    """
    return write_public(folder / f"{public.name}.pub", key_files.render_camera_public(public))


def load_camera_public(path: Path) -> CameraPublic:
    """Read a NAME.pub.

    Raises:
        FormatError: it is not one.
    """
    return key_files.parse_camera_public(read_bounded(path, textfile.MAX_FILE_BYTES), where=path.name)


@final
@dataclass(frozen=True, slots=True)
class KeyFileInfo:
    """What anybody may know of a key file."""

    kind: str
    """A kind of `keys.textfile`: recipient, identity, camera, sealed-camera, camera-public, ..."""
    name: str
    key_id: bytes
    """Recipient, camera or signer id, 16 bytes."""
    suite: str
    """HPKE suite, or ed25519."""


def describe(path: Path) -> KeyFileInfo:  # noqa: PLR0911  # one return for each kind
    """Say what a key file is, without passphrase and without secrets.

    Raises:
        FormatError: it is no key file.
        KeyUnavailable: a private camera file with a mode that is too open.
    """
    kind = textfile.kind_of(read_bounded(path, textfile.MAX_FILE_BYTES), where=path.name)
    if kind == key_files.RECIPIENT_KIND:
        recipient = load_recipient(path)
        return KeyFileInfo(kind, recipient.name, recipient.recipient_id, recipient.suite.label)
    if kind == key_files.CAMERA_PUBLIC_KIND:
        public = load_camera_public(path)
        return KeyFileInfo(kind, public.name, public.camera_id, "ed25519")
    if kind == key_files.CAMERA_KIND:
        public = load_camera(path).public
        return KeyFileInfo(kind, public.name, public.camera_id, "ed25519")
    if kind == tpm.KIND:
        public = tpm.SealedCamera.parse(_read_private(path), where=path.name).public
        return KeyFileInfo(kind, public.name, public.camera_id, "ed25519")
    if kind == SIGNER_PUBLIC_KIND:
        signer = load_signer_public(path)
        return KeyFileInfo(kind, signer.name, signer.signer_id, "ed25519")
    if kind == SIGNER_KIND:
        return KeyFileInfo(kind, *signer_file_name(path), "ed25519")
    if kind == SCOPED_KIND:
        scoped = load_scoped(path).recipient
        return KeyFileInfo(kind, scoped.name, scoped.recipient_id, scoped.suite.label)
    if kind == SHARE_KIND:
        dealt = LockedShare.parse(read_bounded(path, textfile.MAX_FILE_BYTES), where=path.name).share_set
        return KeyFileInfo(kind, dealt.name, dealt.recipient_id, dealt.suite.label)
    locked = load_locked_identity(path)
    return KeyFileInfo(kind, locked.name, locked.recipient_id, locked.suite.label)


def _read_private(path: Path) -> bytes:
    with open_regular(path) as file:
        data = file.read(textfile.MAX_FILE_BYTES + 1)
        # Asked of the open file, not of the name, which somebody could swap in between.
        status = os.fstat(file.fileno())
    if len(data) > textfile.MAX_FILE_BYTES:
        message = f"{path.name}: longer than the limit of {textfile.MAX_FILE_BYTES} bytes"
        raise LimitExceeded(message)
    # The kind first: who gives a public file by mistake must not be told to hide it.
    expected = tpm.KIND if data.startswith(f"veilcam-{tpm.KIND} ".encode()) else key_files.CAMERA_KIND
    textfile.kind_of(data, where=path.name, expected=expected)
    mode = stat.S_IMODE(status.st_mode)
    if mode & _TOO_OPEN:
        message = f"{path.name}: mode {mode:04o} lets others at the private key; run: chmod 600 {path.name}"
        raise KeyUnavailable(message)
    if status.st_uid not in (os.geteuid(), 0):
        message = f"{path.name}: it belongs to user {status.st_uid}, expected us ({os.geteuid()}) or root"
        raise KeyUnavailable(message)
    return data
