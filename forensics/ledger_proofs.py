"""Proofs about a ledger that somebody without the ledger can check, offline, with the verifier key alone.

An inclusion proof shows one entry and hides the others; a consistency proof shows that a later ledger begins
with all that an earlier checkpoint covered. Both are canonical JSON documents of one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from base.canonical import MAX_INTEGER, JsonObject, JsonValue, canonical_json, parse_canonical
from base.documents import Fields, parse_document
from base.errors import LimitExceeded, Malformed, UsageError
from forensics.checkpoint import MAX_NOTE_BYTES, Checkpoint, VerifierKey
from forensics.ledger_entry import MAX_ENTRY_BYTES, LedgerEntry
from forensics.merkle import (
    HASH_BYTES,
    MAX_PATH,
    check_consistency,
    check_inclusion,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
)

INCLUSION_TYPE = "veilcam ledger inclusion"
CONSISTENCY_TYPE = "veilcam ledger consistency"
MAX_PROOF_BYTES = 2 * MAX_ENTRY_BYTES + 4 * MAX_NOTE_BYTES + 2 * MAX_PATH * 80


@dataclass(frozen=True, slots=True)
class InclusionProof:
    """That ``line`` is entry ``index`` of the ledger that ``checkpoint`` describes."""

    checkpoint: Checkpoint
    index: int
    line: bytes
    path: tuple[bytes, ...]

    @classmethod
    def make(cls, checkpoint: Checkpoint, leaves: list[bytes], index: int, line: bytes) -> InclusionProof:
        """Prove an entry from the leaf hashes that ``checkpoint`` covers.

        Raises:
            UsageError: there is no such entry.
        """
        if not 0 <= index < checkpoint.size:
            message = f"entry {index}: the ledger has entries 0 to {checkpoint.size - 1}"
            raise UsageError(message)
        return cls(checkpoint, index, line, inclusion_proof(leaves[: checkpoint.size], index))

    def verify(self, key: VerifierKey) -> LedgerEntry:
        """Return the entry, which is in the ledger.

        Raises:
            AuthenticationFailed: a signature or the path does not show it.
            FormatError: what is shown is no entry.
        """
        self.checkpoint.verify(key)
        leaf = leaf_hash(self.line)
        check_inclusion(self.checkpoint.root, self.checkpoint.size, self.index, leaf, self.path)
        entry = LedgerEntry.parse(self.line)
        if entry.seq != self.index or entry.key != key.public_key:
            message = "inclusion proof: the entry names another number, or another key"
            raise Malformed(message)
        entry.verify()
        return entry

    def as_json(self) -> JsonObject:
        """Return the document."""
        return {
            "type": INCLUSION_TYPE,
            "v": 1,
            "checkpoint": bytes(self.checkpoint).decode("utf-8"),
            "index": self.index,
            "entry": self.line.decode("utf-8"),
            "path": [step.hex() for step in self.path],
        }

    def __bytes__(self) -> bytes:
        return canonical_json(self.as_json())


@dataclass(frozen=True, slots=True)
class ConsistencyProof:
    """That the ledger of ``second`` begins with all entries that ``first`` covered."""

    first: Checkpoint
    second: Checkpoint
    path: tuple[bytes, ...]

    @classmethod
    def make(cls, first: Checkpoint, second: Checkpoint, leaves: list[bytes]) -> ConsistencyProof:
        """Prove it from the leaf hashes that ``second`` covers.

        Raises:
            UsageError: ``first`` covers more than ``second``.
        """
        if first.size > second.size:
            message = f"checkpoint of {first.size} entries: the ledger has {second.size}"
            raise UsageError(message)
        return cls(first, second, consistency_proof(leaves[: second.size], first.size))

    def verify(self, key: VerifierKey) -> None:
        """Return if it holds.

        Raises:
            AuthenticationFailed: a signature or the path does not show it.
        """
        self.first.verify(key)
        self.second.verify(key)
        first, second = self.first, self.second
        check_consistency(first.root, first.size, second.root, second.size, self.path)

    def as_json(self) -> JsonObject:
        """Return the document."""
        return {
            "type": CONSISTENCY_TYPE,
            "v": 1,
            "first": bytes(self.first).decode("utf-8"),
            "second": bytes(self.second).decode("utf-8"),
            "path": [step.hex() for step in self.path],
        }

    def __bytes__(self) -> bytes:
        return canonical_json(self.as_json())


Proof: TypeAlias = InclusionProof | ConsistencyProof


def parse_proof(data: bytes, *, where: str = "proof") -> Proof:
    """Read a proof of either kind; one newline may stand at its end.

    Raises:
        FormatError: it is none.
    """
    document = data.removesuffix(b"\n")
    if len(document) > MAX_PROOF_BYTES:
        message = f"{where}: {len(document)} bytes, limit is {MAX_PROOF_BYTES}"
        raise LimitExceeded(message)
    value = parse_canonical(document)
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == INCLUSION_TYPE:
        names = frozenset({"checkpoint", "index", "entry", "path"})
        fields = parse_document(document, INCLUSION_TYPE, names, max_bytes=MAX_PROOF_BYTES, where=where)
        return InclusionProof(
            checkpoint=Checkpoint.parse(_raw(fields, "checkpoint", MAX_NOTE_BYTES)),
            index=fields.integer("index", 0, MAX_INTEGER),
            line=_raw(fields, "entry", MAX_ENTRY_BYTES),
            path=_path(fields),
        )
    names = frozenset({"first", "second", "path"})
    fields = parse_document(document, CONSISTENCY_TYPE, names, max_bytes=MAX_PROOF_BYTES, where=where)
    return ConsistencyProof(
        first=Checkpoint.parse(_raw(fields, "first", MAX_NOTE_BYTES)),
        second=Checkpoint.parse(_raw(fields, "second", MAX_NOTE_BYTES)),
        path=_path(fields),
    )


def _raw(fields: Fields, name: str, max_bytes: int) -> bytes:
    value: JsonValue = fields.values[name]
    data = value.encode("utf-8") if isinstance(value, str) else None
    if data is None or len(data) > max_bytes:
        message = f"{fields.where}: field {name}: expected a text of at most {max_bytes} bytes"
        raise Malformed(message)
    return data


def _path(fields: Fields) -> tuple[bytes, ...]:
    steps = fields.items("path", 0, 2 * MAX_PATH)
    each_step = (Fields({"path": step}, fields.where) for step in steps)
    return tuple(step.octets("path", HASH_BYTES) for step in each_step)
