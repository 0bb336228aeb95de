"""Which keys a case is opened with, as names that may travel; each process opens the keys for itself.

A token's session or a key service's connection cannot be shared between processes, and a key must not travel
at all. So what travels is where the keys are; the passphrase goes to our own child processes through a pipe,
and to other machines not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from base.files import read_bounded
from keys.backends import open_identity
from keys.grant import MAX_GRANT_BYTES, Grant
from keys.passphrase import Passphrase
from keys.source import IdentityKeys, KeySource


@dataclass(frozen=True, slots=True)
class KeyNames:
    """Paths or URIs of identities, and the path of a grant where the keys come from one."""

    identities: tuple[str, ...]
    grant: str | None = None

    @classmethod
    def of(cls, identities: Sequence[str | Path], grant: Path | None = None) -> KeyNames:
        """Take what options name; paths become absolute, so that they mean the same in every process."""
        names = tuple(
            str(Path(each).absolute()) if isinstance(each, Path) or ":" not in each else each
            for each in identities
        )
        return cls(names, None if grant is None else str(grant.absolute()))

    def open(self, passphrase: Passphrase = None) -> KeySource:
        """Open the keys.

        Raises:
            KeyUnavailable: wrong passphrase, no such key, or the grant is for somebody else.
            AuthenticationFailed: the grant does not verify.
            FormatError: a file is damaged.
        """
        identities = [open_identity(name, passphrase) for name in self.identities]
        if self.grant is None:
            return IdentityKeys(identities)
        path = Path(self.grant)
        return Grant.parse(read_bounded(path, MAX_GRANT_BYTES), where=path.name).open(identities)
