"""Deleting a private file: overwritten, then unlinked, then made durable.

Overwriting reaches the blocks of a plain disk. On flash, snapshots, journals and backups older bytes may
survive: what counts there is that private files are encrypted, and that the passphrase or the token goes too.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from base.files import sync_folder


def erase_file(path: Path) -> None:
    """Overwrite ``path`` with random bytes and remove its name; both are on the disk when it returns.

    Raises:
        OSError: it cannot be opened for writing, or its folder not be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        left = os.fstat(descriptor).st_size
        while left > 0:
            left -= os.write(descriptor, secrets.token_bytes(min(left, 1 << 16)))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    path.unlink()
    sync_folder(path.parent)
