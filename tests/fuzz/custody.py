"""Targets for what custodians and investigators send each other: grants, approvals, shares, backups."""

from __future__ import annotations

from collections.abc import Callable

from base.errors import FormatError, UsageError
from keys import EpochKey, Identity, SecretBytes, slip39
from keys.approval import Approval, CustodyPolicy
from keys.authority import Authority, RevocationReason, certification_request, parse_request
from keys.backup import Backup
from keys.camera import CameraKey
from keys.certified import certified_camera
from keys.destruction import Destruction
from keys.exec_plugin import ExecUri, parse_answer
from keys.grant import Grant
from keys.grant_payload import GrantPayload
from keys.grant_revocation import Revocation
from keys.grant_terms import GrantRequest, TimeSpan
from keys.opening_request import OpeningRequest, ShareApproval
from keys.pkcs11_uri import Pkcs11Uri
from keys.scope import Scope, ScopedRecipient, parse_scoped, render_scoped
from keys.shares import LockedShare, split_identity
from keys.signer import SignerKey
from keys.suite import Suite
from keys.uri import KeyUri
from keys.x509_profile import parse_chain, parse_crl, to_pem
from tests.fuzz.target import FuzzTarget

_CAMERA, _STREAM, _EPOCH = b"c" * 16, b"s" * 16, b"e" * 16
_NOW_US = 1_800_000_000_000_000
_HOUR_US = 3_600_000_000
_ANY = (FormatError, UsageError)


def custody_targets() -> dict[str, FuzzTarget]:
    """By name."""
    grant, request, approval = _grant()
    dealt = split_identity(_identity(), 2, ("dora", "emil", "fay"))
    share = bytes(LockedShare.seal(dealt[0], SecretBytes(b"passphrase"), log2_n=10))
    revocation = bytes(Revocation.sign(bytes(16), "mistake", _signer(), _NOW_US))
    session = _identity().recipient
    asked = OpeningRequest(session, dealt[0].share_set, "1", "r", "w", _NOW_US, _NOW_US + _HOUR_US)
    backup = bytes(
        Backup.seal({"a.pub": SecretBytes(b"x")}, SecretBytes(b"passphrase"), created_us=_NOW_US, log2_n=10)
    )
    name, ids = "custody.identity", (b"e" * 16,)
    destruction = bytes(
        Destruction("custody", Suite.X25519, b"r" * 16, name, b"h" * 32, True, _NOW_US, "dora", "17", ids)
    )
    words = dealt[0].value.words().encode()
    return {
        "grant": FuzzTarget("grant", Grant.parse, (grant,), max_bytes=8192),
        "grant-request": FuzzTarget("grant", GrantRequest.parse, (request,)),
        "grant-approval": FuzzTarget("grant", Approval.parse, (approval,)),
        "grant-revocation": FuzzTarget("grant", Revocation.parse, (revocation,)),
        "custody-policy": FuzzTarget("grant", CustodyPolicy.parse, (bytes(_policy()),)),
        "share": FuzzTarget("share", LockedShare.parse, (share,)),
        "share-words": FuzzTarget("share", _text(slip39.from_words), (words,), _ANY),
        "opening-request": FuzzTarget("share", OpeningRequest.parse, (bytes(asked),), max_bytes=8192),
        "share-approval": FuzzTarget(
            "share", ShareApproval.parse, (bytes(ShareApproval.make(asked, dealt[0], _NOW_US)),)
        ),
        "backup": FuzzTarget("keys", Backup.parse, (backup,)),
        "destruction": FuzzTarget("keys", Destruction.parse, (destruction,)),
        "scoped-recipient": FuzzTarget("keys", parse_scoped, (render_scoped(_scoped()),)),
        "certificates": FuzzTarget("keys", _certificates, _certificate_samples(), max_bytes=8192),
        "plug-in-answer": FuzzTarget("keys", parse_answer, (b'{"ok":true,"secret":"AAAA"}\n',)),
        "exec-uri": FuzzTarget("keys", _text(ExecUri.parse), (b"exec:/x?key=a&arg=b&timeout-s=9",), _ANY),
        "key-uri": FuzzTarget("keys", _text(KeyUri.parse), (b"file:///keys/a%20b", b"exec:kms"), _ANY),
        "pkcs11-uri": FuzzTarget("keys", _text(Pkcs11Uri.parse), (b"pkcs11:token=a;object=b",), _ANY),
    }


_DESTRUCTION = Destruction(
    "custody", Suite.X25519, bytes(16), "custody.identity", bytes(32), True, _NOW_US, "w", "r", (_EPOCH,)
)


def _scoped() -> ScopedRecipient:
    return ScopedRecipient(_identity().recipient, Scope(frozenset({_CAMERA}), None, _NOW_US))


def _certificates(data: bytes) -> None:
    """A chain, a revocation list or a request, whichever it looks like; then all that a verifier does."""
    if b"X509 CRL" in data:
        lists = [parse_crl(data, where="list")]
        certified_camera(_CHAIN, _ROOT.chain[0], lists, now_us=_NOW_US)
    elif b"CERTIFICATE REQUEST" in data:
        parse_request(data)
    else:
        certified_camera(parse_chain(data, where="chain"), _ROOT.chain[0], now_us=_NOW_US)


_ROOT = Authority.root(SignerKey("root", SecretBytes(bytes(range(32)))), now_us=_NOW_US)
_GATE = CameraKey("gate", SecretBytes(bytes(range(1, 33))))
_CHAIN = _ROOT.certify_camera(_GATE.public, now_us=_NOW_US)


def _certificate_samples() -> tuple[bytes, ...]:
    reason = RevocationReason.KEY_COMPROMISE
    revoked = _ROOT.revoke(None, _CHAIN[:1], reason, since_us=_NOW_US, now_us=_NOW_US)
    return to_pem(_CHAIN), revoked, certification_request(_GATE)


def _text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: parse(data.decode("utf-8", "replace"))


def _identity() -> Identity:
    return Identity("custody", Suite.X25519, SecretBytes(bytes(range(32))))


def _signer() -> SignerKey:
    return SignerKey("dora", SecretBytes(b"\x01" * 32))


def _policy() -> CustodyPolicy:
    return CustodyPolicy(1, (_signer().public,))


def _grant() -> tuple[bytes, bytes, bytes]:
    """A grant, its request and an approval."""
    request = GrantRequest.new(
        _CAMERA,
        [TimeSpan(0, 10**7)],
        _identity().recipient,
        case="2026-117",
        reason="theft",
        made_us=_NOW_US,
        expires_us=_NOW_US + _HOUR_US,
        uses=2,
    )
    approval = Approval.sign(request, _signer(), _NOW_US)
    payload = GrantPayload()
    key = EpochKey(SecretBytes(b"\x11" * 32))
    for index in range(3):
        payload.add((_STREAM, _EPOCH, index), key.segment(_CAMERA, _STREAM, _EPOCH, index), 0, 9, ())
    grant = Grant.issue(request, payload, _signer(), issued_us=_NOW_US)
    return bytes(grant), bytes(request), bytes(approval)
