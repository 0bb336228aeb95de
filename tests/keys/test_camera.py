from __future__ import annotations

import hashlib

import pytest

from base.errors import AuthenticationFailed, Malformed, UsageError
from keys import CameraKey, CameraPublic, SecretBytes


# RFC 8032, section 7.1, tests 1 to 3.
@pytest.mark.parametrize(
    ("seed", "public", "message", "signature"),
    [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
            "d25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
            "387b2eaeb4302aeeb00d291612bb0c00",
        ),
        (
            "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
            "4a7c15e9716ed28dc027beceea1ec40a",
        ),
    ],
)
def test_signing_gives_the_answers_of_rfc_8032(seed: str, public: str, message: str, signature: str) -> None:
    camera = CameraKey("door", SecretBytes(bytes.fromhex(seed)))
    assert camera.public.public_key.hex() == public
    assert camera.sign(bytes.fromhex(message)).hex() == signature
    CameraPublic("door", bytes.fromhex(public)).verify(bytes.fromhex(signature), bytes.fromhex(message))


def test_the_camera_id_is_the_documented_hash() -> None:
    camera = CameraKey.generate("door")
    digest = hashlib.sha256(b"veilcam camera id v1" + camera.public.public_key).digest()
    assert camera.camera_id == camera.public.camera_id == digest[:16]


def test_another_message_signature_or_camera_does_not_verify() -> None:
    camera, other = CameraKey.generate("door"), CameraKey.generate("door")
    signature = camera.sign(b"message")
    camera.public.verify(signature, b"message")
    changed = bytes([signature[0] ^ 1]) + signature[1:]
    for public, attempt, message in (
        (camera.public, signature, b"massage"),
        (camera.public, changed, b"message"),
        (camera.public, signature[:-1], b"message"),
        (camera.public, b"", b"message"),
        (other.public, signature, b"message"),
    ):
        with pytest.raises(AuthenticationFailed, match="does not verify"):
            public.verify(attempt, message)


def test_a_public_key_that_is_no_point_verifies_nothing() -> None:
    with pytest.raises(AuthenticationFailed):
        CameraPublic("door", b"\x02" + bytes(30) + b"\x80").verify(bytes(64), b"message")


def test_lengths_and_names_that_do_not_fit_are_refused() -> None:
    with pytest.raises(Malformed, match="expected 32 bytes, got 31"):
        CameraPublic("door", bytes(31))
    with pytest.raises(UsageError, match="expected 32 bytes, got 33"):
        CameraKey("door", SecretBytes(bytes(33)))
    with pytest.raises(UsageError, match="key name"):
        CameraKey.generate("../door")
