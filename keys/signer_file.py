"""NAME.signer and NAME.signer.pub: the files of a `SignerKey`.

    veilcam-signer v1                    veilcam-signer-public v1
    name: dora                           name: dora
    id: 32 hex digits                    id: 32 hex digits
    kdf: scrypt log2n=16 r=8 p=1         key: base64 of 32 bytes
    salt: base64 of 16 bytes
    nonce: base64 of 12 bytes
    sealed: base64 of 48 bytes

``sealed`` is made as in an identity file (`keys.identity_file`), with `Label.SIGNER_FILE` in the AAD.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag

from base.errors import Malformed, UsageError, WrongPassphrase
from base.files import read_bounded
from keys import identity_file, textfile
from keys.ed25519 import PUBLIC_BYTES, SEED_BYTES
from keys.identity_file import DEFAULT_LOG2_N, passphrase_bytes
from keys.labels import Label
from keys.schedule import NONCE_BYTES, TAG_BYTES
from keys.secret import RevealToken, SecretBytes
from keys.signer import SignerKey, SignerPublic
from keys.writing import write_private, write_public

KIND = "signer"
PUBLIC_KIND = "signer-public"
_HEAD = ("name", "id", "kdf", "salt", "nonce")


def save_signer(
    folder: Path, key: SignerKey, passphrase: str | SecretBytes, *, log2_n: int = DEFAULT_LOG2_N
) -> Path:
    """Write NAME.signer, mode 0600, under ``passphrase``, and NAME.signer.pub; returns the private path.

    Raises:
        UsageError: a file exists, or the passphrase is empty or too long.
    """
    secret = passphrase_bytes(passphrase)
    del passphrase  # so that no traceback below shows it
    path = write_private(folder / f"{key.public.name}.signer", _render_private(key, secret, log2_n))
    save_signer_public(folder, key.public)
    return path


def load_signer(path: Path, passphrase: str | SecretBytes) -> SignerKey:
    """Read a NAME.signer.

    Raises:
        FormatError: it is not one.
        WrongPassphrase: it does not open.
    """
    secret = passphrase_bytes(passphrase)
    del passphrase
    return parse_signer(read_bounded(path, textfile.MAX_FILE_BYTES), secret, where=path.name)


def signer_file_name(path: Path) -> tuple[str, bytes]:
    """Return name and id that a NAME.signer states, without its passphrase.

    Raises:
        FormatError: it is not one.
    """
    data = read_bounded(path, textfile.MAX_FILE_BYTES)
    fields = textfile.parse(data, KIND, (*_HEAD, "sealed"), where=path.name)
    name = textfile.parse_name(fields["name"], where=path.name)
    return name, identity_file.parse_id(fields["id"], path.name)


def save_signer_public(folder: Path, public: SignerPublic) -> Path:
    """Write NAME.signer.pub into ``folder``; returns its path.

    Raises:
        UsageError: the file exists and holds something else.
    """
    return write_public(folder / f"{public.name}.signer.pub", render_signer_public(public))


def load_signer_public(path: Path) -> SignerPublic:
    """Read a NAME.signer.pub.

    Raises:
        FormatError: it is not one.
    """
    return parse_signer_public(read_bounded(path, textfile.MAX_FILE_BYTES), where=path.name)


def render_signer_public(public: SignerPublic) -> bytes:
    """Write the content of NAME.signer.pub."""
    key = textfile.render_bytes(public.public_key)
    return textfile.render(PUBLIC_KIND, [("name", public.name), ("id", public.signer_id.hex()), ("key", key)])


def parse_signer_public(data: bytes, *, where: str = "signer public file") -> SignerPublic:
    """Read the content of NAME.signer.pub.

    Raises:
        FormatError: `textfile.parse` says which.
    """
    fields = textfile.parse(data, PUBLIC_KIND, ("name", "id", "key"), where=where)
    name = textfile.parse_name(fields["name"], where=where)
    public = SignerPublic(name, textfile.parse_bytes(fields["key"], PUBLIC_BYTES, field="key", where=where))
    textfile.check_id(fields["id"], public.signer_id, where=where)
    return public


def parse_signer(data: bytes, passphrase: SecretBytes, *, where: str = "signer file") -> SignerKey:
    """Read and open the content of NAME.signer.

    Raises:
        FormatError: it is not one.
        WrongPassphrase: it does not open: another passphrase, or it was changed.
    """
    fields = textfile.parse(data, KIND, (*_HEAD, "sealed"), where=where)
    name = textfile.parse_name(fields["name"], where=where)
    log2_n = identity_file.parse_log2_n(fields["kdf"], where)

    def binary(field: str, length: int) -> bytes:
        return textfile.parse_bytes(fields[field], length, field=field, where=where)

    salt, nonce = binary("salt", identity_file.SALT_BYTES), binary("nonce", NONCE_BYTES)
    sealed = binary("sealed", SEED_BYTES + TAG_BYTES)
    aead = identity_file.passphrase_cipher(passphrase, salt, log2_n)
    try:
        seed = SecretBytes(aead.decrypt(nonce, sealed, _aad([(field, fields[field]) for field in _HEAD])))
    except InvalidTag:
        message = f"{where}: wrong passphrase, or the file was changed"
        raise WrongPassphrase(message) from None
    key = SignerKey(name, seed)
    if key.public.signer_id.hex() != fields["id"]:
        message = f"{where}: the key in the file is not the one that its id names"
        raise Malformed(message)
    return key


def _render_private(key: SignerKey, passphrase: SecretBytes, log2_n: int) -> bytes:
    if not identity_file.MIN_LOG2_N <= log2_n <= identity_file.MAX_LOG2_N:
        message = f"scrypt log2n: out of bounds, got {log2_n}"
        raise UsageError(message)
    salt, nonce = secrets.token_bytes(identity_file.SALT_BYTES), secrets.token_bytes(NONCE_BYTES)
    head = [
        ("name", key.public.name),
        ("id", key.public.signer_id.hex()),
        ("kdf", f"scrypt log2n={log2_n} r=8 p=1"),
        ("salt", textfile.render_bytes(salt)),
        ("nonce", textfile.render_bytes(nonce)),
    ]
    seed = key.seed.expose(RevealToken("signer file plaintext"))
    sealed = identity_file.passphrase_cipher(passphrase, salt, log2_n).encrypt(nonce, seed, _aad(head))
    return textfile.render(KIND, [*head, ("sealed", textfile.render_bytes(sealed))])


def _aad(head: list[tuple[str, str]]) -> bytes:
    return Label.SIGNER_FILE.value + textfile.render(KIND, head)
