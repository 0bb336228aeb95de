"""Against the vectors that Certificate Transparency's own implementations carry.

The eight leaves, roots and proofs are those of google/certificate-transparency,
cpp/merkletree/merkle_tree_test.cc (also transparency-dev/merkle).
"""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import AuthenticationFailed
from forensics.merkle import (
    EMPTY_ROOT,
    check_consistency,
    check_inclusion,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    tree_root,
)

LEAVES = [
    bytes.fromhex(each)
    for each in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
INCLUSION = {  # (index, size): path
    (0, 1): (),
    (0, 8): (
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ),
    (5, 8): (
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ),
    (2, 3): ("fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",),
    (1, 5): (
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ),
}
CONSISTENCY = {  # (old size, size): path
    (1, 1): (),
    (1, 8): (
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ),
    (6, 8): (
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ),
    (2, 5): (
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ),
}
HASHES = [leaf_hash(leaf) for leaf in LEAVES]


def _hashes(count: int) -> list[bytes]:
    return [hashlib.sha256(str(number).encode()).digest() for number in range(count)]


def test_roots_are_the_published_ones() -> None:
    assert tree_root([]) == EMPTY_ROOT == hashlib.sha256(b"").digest()
    for size, root in enumerate(ROOTS, 1):
        assert tree_root(HASHES[:size]).hex() == root


@pytest.mark.parametrize(("index", "size"), INCLUSION)
def test_inclusion_proofs_are_the_published_ones(index: int, size: int) -> None:
    path = inclusion_proof(HASHES[:size], index)
    assert tuple(step.hex() for step in path) == INCLUSION[index, size]
    check_inclusion(bytes.fromhex(ROOTS[size - 1]), size, index, HASHES[index], path)


@pytest.mark.parametrize(("old_size", "size"), CONSISTENCY)
def test_consistency_proofs_are_the_published_ones(old_size: int, size: int) -> None:
    path = consistency_proof(HASHES[:size], old_size)
    assert tuple(step.hex() for step in path) == CONSISTENCY[old_size, size]
    old_root, root = bytes.fromhex(ROOTS[old_size - 1]), bytes.fromhex(ROOTS[size - 1])
    check_consistency(old_root, old_size, root, size, path)


def test_every_proof_of_every_small_tree_holds_and_for_nothing_else() -> None:
    hashes = _hashes(20)
    for size in range(1, 21):
        root = tree_root(hashes[:size])
        for index in range(size):
            path = inclusion_proof(hashes[:size], index)
            check_inclusion(root, size, index, hashes[index], path)
            for wrong in (
                (root, size, index, b"x" * 32, path),
                (root, size, index, hashes[index], (*path, root)),
            ):
                with pytest.raises(AuthenticationFailed):
                    check_inclusion(*wrong)
        for old_size in range(size + 1):
            old_root = tree_root(hashes[:old_size])
            path = consistency_proof(hashes[:size], old_size)
            check_consistency(old_root, old_size, root, size, path)
            with pytest.raises(AuthenticationFailed):
                check_consistency(b"x" * 32, old_size, root, size, path)
            if 0 < old_size < size:
                with pytest.raises(AuthenticationFailed):
                    check_consistency(old_root, old_size, b"x" * 32, size, path)


@given(
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.lists(st.binary(min_size=32, max_size=32), max_size=70),
)
def test_random_proofs_show_nothing(some: int, other: int, path: list[bytes]) -> None:
    with pytest.raises(AuthenticationFailed):
        check_inclusion(b"r" * 32, other, some, b"l" * 32, path)
    with pytest.raises(AuthenticationFailed):
        check_consistency(b"o" * 32, some, b"r" * 32, other, path)
