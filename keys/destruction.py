"""Destroying a recipient's private key: what was sealed to it alone is erased, wherever copies of it are.

An epoch is erased when the private keys of all recipients it was sealed to are destroyed; with a recipient
per month (`keys.scope`), that is one key. NAME.destroyed stays behind (canonical JSON) and goes into the
ledger:

    {"type":"veilcam-destruction","v":1,"name":...,"suite":...,"recipient":"<hex>","where":...,"sha256":"<hex>",
     "tested":true,"destroyed_us":...,"who":...,"reason":...,"epochs":["<hex>",...]}

``tested`` says that right before, the key opened a message sealed to that recipient: it was the real one.
``sha256`` is of the file that was destroyed, so that copies of it can be searched for. What nothing can show
is that there is no copy: backups and shares are the custodian's to destroy too.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import final

from base.canonical import JsonObject, canonical_json
from base.documents import Fields, is_plain_text, parse_document
from base.errors import AuthenticationFailed, Malformed, UnknownVersion, UsageError
from keys.labels import Label
from keys.names import is_valid_name
from keys.schedule import ID_BYTES, KEY_BYTES
from keys.secret import SecretBytes
from keys.suite import Suite
from keys.wrap import Unwrapper

TYPE = "veilcam-destruction"
MAX_BYTES = 1 << 20
MAX_EPOCHS = 16_384
"""Nearly four months of one camera, at ten minutes each."""
MAX_LEDGER_EPOCHS = 512
MAX_TEXT = 2000
_FIELDS = frozenset(
    {"name", "suite", "recipient", "where", "sha256", "tested", "destroyed_us", "who", "reason", "epochs"}
)


@final
@dataclass(frozen=True, slots=True)
class Destruction:
    """The record of one destroyed key.

    Attributes:
        where: file name, or ``pkcs11``.
        file_sha256: of the file's bytes; zeros for a token.
        is_tested: the key opened a message sealed to the recipient right before.
        epochs: that are erased by it, as far as the custodian named recordings.
    """

    name: str
    suite: Suite
    recipient_id: bytes
    where: str
    file_sha256: bytes
    is_tested: bool
    destroyed_us: int
    who: str
    reason: str
    epochs: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        # What `parse` would not read must not be written: the key would be gone and its record worth nothing.
        for name, text in (("where", self.where), ("who", self.who), ("reason", self.reason)):
            if len(text) > MAX_TEXT or not is_plain_text(text):
                message = f"{name}: expected at most {MAX_TEXT} characters without control characters"
                raise UsageError(message)
        if len(self.epochs) > MAX_EPOCHS:
            message = f"{len(self.epochs)} epochs, a record holds {MAX_EPOCHS}; name fewer recordings"
            raise UsageError(message)

    def as_json(self) -> JsonObject:
        """Return the record as a JSON object."""
        return {
            "type": TYPE,
            "v": 1,
            "name": self.name,
            "suite": self.suite.label,
            "recipient": self.recipient_id.hex(),
            "where": self.where,
            "sha256": self.file_sha256.hex(),
            "tested": self.is_tested,
            "destroyed_us": self.destroyed_us,
            "who": self.who,
            "reason": self.reason,
            "epochs": [epoch.hex() for epoch in self.epochs],
        }

    def ledger_facts(self) -> JsonObject:
        """Return what goes into the ledger: the record; without its epochs if an entry cannot hold them."""
        facts: JsonObject = {
            **self.as_json(),
            "num_epochs": len(self.epochs),
            "record_sha256": hashlib.sha256(bytes(self)).hexdigest(),
        }
        if len(self.epochs) > MAX_LEDGER_EPOCHS:
            del facts["epochs"]
        return facts

    def __bytes__(self) -> bytes:
        return canonical_json(self.as_json())

    @classmethod
    def parse(cls, data: bytes, *, where: str = "destruction record") -> Destruction:
        """Read a NAME.destroyed.

        Raises:
            FormatError: it is none.
        """
        fields = parse_document(data, TYPE, _FIELDS, max_bytes=MAX_BYTES, where=where)
        suite = Suite.from_label(fields.text("suite", 64))
        if suite is None:
            message = f"{where}: field suite: this release does not know it"
            raise UnknownVersion(message)
        name, is_tested = fields.text("name", 64), fields.values["tested"]
        if not is_valid_name(name) or not isinstance(is_tested, bool):
            message = f"{where}: field name or tested"
            raise Malformed(message)
        epochs = fields.items("epochs", 0, MAX_EPOCHS)
        listed = Fields({str(i): epoch for i, epoch in enumerate(epochs)}, f"{where}: epochs")
        return cls(
            name,
            suite,
            fields.octets("recipient", ID_BYTES),
            fields.text("where", MAX_TEXT),
            fields.octets("sha256", 32),
            is_tested,
            fields.integer("destroyed_us", 0, 2**53 - 1),
            fields.text("who", MAX_TEXT),
            fields.text("reason", MAX_TEXT),
            tuple(listed.octets(str(i), ID_BYTES) for i in range(len(epochs))),
        )


def prove_possession(opener: Unwrapper) -> None:
    """Return if the key opens what is sealed to its recipient.

    Raises:
        AuthenticationFailed: it does not.
    """
    message = SecretBytes(secrets.token_bytes(KEY_BYTES))
    if (
        opener.unwrap(
            opener.recipient.wrap(message, Label.DESTRUCTION_TEST.value), Label.DESTRUCTION_TEST.value
        )
        != message
    ):
        failure = f"identity {opener.recipient.name}: it does not open what is sealed to it"
        raise AuthenticationFailed(failure)
