"""Who must agree: a policy names the custodians and how many of them, approvals are their signatures.

Both are canonical JSON documents. An approval is for one request in its one spelling and for nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from base.canonical import MAX_INTEGER, JsonObject, JsonValue, canonical_json
from base.documents import Fields, parse_document
from base.errors import GrantRefused, Malformed, UsageError
from keys.ed25519 import PUBLIC_BYTES, SIGNATURE_BYTES
from keys.grant_terms import GrantRequest
from keys.labels import Label
from keys.names import is_valid_name
from keys.signer import SignerKey, SignerPublic

APPROVAL_TYPE = "veilcam grant approval"
POLICY_TYPE = "veilcam custody policy"
MAX_CUSTODIANS = 32
MAX_APPROVAL_BYTES = 4096
MAX_POLICY_BYTES = 65_536
_SIGNER_FIELDS = frozenset({"name", "key"})
_APPROVAL_FIELDS = frozenset({"request", "by", "at_us", "sig"})
_POLICY_FIELDS = frozenset({"threshold", "custodians"})


@final
@dataclass(frozen=True, slots=True)
class Approval:
    """One custodian's yes to one request. Check it with `verify` before it counts."""

    request_digest: bytes
    by: SignerPublic
    at_us: int
    signature: bytes = field(repr=False)

    @classmethod
    def sign(cls, request: GrantRequest, key: SignerKey, at_us: int) -> Approval:
        """Approve ``request`` at ``at_us`` (Unix microseconds)."""
        unsigned = cls(request.digest, key.public, at_us, b"")
        signature = key.sign(Label.GRANT_APPROVAL, canonical_json(unsigned.unsigned()))
        return cls(request.digest, key.public, at_us, signature)

    def verify(self, request: GrantRequest) -> None:
        """Return if this is a valid approval of ``request``.

        Raises:
            GrantRefused: it is for another request.
            AuthenticationFailed: the signature does not verify.
        """
        if self.request_digest != request.digest:
            message = f"approval by {self.by.name}: it is for another request"
            raise GrantRefused(message)
        self.by.verify(Label.GRANT_APPROVAL, self.signature, canonical_json(self.unsigned()))

    def unsigned(self) -> JsonObject:
        """Return the part that is signed."""
        return {
            "type": APPROVAL_TYPE,
            "v": 1,
            "request": self.request_digest.hex(),
            "by": signer_json(self.by),
            "at_us": self.at_us,
        }

    def as_json(self) -> JsonObject:
        """Return the document."""
        return {**self.unsigned(), "sig": self.signature.hex()}

    def __bytes__(self) -> bytes:
        return canonical_json(self.as_json())

    @classmethod
    def parse(cls, data: bytes, *, where: str = "grant approval") -> Approval:
        """Read an approval; one newline may stand at its end.

        Raises:
            FormatError: it is not one.
        """
        document = data.removesuffix(b"\n")
        fields = parse_document(
            document, APPROVAL_TYPE, _APPROVAL_FIELDS, max_bytes=MAX_APPROVAL_BYTES, where=where
        )
        return cls._of(fields)

    @classmethod
    def part(cls, value: JsonValue, where: str) -> Approval:
        """Read an approval that is a part of another document.

        Raises:
            FormatError: it is not one.
        """
        fields = Fields.of(value, where, _APPROVAL_FIELDS | {"type", "v"})
        if fields.values["type"] != APPROVAL_TYPE or fields.values["v"] != 1:
            message = f"{where}: expected a {APPROVAL_TYPE}, version 1"
            raise Malformed(message)
        return cls._of(fields)

    @classmethod
    def _of(cls, fields: Fields) -> Approval:
        return cls(
            request_digest=fields.octets("request", 32),
            by=signer_part(fields, "by"),
            at_us=fields.integer("at_us", 0, MAX_INTEGER),
            signature=fields.octets("sig", SIGNATURE_BYTES),
        )


@final
@dataclass(frozen=True, slots=True)
class CustodyPolicy:
    """``threshold`` of ``custodians`` must approve before a grant is issued."""

    threshold: int
    custodians: tuple[SignerPublic, ...]

    def __post_init__(self) -> None:
        keys = {custodian.public_key for custodian in self.custodians}
        if len(keys) != len(self.custodians) or not 1 <= len(keys) <= MAX_CUSTODIANS:
            message = f"custody policy: expected 1 to {MAX_CUSTODIANS} different custodians"
            raise UsageError(message)
        if not 1 <= self.threshold <= len(keys):
            message = f"custody policy: threshold of {self.threshold} with {len(keys)} custodians"
            raise UsageError(message)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical policy."""
        return hashlib.sha256(bytes(self)).digest()

    def names(self, signer: SignerPublic) -> bool:
        """Whether ``signer`` is one of the custodians, by key."""
        return any(each.public_key == signer.public_key for each in self.custodians)

    def check(self, request: GrantRequest, approvals: Sequence[Approval]) -> None:
        """Return if enough different custodians approved ``request``. Approvals of others do not count.

        Raises:
            GrantRefused: too few did.
            AuthenticationFailed: one that would count does not verify.
        """
        counted = {each.by.public_key: each for each in approvals if self.names(each.by)}
        for approval in counted.values():
            approval.verify(request)
        if len(counted) < self.threshold:
            message = f"custody policy: {len(counted)} custodians approved, {self.threshold} must"
            raise GrantRefused(message)

    def as_json(self) -> JsonObject:
        """Return the document."""
        return {
            "type": POLICY_TYPE,
            "v": 1,
            "threshold": self.threshold,
            "custodians": [signer_json(each) for each in self.custodians],
        }

    def __bytes__(self) -> bytes:
        return canonical_json(self.as_json())

    @classmethod
    def parse(cls, data: bytes, *, where: str = "custody policy") -> CustodyPolicy:
        """Read a policy; one newline may stand at its end.

        Raises:
            FormatError: it is not one.
        """
        fields = parse_document(
            data.removesuffix(b"\n"), POLICY_TYPE, _POLICY_FIELDS, max_bytes=MAX_POLICY_BYTES, where=where
        )
        custodians = fields.items("custodians", 1, MAX_CUSTODIANS)
        try:
            return cls(
                fields.integer("threshold", 1, MAX_CUSTODIANS),
                tuple(
                    _signer(Fields.of(each, f"{where}: custodians", _SIGNER_FIELDS)) for each in custodians
                ),
            )
        except UsageError as error:
            message = f"{where}: {error}"
            raise Malformed(message) from error


def signer_json(signer: SignerPublic) -> JsonObject:
    """Return a signer as a part of a document."""
    return {"name": signer.name, "key": signer.public_key.hex()}


def signer_part(fields: Fields, name: str) -> SignerPublic:
    """Read a signer.

    Raises:
        FormatError: it is none.
    """
    return _signer(fields.part(name, _SIGNER_FIELDS))


def _signer(fields: Fields) -> SignerPublic:
    name = fields.text("name", 64)
    if not is_valid_name(name):
        message = f"{fields.where}: field name: not the name of a key"
        raise Malformed(message)
    return SignerPublic(name, fields.octets("key", PUBLIC_BYTES))
