"""Wrapping an epoch key to its recipients, and getting it back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from base.errors import AuthenticationFailed, Malformed, NoMatchingIdentity, UsageError
from keys.labels import Label
from keys.recipient import Recipient
from keys.schedule import KEY_BYTES, EpochKey, checked_id
from keys.secret import SecretBytes
from keys.stanza import Stanza

MAX_RECIPIENTS = 64


class Unwrapper(Protocol):
    """What can unwrap: an `Identity`, or one whose private key is kept elsewhere."""

    @property
    def recipient(self) -> Recipient:
        """The public half."""

    def unwrap(self, wrapped: bytes, info: bytes) -> SecretBytes:
        """Decrypt what `Recipient.wrap` made."""


def wrap_epoch_key(
    epoch_key: EpochKey, recipients: Iterable[Recipient], camera_id: bytes, epoch_id: bytes
) -> tuple[Stanza, ...]:
    """Encrypt ``epoch_key`` to every recipient, in the order given; a recipient named twice counts once.

    A stanza opens only with this camera id and epoch id. HPKE's base mode says nothing about who wrapped:
    that the camera did is what the segment's signature over its header proves.

    Raises:
        UsageError: no recipient, more than 64, or an id that has not 16 bytes.
    """
    info = _info(camera_id, epoch_id)
    return tuple(
        Stanza(recipient.recipient_id, int(recipient.suite), recipient.wrap(epoch_key.secret, info))
        for recipient in distinct_recipients(recipients)
    )


def unwrap_epoch_key(
    stanzas: Sequence[Stanza], identities: Iterable[Unwrapper], camera_id: bytes, epoch_id: bytes
) -> EpochKey:
    """Open the first stanza that one of the identities can open.

    Raises:
        NoMatchingIdentity: no stanza is addressed to any of the identities.
        AuthenticationFailed: stanzas are, but none opens: changed, or of another camera or epoch.
        Malformed: the stanza opens and holds something other than a key of 32 bytes.
        UsageError: an id has not 16 bytes.
    """
    info = _info(camera_id, epoch_id)
    failures = 0
    for identity in identities:
        recipient = identity.recipient
        address = (recipient.recipient_id, int(recipient.suite))
        for stanza in stanzas:
            if (stanza.recipient_id, stanza.suite) != address:
                continue
            try:
                return _epoch_key(identity.unwrap(stanza.blob, info))
            except AuthenticationFailed:
                # Anybody can put a broken stanza with our id before the good one: try the others too.
                failures += 1
    if failures:
        message = (
            f"epoch {epoch_id.hex()}: {failures} of {len(stanzas)} stanzas are addressed to us, none opens"
        )
        raise AuthenticationFailed(message)
    message = f"epoch {epoch_id.hex()}: none of its {len(stanzas)} recipients is an identity given here"
    raise NoMatchingIdentity(message)


def distinct_recipients(recipients: Iterable[Recipient]) -> tuple[Recipient, ...]:
    """Return the recipients in order, each key once.

    Raises:
        UsageError: there are none, or more than 64.
    """
    distinct = tuple({recipient.recipient_id: recipient for recipient in recipients}.values())
    if not 1 <= len(distinct) <= MAX_RECIPIENTS:
        message = f"recipients: expected 1 to {MAX_RECIPIENTS}, got {len(distinct)}"
        raise UsageError(message)
    return distinct


def _epoch_key(secret: SecretBytes) -> EpochKey:
    if len(secret) != KEY_BYTES:
        message = f"wrapped epoch key: expected {KEY_BYTES} bytes, got {len(secret)}"
        raise Malformed(message)
    return EpochKey(secret)


def _info(camera_id: bytes, epoch_id: bytes) -> bytes:
    return Label.EPOCH_WRAP.value + checked_id("camera id", camera_id) + checked_id("epoch id", epoch_id)
