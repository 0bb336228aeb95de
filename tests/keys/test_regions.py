from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from base.errors import AuthenticationFailed, KeyUnavailable, UsageError
from keys import RegionKeys, SegmentKeys
from keys.secret import RevealToken, SecretBytes
from tests.keys import foreign_hpke as foreign

K_S = bytes(range(32))
NONCE = bytes(12)


def _keys() -> SegmentKeys:
    return SegmentKeys(SecretBytes(K_S))


def test_the_key_of_a_region_is_the_documented_one() -> None:
    """Recomputed with the HKDF of the second HPKE and the label as text."""
    expected = foreign.expand(foreign.extract(b"", K_S), b"veilcam sealed region v1\x05", 32)
    assert _keys().region_key(5) == SecretBytes(expected)
    sealed = _keys().region_cipher(5).seal(b"\x00" * 11 + b"\x01", b"tile", b"aad")
    assert AESGCM(expected).decrypt(b"\x00" * 11 + b"\x01", sealed, b"aad") == b"tile"


def test_no_two_regions_and_no_region_and_the_whole_share_a_key() -> None:
    keys = [bytes(_keys().region_key(region).expose(RevealToken("test"))) for region in range(64)]
    assert len(set(keys)) == 64
    sealed = _keys().sealed_cipher().seal(b"\x00" * 11 + b"\x01", b"sound", b"")
    for key in keys:
        with pytest.raises(AuthenticationFailed):
            RegionKeys({0: SecretBytes(key)}).region_cipher(0).open(b"\x00" * 11 + b"\x01", sealed, b"")


def test_keys_of_some_regions_open_these_and_nothing_else() -> None:
    some = RegionKeys({region: _keys().region_key(region) for region in (2, 7)})
    assert some.regions == {2, 7}
    sealed = _keys().region_cipher(7).seal(b"\x00" * 11 + b"\x01", b"tile", b"aad")
    assert some.region_cipher(7).open(b"\x00" * 11 + b"\x01", sealed, b"aad") == b"tile"
    with pytest.raises(AuthenticationFailed):
        some.region_cipher(2).open(b"\x00" * 11 + b"\x01", sealed, b"aad")
    with pytest.raises(KeyUnavailable, match="region 3"):
        some.region_cipher(3)
    with pytest.raises(KeyUnavailable, match="no region"):
        some.sealed_cipher()


@pytest.mark.parametrize("region", [-1, 64, 255])
def test_a_number_that_no_region_has_is_refused(region: int) -> None:
    with pytest.raises(UsageError, match="region"):
        _keys().region_key(region)
    with pytest.raises(UsageError, match="region"):
        RegionKeys({region: SecretBytes(K_S)})


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(UsageError, match="key of region 1"):
        RegionKeys({1: SecretBytes(bytes(16))})
