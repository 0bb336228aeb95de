"""Backing up a folder of key files, and bringing it back: one file under one passphrase.

    veilcam-backup v1 LF
    {"created_us":...,"files":["gate.camera",...],"log2n":16,"nonce":"<hex>","salt":"<hex>"} LF
    AES-256-GCM ciphertext and tag

The key is made as for an identity file (`keys.identity_file`); AAD is `Label.BACKUP_FILE` and all up to the
second LF. The plaintext has, for each file in that order: u32 length, content. What is in it can be read
without the passphrase (names are no secret), so that a custodian knows which backups hold a key that he
destroys.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from cryptography.exceptions import InvalidTag

from base.canonical import canonical_json, parse_canonical
from base.documents import Fields
from base.errors import LimitExceeded, Malformed, Truncated, UnknownVersion, UsageError, WrongPassphrase
from base.files import read_bounded
from keys import identity_file
from keys.identity_file import DEFAULT_LOG2_N, passphrase_bytes
from keys.labels import Label
from keys.schedule import NONCE_BYTES, TAG_BYTES
from keys.secret import RevealToken, SecretBytes
from keys.writing import write_private

FIRST_LINE = b"veilcam-backup v1\n"
MAX_BACKUP_BYTES = 8 << 20
MAX_FILES = 500
MAX_FILE_BYTES = 1 << 20
SUFFIXES = frozenset(
    {".identity", ".recipient", ".camera", ".pub", ".signer", ".share", ".crt", ".crl", ".csr", ".destroyed"}
)
_MAX_HEAD_BYTES = 128 * 1024
_HEAD_FIELDS = frozenset({"created_us", "files", "log2n", "nonce", "salt"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,191}")
_ANY_VERSION = re.compile(rb"veilcam-backup v[0-9]{1,9}")


@final
@dataclass(frozen=True, slots=True)
class Backup:
    """A backup as parsed: everything but the files, which take `open`."""

    created_us: int
    names: tuple[str, ...]
    log2_n: int
    salt: bytes = field(repr=False)
    nonce: bytes = field(repr=False)
    sealed: bytes = field(repr=False)

    @classmethod
    def seal(
        cls,
        files: dict[str, SecretBytes],
        passphrase: str | SecretBytes,
        *,
        created_us: int,
        log2_n: int = DEFAULT_LOG2_N,
    ) -> Backup:
        """Encrypt files, by name.

        Raises:
            UsageError: none, too many, too long ones, or a passphrase that is empty or too long.
        """
        secret = passphrase_bytes(passphrase)
        del passphrase  # so that no traceback below shows it
        if not 1 <= len(files) <= MAX_FILES or any(len(each) > MAX_FILE_BYTES for each in files.values()):
            message = f"backup: expected 1 to {MAX_FILES} files of at most {MAX_FILE_BYTES} bytes"
            raise UsageError(message)
        if sum(map(len, files.values())) > MAX_BACKUP_BYTES - _MAX_HEAD_BYTES - 4 * MAX_FILES - 64:
            message = f"backup: the files are longer than {MAX_BACKUP_BYTES} bytes together; part the folder"
            raise UsageError(message)
        if any(_NAME.fullmatch(name) is None for name in files):
            message = "backup: a file whose name cannot be restored"
            raise UsageError(message)
        names = tuple(sorted(files))
        salt, nonce = secrets.token_bytes(identity_file.SALT_BYTES), secrets.token_bytes(NONCE_BYTES)
        head = cls(created_us, names, log2_n, salt, nonce, b"")
        plain = SecretBytes(
            b"".join(
                len(files[name]).to_bytes(4, "big") + bytes(files[name].expose(RevealToken("backup content")))
                for name in names
            )
        )
        cipher = identity_file.passphrase_cipher(secret, salt, log2_n)
        view = plain.expose(RevealToken("backup plaintext"))
        sealed = cipher.encrypt(nonce, view, Label.BACKUP_FILE.value + head._head())
        return cls(created_us, names, log2_n, salt, nonce, sealed)

    def open(self, passphrase: str | SecretBytes) -> dict[str, SecretBytes]:
        """Decrypt the files.

        Raises:
            WrongPassphrase: it does not open: another passphrase, or the backup was changed.
            Malformed: it opens, and holds something else than it says.
        """
        secret = passphrase_bytes(passphrase)
        del passphrase
        cipher = identity_file.passphrase_cipher(secret, self.salt, self.log2_n)
        try:
            plain = SecretBytes(
                cipher.decrypt(self.nonce, self.sealed, Label.BACKUP_FILE.value + self._head())
            )
        except InvalidTag:
            message = "backup: wrong passphrase, or it was changed"
            raise WrongPassphrase(message) from None
        return self._split(plain.expose(RevealToken("backup plaintext")))

    def _split(self, rest: memoryview) -> dict[str, SecretBytes]:
        files: dict[str, SecretBytes] = {}
        for name in self.names:
            length = int.from_bytes(rest[:4], "big")
            if len(rest) < 4 + length or length > MAX_FILE_BYTES:
                message = "backup: its content is not what its head says"
                raise Malformed(message)
            files[name] = SecretBytes(rest[4 : 4 + length])
            rest = rest[4 + length :]
        if len(rest):
            message = "backup: its content is longer than its head says"
            raise Malformed(message)
        return files

    @classmethod
    def parse(cls, data: bytes) -> Backup:
        """Read a backup's bytes.

        Raises:
            FormatError: it is none.
        """
        if len(data) > MAX_BACKUP_BYTES:
            message = f"backup: longer than the limit of {MAX_BACKUP_BYTES} bytes"
            raise LimitExceeded(message)
        if not data.startswith(FIRST_LINE):
            kind = UnknownVersion if _ANY_VERSION.match(data) else Malformed
            message = "backup: expected a veilcam backup, version 1"
            raise kind(message)
        line, newline, sealed = data[len(FIRST_LINE) :].partition(b"\n")
        if len(line) > _MAX_HEAD_BYTES:
            message = f"backup: head longer than {_MAX_HEAD_BYTES} bytes"
            raise LimitExceeded(message)
        if not newline or len(sealed) < TAG_BYTES:
            message = "backup: it ends early"
            raise Truncated(message)
        head = Fields.of(parse_canonical(line), "backup", _HEAD_FIELDS)
        listed = head.items("files", 1, MAX_FILES)
        names = tuple(name for name in listed if isinstance(name, str) and _NAME.fullmatch(name))
        if len(names) != len(listed) or list(names) != sorted(set(names)):
            message = "backup: expected rising file names, each once"
            raise Malformed(message)
        return cls(
            head.integer("created_us", 0, 2**53 - 1),
            names,
            head.integer("log2n", identity_file.MIN_LOG2_N, identity_file.MAX_LOG2_N),
            head.octets("salt", identity_file.SALT_BYTES),
            head.octets("nonce", NONCE_BYTES),
            sealed,
        )

    def __bytes__(self) -> bytes:
        return self._head() + self.sealed

    def _head(self) -> bytes:
        head = canonical_json(
            {
                "created_us": self.created_us,
                "files": list(self.names),
                "log2n": self.log2_n,
                "nonce": self.nonce.hex(),
                "salt": self.salt.hex(),
            }
        )
        return FIRST_LINE + head + b"\n"


def read_folder(folder: Path) -> dict[str, SecretBytes]:
    """Read the key files of a folder, by name; other files, links and folders are left out.

    Raises:
        UsageError: too many or too long ones.
    """
    paths = [
        path
        for path in sorted(folder.iterdir())
        if path.suffix in SUFFIXES and path.is_file() and not path.is_symlink() and _NAME.fullmatch(path.name)
    ]
    if len(paths) > MAX_FILES:
        message = f"backup: {len(paths)} key files, limit is {MAX_FILES}"
        raise UsageError(message)
    return {path.name: SecretBytes(read_bounded(path, MAX_FILE_BYTES)) for path in paths}


def write_folder(folder: Path, files: dict[str, SecretBytes]) -> tuple[list[Path], list[str]]:
    """Bring files back, mode 0600, none over another; returns those written and the names left out.

    Left out is what is there already with the same content, and an identity that was destroyed here: its
    NAME.destroyed lies in the folder.

    Raises:
        UsageError: a file exists with another content; then nothing is written.
    """
    left_out: list[str] = []
    wanted: dict[Path, SecretBytes] = {}
    for name, content in files.items():
        path = folder / name
        if path.suffix == ".identity" and path.with_suffix(".destroyed").exists():
            left_out.append(name)
        elif not path.exists():
            wanted[path] = content
        elif SecretBytes(read_bounded(path, MAX_FILE_BYTES)) == content:
            left_out.append(name)
        else:
            message = f"{name}: exists already with another content; nothing was restored"
            raise UsageError(message)
    for path, content in wanted.items():
        write_private(path, bytes(content.expose(RevealToken("restored key file"))))
    return list(wanted), left_out
