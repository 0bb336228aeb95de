"""Grants: the keys of some segments, sealed to one investigator and signed by the custodian who issued it.

A grant file is one line of canonical JSON (the head), a newline, and the encrypted keys (the payload):

    {"approvals":[...],"issuer":{"key","name"},"key":{"blob","id","suite"},"payload":{"bytes","sha256"},
     "sig":"<hex>","terms":{...},"type":"veilcam grant","v":1}

``terms`` says what is granted, in the clear; ``key`` is a random key, HPKE-wrapped to the investigator;
the payload (`keys.grant_payload`) is AES-256-GCM under it. Both are bound to the hash of the terms, so that
they open under these terms alone. The signature is over the whole head, which names the payload's hash.

What a grant bounds by mathematics: camera, segments, regions. What it bounds only where an honest program
opens it: the end of its time and the number of its uses; a program of his own can ignore those.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from base.canonical import MAX_INTEGER, JsonObject, canonical_json
from base.documents import Fields, parse_document
from base.errors import (
    AuthenticationFailed,
    GrantRefused,
    LimitExceeded,
    Malformed,
    OutsideGrant,
    Truncated,
    UsageError,
)
from keys.approval import MAX_CUSTODIANS, Approval, CustodyPolicy, signer_json, signer_part
from keys.ed25519 import SIGNATURE_BYTES
from keys.grant_payload import MAX_PAYLOAD_BYTES, GrantPayload
from keys.grant_terms import GrantRequest, request_fields
from keys.labels import Label
from keys.schedule import ID_BYTES, KEY_BYTES, NONCE_BYTES, TAG_BYTES, RegionKeys, SegmentKeys
from keys.secret import RevealToken, SecretBytes, Unshareable
from keys.signer import SignerKey, SignerPublic
from keys.source import SegmentRef
from keys.stanza import MAX_BLOB_BYTES, Stanza
from keys.wrap import Unwrapper

GRANT_TYPE = "veilcam grant"
MAX_HEAD_BYTES = 1_048_576
MAX_GRANT_BYTES = MAX_HEAD_BYTES + MAX_PAYLOAD_BYTES + TAG_BYTES
_HEAD_FIELDS = frozenset({"terms", "approvals", "key", "payload", "issuer", "sig"})
_TERMS_FIELDS = frozenset({"grant", "request", "issued_us", "segments", "first_us", "last_us", "policy"})
_ZERO_NONCE = bytes(NONCE_BYTES)  # the key is drawn for this one encryption


@final
@dataclass(frozen=True, slots=True)
class GrantTerms:
    """What is granted. Public.

    Attributes:
        grant_id: 16 random bytes.
        num_segments: how many segments it holds.
        span_us: capture times of their first and last picture; None if it holds none.
        policy_digest: SHA-256 of the custody policy that was in force; None if there was none.
    """

    grant_id: bytes
    request: GrantRequest
    issued_us: int
    num_segments: int
    span_us: tuple[int, int]
    policy_digest: bytes | None

    def as_json(self) -> JsonObject:
        """Return it as a part of the head."""
        return {
            "grant": self.grant_id.hex(),
            "request": self.request.as_json(),
            "issued_us": self.issued_us,
            "segments": self.num_segments,
            "first_us": self.span_us[0],
            "last_us": self.span_us[1],
            "policy": None if self.policy_digest is None else self.policy_digest.hex(),
        }

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical terms: key and payload are bound to it."""
        return hashlib.sha256(canonical_json(self.as_json())).digest()

    @classmethod
    def of(cls, fields: Fields) -> GrantTerms:
        """Read the terms of a grant.

        Raises:
            FormatError: they are none.
        """
        return cls(
            grant_id=fields.octets("grant", ID_BYTES),
            request=request_fields(fields.values["request"], f"{fields.where}: request"),
            issued_us=fields.integer("issued_us", 0, MAX_INTEGER),
            num_segments=fields.integer("segments", 1, MAX_INTEGER),
            span_us=(
                fields.integer("first_us", -MAX_INTEGER, MAX_INTEGER),
                fields.integer("last_us", -MAX_INTEGER, MAX_INTEGER),
            ),
            policy_digest=None if fields.values["policy"] is None else fields.octets("policy", 32),
        )


@final
@dataclass(frozen=True, slots=True)
class Grant:
    """A grant as a file holds it. `verify` says who made it, `open` gives the keys to whom it is for."""

    terms: GrantTerms
    approvals: tuple[Approval, ...]
    stanza: Stanza
    issuer: SignerPublic
    signature: bytes = field(repr=False)
    payload: bytes = field(repr=False)

    @classmethod
    def issue(
        cls,
        request: GrantRequest,
        keys: GrantPayload,
        issuer: SignerKey,
        *,
        issued_us: int,
        approvals: Sequence[Approval] = (),
        policy: CustodyPolicy | None = None,
    ) -> Grant:
        """Seal ``keys`` to the request's investigator and sign.

        Raises:
            GrantRefused: ``policy`` asks for more approvals, or the request has expired.
            AuthenticationFailed: an approval does not verify.
            UsageError: there is no segment to grant.
        """
        span_us = keys.span_us
        if span_us is None:
            message = "grant: none of the segments lies within what was asked for"
            raise UsageError(message)
        for approval in approvals:
            approval.verify(request)
        if policy is not None:
            policy.check(request, approvals)
        if issued_us >= request.expires_us:
            message = "grant: the request has expired"
            raise GrantRefused(message)
        digest = None if policy is None else policy.digest
        grant_id = secrets.token_bytes(ID_BYTES)
        terms = GrantTerms(grant_id, request, issued_us, len(keys), span_us, digest)
        stanza, payload = _seal(terms, keys)
        unsigned = cls(terms, tuple(approvals), stanza, issuer.public, b"", payload)
        signature = issuer.sign(Label.GRANT_ISSUE, canonical_json(unsigned.unsigned()))
        return cls(terms, tuple(approvals), stanza, issuer.public, signature, payload)

    @property
    def grant_id(self) -> bytes:
        """16 bytes."""
        return self.terms.grant_id

    def verify(self, policy: CustodyPolicy | None = None) -> None:
        """Return if the grant is what its issuer signed and its approvals are for its request.

        With ``policy``: and if the issuer is one of the custodians, and enough of them approved. Without one
        anybody can be the issuer.

        Raises:
            AuthenticationFailed: a signature does not verify.
            GrantRefused: the approvals are for another request, too few, or the issuer is no custodian.
        """
        self.issuer.verify(Label.GRANT_ISSUE, self.signature, canonical_json(self.unsigned()))
        for approval in self.approvals:
            approval.verify(self.terms.request)
        if policy is None:
            return
        if not policy.names(self.issuer):
            message = f"grant {self.grant_id.hex()}: its issuer {self.issuer.name} is no custodian"
            raise GrantRefused(message)
        policy.check(self.terms.request, self.approvals)

    def open(self, identities: Sequence[Unwrapper], policy: CustodyPolicy | None = None) -> OpenedGrant:
        """Verify the grant and decrypt its keys with the investigator's identity.

        Raises:
            GrantRefused: it is for somebody else, or as `verify`.
            AuthenticationFailed: a signature does not verify, or the keys do not open.
            FormatError: they open and are not what the terms say.
        """
        self.verify(policy)
        address = (self.stanza.recipient_id, self.stanza.suite)
        ours = [
            each for each in identities if (each.recipient.recipient_id, int(each.recipient.suite)) == address
        ]
        if not ours:
            message = (
                f"grant {self.grant_id.hex()}: made out to {self.terms.request.investigator.name}, not to us"
            )
            raise GrantRefused(message)
        key = ours[0].unwrap(self.stanza.blob, Label.GRANT_WRAP.value + self.terms.digest)
        if len(key) != KEY_BYTES:
            message = f"grant key: expected {KEY_BYTES} bytes, got {len(key)}"
            raise Malformed(message)
        payload = GrantPayload.unpack(_decrypt(key, self.terms, self.payload))
        if (len(payload), payload.span_us) != (self.terms.num_segments, self.terms.span_us):
            message = f"grant {self.grant_id.hex()}: it does not hold what its terms say"
            raise Malformed(message)
        return OpenedGrant(self, payload, ours[0].recipient.recipient_id)

    def unsigned(self) -> JsonObject:
        """Return the part of the head that the issuer signs."""
        return {
            "type": GRANT_TYPE,
            "v": 1,
            "terms": self.terms.as_json(),
            "approvals": [each.as_json() for each in self.approvals],
            "key": {
                "id": self.stanza.recipient_id.hex(),
                "suite": self.stanza.suite,
                "blob": base64.b64encode(self.stanza.blob).decode("ascii"),
            },
            "payload": {"bytes": len(self.payload), "sha256": hashlib.sha256(self.payload).hexdigest()},
            "issuer": signer_json(self.issuer),
        }

    def __bytes__(self) -> bytes:
        head = canonical_json({**self.unsigned(), "sig": self.signature.hex()})
        return b"".join((head, b"\n", self.payload))

    @classmethod
    def parse(cls, data: bytes, *, where: str = "grant") -> Grant:
        """Read a grant file's bytes. Says nothing about who made it.

        Raises:
            FormatError: it is none, of another version, changed in its payload, or above the limits.
        """
        head, newline, payload = data[: MAX_HEAD_BYTES + 1].partition(b"\n")
        if not newline:
            message = f"{where}: no line end within {MAX_HEAD_BYTES} bytes"
            raise Truncated(message)
        payload = data[len(head) + 1 :]
        fields = parse_document(head, GRANT_TYPE, _HEAD_FIELDS, max_bytes=MAX_HEAD_BYTES, where=where)
        _check_payload(fields.part("payload", frozenset({"bytes", "sha256"})), payload)
        terms = GrantTerms.of(fields.part("terms", _TERMS_FIELDS))
        approvals = fields.items("approvals", 0, MAX_CUSTODIANS)
        return cls(
            terms=terms,
            approvals=tuple(Approval.part(each, f"{where}: approvals") for each in approvals),
            stanza=_stanza(fields.part("key", frozenset({"id", "suite", "blob"}))),
            issuer=signer_part(fields, "issuer"),
            signature=fields.octets("sig", SIGNATURE_BYTES),
            payload=payload,
        )


@final
class OpenedGrant(Unshareable):
    """The keys of a grant: a `keys.source.KeySource` for its segments, and for nothing else."""

    __slots__ = ("_grant", "_payload", "_recipient_id", "_revoked", "_used")

    def __init__(self, grant: Grant, payload: GrantPayload, recipient_id: bytes) -> None:
        self._grant = grant
        self._payload = payload
        self._recipient_id = recipient_id
        self._revoked: str | None = None
        self._used = False

    def __repr__(self) -> str:
        return f"<OpenedGrant {self.grant_id}>"

    @property
    def grant(self) -> Grant:
        """What was opened."""
        return self._grant

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The investigator's recipient id."""
        return (self._recipient_id.hex(),)

    @property
    def used_ids(self) -> tuple[str, ...]:
        """As `key_ids` once a key was given."""
        return self.key_ids if self._used else ()

    @property
    def grant_id(self) -> str | None:
        """In hexadecimal."""
        return self._grant.grant_id.hex()

    def revoke(self, why: str) -> None:
        """Refuse from now on: a revocation of this grant was found."""
        self._revoked = why

    def covers(self, segment: SegmentRef) -> bool:
        """Whether the grant holds ``segment``."""
        return (
            segment.camera_id == self._grant.terms.request.camera_id
            and self._payload.get((segment.stream_id, segment.epoch_id, segment.segment_index)) is not None
        )

    def authorize(self, now_us: int, num_used: int) -> None:
        """Return if the grant is still good.

        Raises:
            GrantRefused: it is over, used up or revoked.
        """
        request = self._grant.terms.request
        if self._revoked is not None:
            why = f"it was revoked: {self._revoked}"
        elif now_us >= request.expires_us:
            why = "its time is over"
        elif request.uses is not None and num_used >= request.uses:
            why = f"it was used {num_used} times, as often as it is good for"
        else:
            return
        message = f"grant {self.grant_id}: {why}"
        raise GrantRefused(message)

    def segment_keys(self, segment: SegmentRef) -> SegmentKeys | RegionKeys:
        """Return the keys of one segment.

        Raises:
            OutsideGrant: the grant does not hold it.
        """
        found = self._payload.get((segment.stream_id, segment.epoch_id, segment.segment_index))
        if found is None or segment.camera_id != self._grant.terms.request.camera_id:
            message = f"segment {segment.segment_index}: outside grant {self.grant_id}"
            raise OutsideGrant(message)
        self._used = True
        return found.keys


def _seal(terms: GrantTerms, keys: GrantPayload) -> tuple[Stanza, bytes]:
    digest = terms.digest
    investigator = terms.request.investigator
    key = SecretBytes(secrets.token_bytes(KEY_BYTES))
    blob = investigator.wrap(key, Label.GRANT_WRAP.value + digest)
    packed = keys.pack()
    aead = AESGCM(key.expose(RevealToken("AES-256-GCM key")))
    payload = aead.encrypt(
        _ZERO_NONCE, packed.expose(RevealToken("grant contents")), Label.GRANT_PAYLOAD.value + digest
    )
    packed.wipe()
    return Stanza(investigator.recipient_id, int(investigator.suite), blob), payload


def _decrypt(key: SecretBytes, terms: GrantTerms, payload: bytes) -> SecretBytes:
    aead = AESGCM(key.expose(RevealToken("AES-256-GCM key")))
    try:
        return SecretBytes(aead.decrypt(_ZERO_NONCE, payload, Label.GRANT_PAYLOAD.value + terms.digest))
    except InvalidTag:
        message = f"grant {terms.grant_id.hex()}: its keys do not open"
        raise AuthenticationFailed(message) from None


def _check_payload(fields: Fields, payload: bytes) -> None:
    stated = fields.integer("bytes", 0, MAX_INTEGER)
    if stated > MAX_PAYLOAD_BYTES + TAG_BYTES:
        message = f"{fields.where}: {stated} bytes, limit is {MAX_PAYLOAD_BYTES + TAG_BYTES}"
        raise LimitExceeded(message)
    if len(payload) < stated:
        message = f"{fields.where}: expected {stated} bytes, got {len(payload)}"
        raise Truncated(message)
    if len(payload) > stated or hashlib.sha256(payload).digest() != fields.octets("sha256", 32):
        message = f"{fields.where}: not the bytes that the head names"
        raise Malformed(message)


def _stanza(fields: Fields) -> Stanza:
    suite = fields.integer("suite", 0, 255)
    text = fields.text("blob", 4 * (MAX_BLOB_BYTES // 3 + 1))
    try:
        blob = base64.b64decode(text, validate=True)
    except ValueError:
        blob = b""
    if not blob or base64.b64encode(blob).decode("ascii") != text:
        message = f"{fields.where}: field blob: expected base64"
        raise Malformed(message)
    return Stanza(fields.octets("id", ID_BYTES), suite, blob)
