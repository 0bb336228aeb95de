"""Checks a ledger's proofs with SHA-256 and Ed25519 alone: written from docs/format.md alone."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def check_note(note: str, verifier: str) -> tuple[int, bytes]:
    """Size and root of a signed checkpoint; raises if the signature is not the verifier's."""
    name, key_hash, key64 = verifier.split("+", 2)
    key = base64.b64decode(key64)
    assert key[:1] == b"\x01"
    assert sha256(name.encode(), b"\n", key)[:4].hex() == key_hash
    text, _, signature_line = note.partition("\n\n")
    text += "\n"
    dash, signer, signed64 = signature_line.rstrip("\n").split(" ")
    signed = base64.b64decode(signed64)
    assert (dash, signer, signed[:4].hex()) == ("\u2014", name, key_hash)
    Ed25519PublicKey.from_public_bytes(key[1:]).verify(signed[4:], text.encode())
    origin, size, root = text.splitlines()
    assert origin == name
    return int(size), base64.b64decode(root)


def subtree(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """Root of a tree of ``size`` leaves from one leaf and its path, by the recursion of RFC 6962."""
    if size == 1:
        assert not path
        return leaf
    split = 1
    while split * 2 < size:
        split *= 2
    sibling = path[-1]
    if index < split:
        return sha256(b"\x01", subtree(leaf, index, split, path[:-1]), sibling)
    return sha256(b"\x01", sibling, subtree(leaf, index - split, size - split, path[:-1]))


def both_roots(
    old_size: int, size: int, path: list[bytes], old_root: bytes, whole: bool
) -> tuple[bytes, bytes]:
    """The old and the new root that a consistency path leads to, by the recursion of RFC 6962."""
    if old_size == size:
        if whole:
            assert not path
            return old_root, old_root
        (node,) = path
        return node, node
    split = 1
    while split * 2 < size:
        split *= 2
    sibling, rest = path[-1], path[:-1]
    if old_size <= split:
        old, new = both_roots(old_size, split, rest, old_root, whole)
        return old, sha256(b"\x01", new, sibling)
    old, new = both_roots(old_size - split, size - split, rest, old_root, False)
    return sha256(b"\x01", sibling, old), sha256(b"\x01", sibling, new)


def check_proof(data: bytes, verifier: str) -> Any:
    """The entry that an inclusion proof shows, or the two sizes of a consistency proof."""
    proof = json.loads(data)
    path = [bytes.fromhex(step) for step in proof["path"]]
    if proof["type"] == "veilcam ledger inclusion":
        size, root = check_note(proof["checkpoint"], verifier)
        leaf = sha256(b"\x00", proof["entry"].encode())
        assert subtree(leaf, proof["index"], size, path) == root
        return json.loads(proof["entry"])
    (old_size, old_root), (size, root) = (check_note(proof[name], verifier) for name in ("first", "second"))
    assert both_roots(old_size, size, path, old_root, True) == (old_root, root)
    return old_size, size
