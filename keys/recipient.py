"""Recovery recipients: HPKE key pairs that epoch keys are wrapped to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import final

from base.errors import UsageError
from keys import suite as hpke_suite
from keys.labels import Label
from keys.names import checked_name
from keys.schedule import ID_BYTES
from keys.secret import SecretBytes, Unshareable
from keys.suite import DEFAULT_SUITE, SEED_BYTES, Suite


@final
@dataclass(frozen=True, slots=True)
class Recipient:
    """The public half: may be handed to every camera."""

    name: str
    suite: Suite
    public_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        checked_name(self.name)
        hpke_suite.check_public_key(self.suite, self.public_key)

    @staticmethod
    def generate(name: str, suite: Suite = DEFAULT_SUITE) -> tuple[Recipient, Identity]:
        """Draw a fresh key pair.

        Raises:
            UsageError: ``name`` cannot name a key.
        """
        identity = Identity(name, suite, hpke_suite.draw_seed(suite))
        return identity.recipient, identity

    @property
    def recipient_id(self) -> bytes:
        """Id of 16 bytes: start of SHA-256 over label, suite byte and public key."""
        digest = hashlib.sha256(Label.RECIPIENT_ID.value + bytes([self.suite]) + self.public_key)
        return digest.digest()[:ID_BYTES]

    def wrap(self, secret: SecretBytes, info: bytes) -> bytes:
        """Encrypt ``secret`` to this recipient; it opens only under the same ``info``."""
        return hpke_suite.wrap(self.suite, self.public_key, secret, info)


@final
class Identity(Unshareable):
    """The private half: unwraps what was wrapped to its `recipient`."""

    __slots__ = ("_recipient", "_seed")

    def __init__(self, name: str, suite: Suite, seed: SecretBytes) -> None:
        if len(seed) != SEED_BYTES:
            message = f"identity seed: expected {SEED_BYTES} bytes, got {len(seed)}"
            raise UsageError(message)
        self._seed = seed
        self._recipient = Recipient(name, suite, hpke_suite.public_key_of(suite, seed))

    def __repr__(self) -> str:
        return f"<Identity {self._recipient.name} {self._recipient.suite.label}>"

    @property
    def recipient(self) -> Recipient:
        """The public half."""
        return self._recipient

    @property
    def seed(self) -> SecretBytes:
        """The private key, for the identity file."""
        return self._seed

    def unwrap(self, wrapped: bytes, info: bytes) -> SecretBytes:
        """Decrypt what `Recipient.wrap` made.

        Raises:
            AuthenticationFailed: it was made for another key or ``info``, or was changed.
        """
        return hpke_suite.unwrap(self._recipient.suite, self._seed, wrapped, info)
