"""Which keys a case is opened with, as names that may travel; each process opens the keys for itself.

A token's session or a key service's connection cannot be shared between processes, and a key must not travel
at all. So what travels is where the keys are; the passphrase goes to our own child processes through a pipe,
and to other machines not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.files import read_bounded
from forensics.grant_opening import open_grant
from forensics.ledger import Ledger
from keys.approval import MAX_POLICY_BYTES, CustodyPolicy
from keys.backends import open_identity
from keys.grant import MAX_GRANT_BYTES, Grant
from keys.grant_revocation import MAX_REVOCATION_BYTES, Revocation
from keys.passphrase import Passphrase
from keys.source import IdentityKeys, KeySource


@dataclass(frozen=True, slots=True)
class KeyNames:
    """Paths or URIs of identities, and of a grant where the keys come from one.

    Attributes:
        policy: path of the custody policy that the grant must satisfy.
        revocations: paths of revocations to heed; those of other grants do nothing.
    """

    identities: tuple[str, ...]
    grant: str | None = None
    policy: str | None = None
    revocations: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        identities: Sequence[str | Path],
        grant: Path | None = None,
        *,
        policy: Path | None = None,
        revocations: Sequence[Path] = (),
    ) -> KeyNames:
        """Take what options name; paths become absolute, so that they mean the same in every process."""
        names = tuple(
            str(Path(each).absolute()) if isinstance(each, Path) or ":" not in each else each
            for each in identities
        )
        return cls(
            names,
            None if grant is None else str(grant.absolute()),
            None if policy is None else str(policy.absolute()),
            tuple(str(path.absolute()) for path in revocations),
        )

    @classmethod
    def of_json(cls, values: dict[str, Any]) -> KeyNames:
        """Read what `dataclasses.asdict` made of it, perhaps by way of JSON, where lists come of tuples."""
        lists = {name: tuple(values[name]) for name in ("identities", "revocations")}
        return cls(**{**values, **lists})

    def open(self, passphrase: Passphrase, ledger: Ledger) -> KeySource:
        """Open the keys; a grant that is refused here is an entry of ``ledger``.

        Raises:
            KeyUnavailable: wrong passphrase, no such key, no grant for us, or too few agreed.
            AuthenticationFailed: the grant or a revocation does not verify.
            FormatError: a file is damaged.
        """
        identities = [open_identity(name, passphrase) for name in self.identities]
        if self.grant is None:
            return IdentityKeys(identities)
        path = Path(self.grant)
        return open_grant(
            Grant.parse(read_bounded(path, MAX_GRANT_BYTES), where=path.name),
            identities,
            ledger,
            policy=None if self.policy is None else _policy(Path(self.policy)),
            revocations=[_revocation(Path(each)) for each in self.revocations],
        )


def _policy(path: Path) -> CustodyPolicy:
    return CustodyPolicy.parse(read_bounded(path, MAX_POLICY_BYTES + 1), where=path.name)


def _revocation(path: Path) -> Revocation:
    return Revocation.parse(read_bounded(path, MAX_REVOCATION_BYTES + 1), where=path.name)
