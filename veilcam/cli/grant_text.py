"""How grants and their documents are shown to people and to programs."""

from __future__ import annotations

import datetime as dt
import re

from base.errors import UsageError
from forensics.selection import iso_time, parse_time
from keys.approval import Approval, CustodyPolicy
from keys.grant import Grant
from keys.grant_revocation import Revocation
from keys.grant_terms import GrantRequest

_DURATION = re.compile(r"([1-9][0-9]{0,5})([mhdw])")
_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def request_rows(request: GrantRequest) -> dict[str, object]:
    """What a request asks for, by name."""
    rows: dict[str, object] = {
        "camera": request.camera_id.hex(),
        "for": f"{request.investigator.name} ({request.investigator.recipient_id.hex()})",
        "case": request.case,
        "reason": request.reason,
    }
    for span in request.ranges:
        rows["times" if "times" not in rows else f"times {len(rows)}"] = (
            f"{iso_time(span.start_us)} to {iso_time(span.end_us)}"
        )
    rows["picture"] = f"{len(request.regions)} boxes, no sound" if request.regions else "all, and the sound"
    rows["expires"] = iso_time(request.expires_us)
    rows["uses"] = "any number" if request.uses is None else request.uses
    rows["digest"] = request.digest.hex()
    return rows


def approval_rows(approval: Approval) -> dict[str, object]:
    """What an approval says."""
    return {
        "by": f"{approval.by.name} ({approval.by.signer_id.hex()})",
        "at": iso_time(approval.at_us),
        "request digest": approval.request_digest.hex(),
    }


def revocation_rows(revocation: Revocation) -> dict[str, object]:
    """What a revocation says; whether its signer has a say in the grant, only the grant shows."""
    return {
        "grant": revocation.grant_id.hex(),
        "reason": revocation.reason,
        "by": f"{revocation.by.name} ({revocation.by.signer_id.hex()})",
        "at": iso_time(revocation.at_us),
    }


def policy_rows(policy: CustodyPolicy) -> dict[str, object]:
    """What a policy says."""
    rows: dict[str, object] = {"needed": f"{policy.threshold} of {len(policy.custodians)}"}
    for number, each in enumerate(policy.custodians, 1):
        rows[f"custodian {number}"] = f"{each.name} ({each.signer_id.hex()})"
    return rows


def grant_rows(grant: Grant) -> dict[str, object]:
    """What a grant is good for."""
    terms = grant.terms
    return {
        "grant": terms.grant_id.hex(),
        **request_rows(terms.request),
        "holds": f"{terms.num_segments} segments, {' to '.join(map(iso_time, terms.span_us))}",
        "issued": iso_time(terms.issued_us),
        "issuer": f"{grant.issuer.name} ({grant.issuer.signer_id.hex()})",
        "approved by": ", ".join(each.by.name for each in grant.approvals) or "nobody else",
    }


def parse_expiry(text: str, now_us: int) -> int:
    """Read ``30d`` (m, h, d, w from now) or a time in ISO 8601; Unix microseconds.

    Raises:
        UsageError: neither.
    """
    if match := _DURATION.fullmatch(text.strip()):
        return now_us + int(match[1]) * _UNITS[match[2]] * 1_000_000
    point = parse_time(text)
    if not point.is_absolute:
        message = f"--expires {text[:40]!r}: expected a duration such as 12h, 30d, 8w, or a time (ISO 8601)"
        raise UsageError(message)
    return point.micros


def today_us() -> int:
    """The time now, Unix microseconds."""
    return int(dt.datetime.now(dt.UTC).timestamp() * 1_000_000)
