"""Issuing grants: from signed recordings and the custodian's identity to the keys of one scope.

Only segments whose camera signature verifies are granted, and only if every picture that the signature lists
was taken within the times asked for: what lies a moment outside stays closed, and segments that a range
cuts into are left out. The ledger learns of it before a key is unwrapped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from base.errors import (
    AuthenticationFailed,
    FormatError,
    GrantRefused,
    KeyUnavailable,
    NoMatchingIdentity,
    UsageError,
    VeilError,
)
from base.files import atomic_write
from codec.limits import DEFAULT_LIMITS, Limits
from codec.records import SegmentHeader
from forensics.canonical import JsonObject
from forensics.input_file import Advance, Evidence
from forensics.ledger import EventKind, Ledger
from forensics.opening import record_event
from forensics.region_choice import Box, BoxRule, RegionChoice
from forensics.report import FileDigest, json_time
from forensics.verify_file import CheckedSegment, examine
from keys import CameraPublic
from keys.approval import Approval, CustodyPolicy
from keys.grant import Grant
from keys.grant_payload import GrantPayload
from keys.grant_terms import GrantRequest
from keys.signer import SignerKey
from keys.source import IdentityKeys
from keys.wrap import Unwrapper

GRANT_MODE = 0o600
_MAX_NOTES = 20


@dataclass(frozen=True, slots=True)
class Consent:
    """Who agreed: the approvals, and the policy that says how many it takes (None: nobody else's)."""

    approvals: tuple[Approval, ...] = ()
    policy: CustodyPolicy | None = None


@dataclass(frozen=True, slots=True)
class IssuedGrant:
    """A grant and how it came about.

    Attributes:
        num_outside: segments of the recordings that the request does not hold.
        notes: segments within the times asked for that were left out, and why; at most 20.
    """

    grant: Grant
    sources: tuple[FileDigest, ...]
    num_outside: int
    notes: tuple[str, ...]


def issue_grant(
    request: GrantRequest,
    recordings: Sequence[Path],
    *,
    camera: CameraPublic,
    identities: Sequence[Unwrapper],
    issuer: SignerKey,
    ledger: Ledger,
    consent: Consent | None = None,
    limits: Limits = DEFAULT_LIMITS,
    advance: Advance | None = None,
) -> IssuedGrant:
    """Collect the keys of what ``request`` asks for and seal them to its investigator.

    Args:
        request: what is asked for.
        recordings: protected files that hold it; they are read only.
        camera: whose signatures must hold.
        identities: the custodian's; their private keys are used here and not in the grant.
        issuer: signs the grant.
        ledger: learns of it first; refused attempts too.
        consent: approvals and policy.
        limits: of what is read.
        advance: told how far it is.

    Raises:
        GrantRefused: too few approvals, or the request has expired; the attempt is in the ledger.
        AuthenticationFailed: an approval does not verify; likewise.
        NoMatchingIdentity: the identities are not among the recipients; likewise.
        UsageError: another camera, or no segment lies within what was asked for; likewise.
        VeilError: the ledger cannot be written; then no key was used.
    """
    consent = consent or Consent()
    facts = request_facts(request)
    try:
        _check(request, camera, consent, max(ledger.now_us(), ledger.newest_us()))
        record_event(
            ledger, EventKind.GRANT_ISSUING, {**facts, **_issuing_facts(identities, issuer, consent)}
        )
        collection = _Collection(request, camera, IdentityKeys(identities))
        for number, path in enumerate(recordings):
            start, share = number / len(recordings), 1 / len(recordings)
            collection.read(path, limits, _part(advance, start, share))
        collection.check()
        grant = Grant.issue(
            request,
            collection.payload,
            issuer,
            issued_us=ledger.now_us(),
            approvals=consent.approvals,
            policy=consent.policy,
        )
    except VeilError as error:
        record_event(ledger, EventKind.REFUSED, {**facts, "action": "grant", "result": str(error)[:500]})
        raise
    return IssuedGrant(grant, tuple(collection.sources), collection.num_outside, tuple(collection.notes))


def write_grant(issued: IssuedGrant, out: Path, ledger: Ledger, *, overwrite: bool = False) -> str:
    """Record that the grant exists, then give it its name; returns the SHA-256 of the file.

    Raises:
        UsageError: not ``overwrite``, and the name is taken; the ledger then names a grant that nobody has.
        VeilError: the ledger cannot be written; then there is no file.
    """
    data = bytes(issued.grant)
    digest = hashlib.sha256(data).hexdigest()
    terms = issued.grant.terms
    facts: JsonObject = {
        "grant": terms.grant_id.hex(),
        "sha256": digest,
        "segments": terms.num_segments,
        "sources": [source.as_json() for source in issued.sources[:16]],
        "issuer": issued.grant.issuer.signer_id.hex(),
        **request_facts(terms.request),
        "from": json_time(terms.span_us[0]),
        "to": json_time(terms.span_us[1]),
    }
    record_event(ledger, EventKind.GRANT_ISSUED, facts)
    try:
        atomic_write(out, data, mode=GRANT_MODE, replace=overwrite)
    except FileExistsError as error:
        message = f"{out}: exists already; it is left as it is"
        raise UsageError(message) from error
    return digest


def request_facts(request: GrantRequest) -> JsonObject:
    """Return what the ledger says about a request."""
    return {
        "request": request.digest.hex(),
        "cameras": [request.camera_id.hex()],
        "ranges": [[json_time(span.start_us), json_time(span.end_us)] for span in request.ranges],
        "regions": len(request.regions),
        "investigator": {
            "name": request.investigator.name,
            "id": request.investigator.recipient_id.hex(),
        },
        "case": request.case,
        "reason": request.reason,
        "expires": json_time(request.expires_us),
        "uses": request.uses,
    }


def _issuing_facts(identities: Sequence[Unwrapper], issuer: SignerKey, consent: Consent) -> JsonObject:
    return {
        "identities": [each.recipient.recipient_id.hex() for each in identities[:16]],
        "issuer": issuer.public.signer_id.hex(),
        "approvals": [each.by.signer_id.hex() for each in consent.approvals[:32]],
        "policy": None if consent.policy is None else consent.policy.digest.hex(),
    }


def _check(request: GrantRequest, camera: CameraPublic, consent: Consent, now_us: int) -> None:
    """Refuse before any key is used."""
    if camera.camera_id != request.camera_id:
        message = f"request: it is about camera {request.camera_id.hex()}, not {camera.camera_id.hex()}"
        raise UsageError(message)
    if now_us >= request.expires_us:
        message = "grant: the request has expired"
        raise GrantRefused(message)
    for approval in consent.approvals:
        approval.verify(request)
    if consent.policy is not None:
        consent.policy.check(request, consent.approvals)


def _part(advance: Advance | None, start: float, share: float) -> Callable[[float], None]:
    return (lambda _: None) if advance is None else (lambda done: advance(start + share * done))


class _Collection:
    """Gathers segment keys from recordings."""

    def __init__(self, request: GrantRequest, camera: CameraPublic, keys: IdentityKeys) -> None:
        self._request = request
        self._camera = camera
        self._keys = keys
        self._num_strangers = 0
        self.payload = GrantPayload()
        self.sources: list[FileDigest] = []
        self.num_outside = 0
        self.notes: list[str] = []

    def read(self, path: Path, limits: Limits, advance: Callable[[float], None]) -> None:
        with Evidence(path) as evidence:
            self.sources.append(evidence.describe())
            with evidence.units(limits) as units:
                for checked in examine(units, self._camera, limits):
                    self._take(checked, checked.row().name)
                    advance(units.share)
            evidence.check_unchanged()

    def check(self) -> None:
        """Say why there is nothing, if there is nothing."""
        if not len(self.payload) and self._num_strangers:
            message = "none of the identities given is a recipient of what was asked for"
            raise NoMatchingIdentity(message)

    def _take(self, checked: CheckedSegment, name: str) -> None:
        header = _trusted_header(checked)
        times = [frame.time_us for frame, _ in checked.view.own_units()]
        if not times or not any(self._request.holds(each, each) for each in times):
            self.num_outside += 1
            return
        if header is None:
            self._note(name, "its signature does not verify")
        elif not _is_whole(checked):
            self._note(name, "pictures of it are missing, so that its end is not known")
        elif not self._request.holds(min(times), max(times)):
            self._note(name, "the range cuts into it")
        else:
            self._add(header, checked, times, name)

    def _add(self, header: SegmentHeader, checked: CheckedSegment, times: Sequence[int], name: str) -> None:
        regions = self._regions(header, times)
        if regions is None:
            self._note(name, "its original is not split into regions")
            return
        if self._request.regions and not regions:
            self.num_outside += 1
            return
        try:
            keys = self._keys.segment_keys(header)
        except NoMatchingIdentity as error:
            self._num_strangers += 1
            self._note(name, str(error))
            return
        except (KeyUnavailable, AuthenticationFailed, FormatError) as error:
            self._note(name, str(error))
            return
        self.payload.add(
            (header.stream_id, header.epoch_id, header.segment_index), keys, min(times), max(times), regions
        )

    def _regions(self, header: SegmentHeader, times: Sequence[int]) -> tuple[int, ...] | None:
        """The regions that the boxes touch while they are in force; None if the original is not split."""
        boxes = [box for box in self._request.regions if any(map(box.is_in_force, times))]
        if not self._request.regions:
            return ()
        grid = header.regions
        if grid is None:
            return None
        found: set[int] = set()
        for box in boxes:
            placed = Box(box.x, box.y, box.x + box.width, box.y + box.height)
            choice = RegionChoice((BoxRule("", placed),)).at_start(0)
            found |= choice.regions_at(times[0], grid, header.width, header.height)
        return tuple(sorted(found))

    def _note(self, name: str, why: str) -> None:
        if len(self.notes) < _MAX_NOTES:
            self.notes.append(f"{name}: left out: {why}")


def _trusted_header(checked: CheckedSegment) -> SegmentHeader | None:
    """The header, if the camera's signature covers it and nothing in the segment contradicts it."""
    if not checked.evidence.camera_verified or set(checked.evidence.letters) - set("ASM"):
        return None
    return checked.view.header()


def _is_whole(checked: CheckedSegment) -> bool:
    """Whether all pictures that the signature lists are here."""
    return checked.evidence.num_signed == checked.evidence.num_present
