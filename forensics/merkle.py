"""Merkle trees as RFC 6962 (Certificate Transparency), section 2.1, defines them: roots and proofs. Pure.

A leaf is a whole line of the ledger without its newline. Leaves and nodes are hashed with different first
bytes, so that neither passes for the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from base.errors import AuthenticationFailed

HASH_BYTES = 32
MAX_PATH = 64
"""More steps than a tree of 2^63 leaves needs."""
EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(leaf: bytes) -> bytes:
    """Hash a leaf."""
    return hashlib.sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class TreeHasher:
    """Takes leaf hashes in order and keeps only the roots of full subtrees, at most one of each size."""

    def __init__(self) -> None:
        self._full: list[bytes] = []
        self.size = 0

    def add(self, leaf: bytes) -> None:
        """Take the hash of the next leaf."""
        rest = self.size
        node = leaf
        while rest & 1:
            node = node_hash(self._full.pop(), node)
            rest >>= 1
        self._full.append(node)
        self.size += 1

    def root(self) -> bytes:
        """Return the root over what was taken so far."""
        if not self._full:
            return EMPTY_ROOT
        node = self._full[-1]
        for left in reversed(self._full[:-1]):
            node = node_hash(left, node)
        return node


def tree_root(leaves: Iterable[bytes]) -> bytes:
    """Return the root over leaf hashes."""
    hasher = TreeHasher()
    for leaf in leaves:
        hasher.add(leaf)
    return hasher.root()


def inclusion_proof(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """Return the audit path of leaf ``index`` (section 2.1.1), from the leaf up; of leaf hashes."""
    if len(leaves) <= 1:
        return ()
    split = _split(len(leaves))
    if index < split:
        return (*inclusion_proof(leaves[:split], index), tree_root(leaves[split:]))
    return (*inclusion_proof(leaves[split:], index - split), tree_root(leaves[:split]))


def consistency_proof(leaves: Sequence[bytes], old_size: int) -> tuple[bytes, ...]:
    """Return the proof that the tree over ``leaves`` extends its first ``old_size`` ones (section 2.1.2)."""
    if not 0 < old_size < len(leaves):
        return ()
    return _subproof(leaves, old_size, is_whole=True)


def _subproof(leaves: Sequence[bytes], old_size: int, *, is_whole: bool) -> tuple[bytes, ...]:
    if old_size == len(leaves):
        return () if is_whole else (tree_root(leaves),)
    split = _split(len(leaves))
    if old_size <= split:
        return (*_subproof(leaves[:split], old_size, is_whole=is_whole), tree_root(leaves[split:]))
    return (*_subproof(leaves[split:], old_size - split, is_whole=False), tree_root(leaves[:split]))


def _split(size: int) -> int:
    """Return the largest power of two below ``size``."""
    return 1 << ((size - 1).bit_length() - 1)


def check_inclusion(root: bytes, size: int, index: int, leaf: bytes, path: Sequence[bytes]) -> None:
    """Return if leaf hash ``leaf`` is number ``index`` of the tree of ``size`` leaves with this root.

    RFC 9162, section 2.1.3.2, which is RFC 6962's proof with its check written out.

    Raises:
        AuthenticationFailed: it is not, or the path does not show it.
    """
    message = f"inclusion proof: entry {index} is not shown to be among the first {size}"
    if not 0 <= index < size or len(path) > MAX_PATH:
        raise AuthenticationFailed(message)
    node, place, last = leaf, index, size - 1
    for step in path:
        if last == 0:
            raise AuthenticationFailed(message)
        if place & 1 or place == last:
            node = node_hash(step, node)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            node = node_hash(node, step)
        place, last = place >> 1, last >> 1
    if last or node != root:
        raise AuthenticationFailed(message)


def check_consistency(old_root: bytes, old_size: int, root: bytes, size: int, path: Sequence[bytes]) -> None:
    """Return if the tree of ``size`` leaves begins with the one of ``old_size`` (RFC 9162, section 2.1.4.2).

    Raises:
        AuthenticationFailed: it does not, or the path does not show it.
    """
    message = f"consistency proof: {size} entries are not shown to begin with the {old_size} known before"
    failure = AuthenticationFailed(message)
    if not 0 <= old_size <= size or len(path) > 2 * MAX_PATH:
        raise failure
    if old_size in (0, size):
        if path or old_root != (EMPTY_ROOT if old_size == 0 else root):
            raise failure
        return
    steps = list(path)
    if old_size & (old_size - 1) == 0:
        steps.insert(0, old_root)
    if not steps:
        raise failure
    place, last = old_size - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old = new = steps[0]
    for step in steps[1:]:
        if last == 0:
            raise failure
        if place & 1 or place == last:
            old, new = node_hash(step, old), node_hash(step, new)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            new = node_hash(new, step)
        place, last = place >> 1, last >> 1
    if last or old != old_root or new != root:
        raise failure
