"""Asking share holders for one opening, and their approvals, when they are not in one room.

The one who opens makes NAME.request (public, below) and NAME.identity (a key pair for this opening alone,
under his passphrase). Each holder looks at the request and answers with NAME.HOLDER.approval: his share,
encrypted to that key pair and bound to this request. Both files are canonical JSON (`base.canonical`):

    {"type":"veilcam-opening-request","v":1,"name":...,"case":...,"reason":...,"who":...,
     "created_us":...,"expires_us":...,"session":{"suite":...,"key":"<hex>"},
     "set":{"name":...,"suite":...,"id":"<hex>","set":"<hex>","threshold":2,"commitments":["<hex>",...]}}
    {"type":"veilcam-share-approval","v":1,"request":"<hex>","index":0,"holder":...,"blob":"<hex>"}

request  = SHA-256(`Label.OPENING_REQUEST` | the request's bytes)
blob     = HPKE to the session's key (`keys.suite`), info = `Label.SHARE_APPROVAL` | request | index u8,
           of the plaintext of a share (`keys.shares`)

An approval needs no signature: only who has the share can make one that fits the commitment. The request is
not signed either, so a holder compares its fingerprint with the asker over another channel before he
approves.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import final

from base.canonical import canonical_json
from base.documents import Fields, is_plain_text, parse_document
from base.errors import AuthenticationFailed, KeyUnavailable, Malformed, UnknownVersion, UsageError
from keys.labels import Label
from keys.names import checked_name, is_valid_name
from keys.recipient import Recipient
from keys.schedule import ID_BYTES
from keys.shares import COMMITMENT_BYTES, OpenShare, ShareSet, open_share, share_plaintext
from keys.slip39 import MAX_SHARES, MIN_THRESHOLD
from keys.suite import Suite
from keys.wrap import Unwrapper

REQUEST_TYPE = "veilcam-opening-request"
APPROVAL_TYPE = "veilcam-share-approval"
MAX_REQUEST_BYTES = 64 * 1024
MAX_APPROVAL_BYTES = 8 * 1024
MAX_TEXT = 2000
MAX_LIFE_US = 30 * 86_400 * 1_000_000
_MAX_TIME_US = 2**53 - 1
_MAX_BLOB_BYTES = 2048
_NAME_CHARACTERS = 64
_REQUEST_FIELDS = frozenset({"name", "case", "reason", "who", "created_us", "expires_us", "session", "set"})
_SET_FIELDS = frozenset({"name", "suite", "id", "set", "threshold", "commitments"})
_APPROVAL_FIELDS = frozenset({"request", "index", "holder", "blob"})


@final
@dataclass(frozen=True, slots=True)
class OpeningRequest:
    """Who wants to open what, why, and until when the approvals hold.

    Attributes:
        session: the key pair's public half, named as the request.
        who: user and host of the asker, as his machine says.
        created_us: Unix microseconds, as ``expires_us``; at most 30 days apart.
    """

    session: Recipient
    share_set: ShareSet
    case: str
    reason: str
    who: str
    created_us: int
    expires_us: int

    def __post_init__(self) -> None:
        if not 0 < self.expires_us - self.created_us <= MAX_LIFE_US:
            message = "opening request: expected a life of at most 30 days"
            raise Malformed(message)
        for name, text in (("case", self.case), ("reason", self.reason), ("who", self.who)):
            if len(text) > MAX_TEXT or not is_plain_text(text):
                message = f"{name}: expected at most {MAX_TEXT} characters without control characters"
                raise UsageError(message)

    @property
    def digest(self) -> bytes:
        """What approvals are bound to, 32 bytes."""
        return hashlib.sha256(Label.OPENING_REQUEST.value + bytes(self)).digest()

    @property
    def fingerprint(self) -> str:
        """80 bits of `digest` in groups, to read out on the telephone."""
        text = self.digest.hex()[:20]
        return " ".join(text[i : i + 4] for i in range(0, len(text), 4))

    def check_time(self, now_us: int) -> None:
        """Return if the request still holds.

        Raises:
            KeyUnavailable: it has expired.
        """
        if now_us >= self.expires_us:
            message = f"opening request {self.session.name}: it has expired; ask again"
            raise KeyUnavailable(message)

    def __bytes__(self) -> bytes:
        dealt = self.share_set
        return canonical_json(
            {
                "type": REQUEST_TYPE,
                "v": 1,
                "name": self.session.name,
                "case": self.case,
                "reason": self.reason,
                "who": self.who,
                "created_us": self.created_us,
                "expires_us": self.expires_us,
                "session": {"suite": self.session.suite.label, "key": self.session.public_key.hex()},
                "set": {
                    "name": dealt.name,
                    "suite": dealt.suite.label,
                    "id": dealt.recipient_id.hex(),
                    "set": dealt.set_id.hex(),
                    "threshold": dealt.threshold,
                    "commitments": [each.hex() for each in dealt.commitments],
                },
            }
        )

    @classmethod
    def parse(cls, data: bytes, *, where: str = "opening request") -> OpeningRequest:
        """Read a request.

        Raises:
            FormatError: it is none, too long, or of another version.
        """
        fields = parse_document(data, REQUEST_TYPE, _REQUEST_FIELDS, max_bytes=MAX_REQUEST_BYTES, where=where)
        session = fields.part("session", frozenset({"suite", "key"}))
        suite = _suite(session)
        return cls(
            Recipient(_name(fields, "name"), suite, session.octets("key", suite.public_bytes)),
            _share_set(fields.part("set", _SET_FIELDS)),
            fields.text("case", MAX_TEXT),
            fields.text("reason", MAX_TEXT),
            fields.text("who", MAX_TEXT),
            fields.integer("created_us", 0, _MAX_TIME_US),
            fields.integer("expires_us", 0, _MAX_TIME_US),
        )


@final
@dataclass(frozen=True, slots=True)
class ShareApproval:
    """One holder's share, for one request."""

    request_digest: bytes
    index: int
    holder: str
    blob: bytes = field(repr=False)

    @classmethod
    def make(cls, request: OpeningRequest, share: OpenShare, now_us: int) -> ShareApproval:
        """Approve ``request`` with a share.

        Raises:
            UsageError: the share is of another set than the request asks for.
            KeyUnavailable: the request has expired.
        """
        if share.share_set != request.share_set:
            message = f"share of {share.holder}: the request is for another set of shares"
            raise UsageError(message)
        request.check_time(now_us)
        info = _info(request.digest, share.value.index)
        blob = request.session.wrap(share_plaintext(share.value), info)
        return cls(request.digest, share.value.index, share.holder, blob)

    def open(self, request: OpeningRequest, session: Unwrapper) -> OpenShare:
        """Get the share out, with the private half of the request's key pair.

        Raises:
            AuthenticationFailed: it is for another request, was changed, or holds a wrong share.
        """
        if self.request_digest != request.digest:
            message = f"approval of {self.holder}: it is for another request"
            raise AuthenticationFailed(message)
        plain = session.unwrap(self.blob, _info(self.request_digest, self.index))
        return open_share(request.share_set, self.index, self.holder, plain)

    def __bytes__(self) -> bytes:
        return canonical_json(
            {
                "type": APPROVAL_TYPE,
                "v": 1,
                "request": self.request_digest.hex(),
                "index": self.index,
                "holder": self.holder,
                "blob": self.blob.hex(),
            }
        )

    @classmethod
    def parse(cls, data: bytes, *, where: str = "share approval") -> ShareApproval:
        """Read an approval.

        Raises:
            FormatError: it is none, too long, or of another version.
        """
        fields = parse_document(
            data, APPROVAL_TYPE, _APPROVAL_FIELDS, max_bytes=MAX_APPROVAL_BYTES, where=where
        )
        blob = fields.text("blob", 2 * _MAX_BLOB_BYTES)
        return cls(
            fields.octets("request", 32),
            fields.integer("index", 0, MAX_SHARES - 1),
            checked_name(_name(fields, "holder")),
            fields.octets("blob", len(blob) // 2),
        )


def _info(digest: bytes, index: int) -> bytes:
    return Label.SHARE_APPROVAL.value + digest + bytes([index])


def _name(fields: Fields, field_name: str) -> str:
    text = fields.text(field_name, _NAME_CHARACTERS)
    if not is_valid_name(text):
        message = f"{fields.where}: field {field_name}: not a name"
        raise Malformed(message)
    return text


def _suite(fields: Fields) -> Suite:
    suite = Suite.from_label(fields.text("suite", _NAME_CHARACTERS))
    if suite is None:
        message = f"{fields.where}: field suite: this release does not know it"
        raise UnknownVersion(message)
    return suite


def _share_set(fields: Fields) -> ShareSet:
    commitments = fields.items("commitments", MIN_THRESHOLD, MAX_SHARES)
    names = [str(i) for i in range(len(commitments))]
    listed = Fields(dict(zip(names, commitments, strict=True)), f"{fields.where}: commitments")
    return ShareSet(
        _name(fields, "name"),
        _suite(fields),
        fields.octets("id", ID_BYTES),
        fields.octets("set", ID_BYTES),
        fields.integer("threshold", MIN_THRESHOLD, MAX_SHARES),
        tuple(listed.octets(name, COMMITMENT_BYTES) for name in names),
    )
