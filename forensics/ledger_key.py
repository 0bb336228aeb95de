"""The key that signs a ledger: LEDGER.key beside it, made with the first entry.

    veilcam-ledger-key v1
    name: ledger
    id: 32 hex digits
    seed: base64 of 32 bytes

It is not encrypted, since a camera's machine or a decode at night writes entries without a person; its
protection is mode 0600. It keeps others from writing entries in this ledger's name. Who holds it and the
file can write the whole ledger anew: against that, checkpoints are kept elsewhere.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from base.errors import KeyUnavailable
from base.files import open_regular
from keys import textfile
from keys.ed25519 import SEED_BYTES
from keys.secret import RevealToken, SecretBytes
from keys.signer import SignerKey
from keys.writing import write_private

KIND = "ledger-key"
NAME = "ledger"
_TOO_OPEN = 0o077


def key_path(ledger: Path) -> Path:
    """Return where the key of a ledger is."""
    return ledger.with_name(ledger.name + ".key")


def load_or_make(ledger: Path, *, is_new: bool) -> SignerKey:
    """Return the key of a ledger; make one if ``is_new``. Call with the ledger locked.

    Raises:
        KeyUnavailable: the key is missing, or others may read it.
        FormatError: the file holds no such key.
    """
    path = key_path(ledger)
    if is_new and not os.path.lexists(path):
        key = SignerKey.generate(NAME)
        write_private(path, render(key))
        return key
    try:
        return _load(path)
    except FileNotFoundError as error:
        message = (
            f"{path.name}: the key that signs this ledger is missing; move the ledger away to begin another"
        )
        raise KeyUnavailable(message) from error


def _load(path: Path) -> SignerKey:
    with open_regular(path) as file:
        data = file.read(textfile.MAX_FILE_BYTES + 1)
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    if mode & _TOO_OPEN:
        message = (
            f"{path.name}: mode {mode:04o} lets others sign in this ledger's name; run: chmod 600 {path.name}"
        )
        raise KeyUnavailable(message)
    return parse(data, where=path.name)


def render(key: SignerKey) -> bytes:
    """Write the content of the file: a private key, in the clear."""
    seed = textfile.render_bytes(key.seed.expose(RevealToken("ledger key file content")))
    return textfile.render(KIND, [("name", NAME), ("id", key.public.signer_id.hex()), ("seed", seed)])


def parse(data: bytes, *, where: str = "ledger key") -> SignerKey:
    """Read the content of the file.

    Raises:
        FormatError: it is something else.
    """
    fields = textfile.parse(data, KIND, ("name", "id", "seed"), where=where)
    name = textfile.parse_name(fields["name"], where=where)
    seed = textfile.parse_bytes(fields["seed"], SEED_BYTES, field="seed", where=where)
    key = SignerKey(name, SecretBytes(seed))
    textfile.check_id(fields["id"], key.public.signer_id, where=where)
    return key
