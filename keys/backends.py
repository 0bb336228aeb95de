"""One door to every private key: `open_identity` picks the back end by the URI's scheme."""

from __future__ import annotations

from pathlib import Path

from keys import uri
from keys.exec_plugin import open_exec
from keys.passphrase import Passphrase, ask
from keys.pkcs11_token import open_pkcs11
from keys.quorum import open_quorum, open_shares
from keys.store import load_locked_identity
from keys.uri import KeyUri, Scheme
from keys.wrap import Unwrapper


def open_identity(where: str | Path, passphrase: Passphrase = None) -> Unwrapper:
    """Return the key that ``where`` names, ready to open what was sealed to it.

    Args:
        where: a path or ``file:`` URI of a NAME.identity; ``pkcs11:`` (RFC 7512), a key in a token;
            ``exec:``, a key service behind a program; ``shares:`` and ``quorum:``, a key that takes several
            people (`keys.quorum`).
        passphrase: of the file, or the token's PIN; or a function that asks for it, told what for: several
            people have several. ``exec:`` needs none.

    Raises:
        FormatError: the URI, or the file that it names, is damaged.
        KeyUnavailable: wrong passphrase, no such key, or whoever holds it refuses.
        MissingDependency: an extra is missing, which the message names.
        UsageError: an unknown scheme, or a URI that says too little.
        OSError: the file is missing or not readable.
    """
    if isinstance(where, Path):
        return _open_file(where, passphrase)
    parsed = KeyUri.parse(where)
    if parsed.scheme is Scheme.PKCS11:
        return open_pkcs11(where, passphrase)
    if parsed.scheme is Scheme.EXEC:
        return open_exec(where)
    if parsed.scheme is Scheme.SHARES:
        return open_shares(where, passphrase)
    if parsed.scheme is Scheme.QUORUM:
        return open_quorum(where, passphrase)
    return _open_file(file_path(parsed), passphrase)


def file_path(parsed: KeyUri) -> Path:
    """Return the path of a ``file:`` URI; ``file:///x`` and ``file:x`` both do (RFC 8089).

    Raises:
        FormatError: damaged percent-encoding.
    """
    return Path(uri.decode(parsed.rest, what="file: URI").removeprefix("//"))


def _open_file(path: Path, passphrase: Passphrase) -> Unwrapper:
    locked = load_locked_identity(path)
    return locked.open(ask(passphrase, f"identity {locked.name}"))
