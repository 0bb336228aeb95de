"""Opening a grant's file: verified, held against policy and revocations; refusals are remembered."""

from __future__ import annotations

from collections.abc import Sequence

from base.canonical import JsonObject, JsonValue
from base.errors import AuthenticationFailed, FormatError, GrantRefused
from forensics.ledger import EventKind, Ledger
from forensics.opening import record_event
from keys.approval import CustodyPolicy
from keys.grant import Grant, OpenedGrant
from keys.grant_revocation import Revocation
from keys.wrap import Unwrapper


def open_grant(
    grant: Grant,
    identities: Sequence[Unwrapper],
    ledger: Ledger,
    *,
    policy: CustodyPolicy | None = None,
    revocations: Sequence[Revocation] = (),
) -> OpenedGrant:
    """Return the keys of ``grant``, opened with the investigator's identity.

    A revocation of this grant makes every opening with it fail; revocations of others do nothing.

    Raises:
        GrantRefused: it is for somebody else, or too few custodians agreed; the attempt is in the ledger.
        AuthenticationFailed: it or its revocation does not verify; likewise.
        FormatError: what it holds is not what it says; likewise.
        VeilError: the ledger cannot be written.
    """
    try:
        opened = grant.open(identities, policy)
        for revocation in revocations:
            if revocation.grant_id == grant.grant_id:
                revocation.verify(grant, policy)
                opened.revoke(revocation.reason)
    except (GrantRefused, AuthenticationFailed, FormatError) as error:
        facts: JsonObject = {"grant": grant.grant_id.hex(), "action": "decode", "result": str(error)}
        ids: list[JsonValue] = [each.recipient.recipient_id.hex() for each in identities[:16]]
        record_event(ledger, EventKind.REFUSED, {**facts, "identities": ids})
        raise
    return opened
