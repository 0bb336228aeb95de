"""A revocation: a custodian's signed word that a grant is good no longer.

It cannot take back keys that are in somebody's hands. It stops every program that sees it, and it says in
whose name the grant ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from base.canonical import MAX_INTEGER, JsonObject, canonical_json
from base.documents import is_plain_text, parse_document
from base.errors import GrantRefused, UsageError
from keys.approval import CustodyPolicy, signer_json, signer_part
from keys.ed25519 import SIGNATURE_BYTES
from keys.grant import Grant
from keys.grant_terms import MAX_REASON_CHARS
from keys.labels import Label
from keys.schedule import ID_BYTES
from keys.signer import SignerKey, SignerPublic

REVOCATION_TYPE = "veilcam grant revocation"
MAX_REVOCATION_BYTES = 16_384
_FIELDS = frozenset({"grant", "reason", "by", "at_us", "sig"})


@final
@dataclass(frozen=True, slots=True)
class Revocation:
    """The end of one grant. `verify` says whether its signer may speak for it."""

    grant_id: bytes
    reason: str
    by: SignerPublic
    at_us: int
    signature: bytes = field(repr=False)

    @classmethod
    def sign(cls, grant_id: bytes, reason: str, key: SignerKey, at_us: int) -> Revocation:
        """Revoke a grant at ``at_us`` (Unix microseconds).

        Raises:
            UsageError: the reason is none that `parse` would read.
        """
        if not 1 <= len(reason) <= MAX_REASON_CHARS or not is_plain_text(reason):
            message = f"reason: expected 1 to {MAX_REASON_CHARS} characters without control characters"
            raise UsageError(message)
        unsigned = cls(grant_id, reason, key.public, at_us, b"")
        signature = key.sign(Label.GRANT_REVOCATION, canonical_json(unsigned.unsigned()))
        return cls(grant_id, reason, key.public, at_us, signature)

    def verify(self, grant: Grant, policy: CustodyPolicy | None = None) -> None:
        """Return if this ends ``grant``: signed by its issuer, or by a custodian of ``policy``.

        Raises:
            GrantRefused: it is of another grant, or of somebody without a say in it.
            AuthenticationFailed: the signature does not verify.
        """
        self.by.verify(Label.GRANT_REVOCATION, self.signature, canonical_json(self.unsigned()))
        if self.grant_id != grant.grant_id:
            message = f"revocation of {self.grant_id.hex()}: it is not of grant {grant.grant_id.hex()}"
            raise GrantRefused(message)
        is_issuer = self.by.public_key == grant.issuer.public_key
        if not is_issuer and (policy is None or not policy.names(self.by)):
            message = (
                f"revocation of {self.grant_id.hex()}: {self.by.name} neither issued it nor is a custodian"
            )
            raise GrantRefused(message)

    def unsigned(self) -> JsonObject:
        """Return the part that is signed."""
        return {
            "type": REVOCATION_TYPE,
            "v": 1,
            "grant": self.grant_id.hex(),
            "reason": self.reason,
            "by": signer_json(self.by),
            "at_us": self.at_us,
        }

    def __bytes__(self) -> bytes:
        return canonical_json({**self.unsigned(), "sig": self.signature.hex()})

    @classmethod
    def parse(cls, data: bytes, *, where: str = "grant revocation") -> Revocation:
        """Read a revocation; one newline may stand at its end.

        Raises:
            FormatError: it is none.
        """
        document = data.removesuffix(b"\n")
        fields = parse_document(
            document, REVOCATION_TYPE, _FIELDS, max_bytes=MAX_REVOCATION_BYTES, where=where
        )
        return cls(
            grant_id=fields.octets("grant", ID_BYTES),
            reason=fields.text("reason", MAX_REASON_CHARS),
            by=signer_part(fields, "by"),
            at_us=fields.integer("at_us", 0, MAX_INTEGER),
            signature=fields.octets("sig", SIGNATURE_BYTES),
        )
