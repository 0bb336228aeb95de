from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

import keys
from base.errors import KeyUnavailable, UsageError
from keys.secret import RevealToken, SecretBytes

ROOT = Path(keys.__file__).parents[1]
REVEAL = RevealToken("test")
BYTES = b"correct horse battery staple 123"


def test_expose_gives_a_read_only_view_of_the_bytes() -> None:
    view = SecretBytes(BYTES).expose(REVEAL)
    assert bytes(view) == BYTES
    assert view.readonly


@pytest.mark.parametrize("token", [None, "test", True, object()])
def test_expose_without_a_token_is_refused(token: object) -> None:
    with pytest.raises(UsageError, match="RevealToken"):
        SecretBytes(BYTES).expose(token)  # type: ignore[arg-type]  # the point of the test


def test_a_token_needs_a_reason() -> None:
    with pytest.raises(UsageError, match="reason"):
        RevealToken("")


def test_the_source_buffer_may_change_afterwards() -> None:
    source = bytearray(BYTES)
    secret = SecretBytes(source)
    source[:] = bytes(len(source))
    assert bytes(secret.expose(REVEAL)) == BYTES


def test_wiping_clears_views_and_ends_exposure() -> None:
    secret = SecretBytes(BYTES)
    view = secret.expose(REVEAL)
    secret.wipe()
    assert bytes(view) == bytes(len(BYTES))
    with pytest.raises(KeyUnavailable, match="wiped"):
        secret.expose(REVEAL)


def test_a_view_of_a_temporary_keeps_its_bytes() -> None:
    """Otherwise ``AESGCM(derive().expose(token))`` would encrypt under a key of zeros."""
    view = SecretBytes(BYTES).expose(REVEAL)
    gc.collect()
    assert bytes(view) == BYTES


def test_the_buffer_is_cleared_when_the_last_reference_goes() -> None:
    buffer = SecretBytes(BYTES).expose(REVEAL).obj
    assert isinstance(buffer, bytearray)
    assert bytes(buffer) == BYTES
    # What the interpreter calls then; afterwards there is no lawful way to look.
    type(buffer).__del__(buffer)  # type: ignore[attr-defined]  # of the private subclass
    assert bytes(buffer) == bytes(len(BYTES))


def test_the_buffer_behind_a_view_does_not_print_its_content() -> None:
    assert "horse" not in repr(SecretBytes(BYTES).expose(REVEAL).obj)


def test_equality_compares_content_with_secrets_only() -> None:
    assert SecretBytes(BYTES) == SecretBytes(BYTES)
    assert SecretBytes(BYTES) != SecretBytes(BYTES[:-1])
    assert SecretBytes(BYTES) != BYTES


def test_wiped_secrets_equal_nothing() -> None:
    first, second = SecretBytes(BYTES), SecretBytes(BYTES)
    first.wipe()
    assert first != second
    second.wipe()
    assert first != second


def test_a_secret_is_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(SecretBytes(BYTES))


def test_a_secret_is_no_buffer_and_no_bytes() -> None:
    secret = SecretBytes(BYTES)
    with pytest.raises(TypeError):
        bytes(secret)  # type: ignore[call-overload]  # the point of the test
    with pytest.raises(TypeError):
        memoryview(secret)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(TypeError):
        list(secret)  # type: ignore[call-overload]  # the point of the test


def test_only_the_keys_package_looks_at_raw_key_bytes() -> None:
    """A review of key handling reads this list; whoever adds to it argues why."""
    packages = ("base", "models", "codec", "analytics", "camera", "forensics", "veilcam")
    offenders = [
        str(path.relative_to(ROOT))
        for package in packages
        for path in sorted((ROOT / package).rglob("*.py"))
        if "RevealToken" in path.read_text()
    ]
    # A passphrase goes to a child process by its standard input; the ledger's key goes to its file.
    assert offenders == ["forensics/case_engine.py", "forensics/ledger_key.py"]


def test_importing_keys_loads_neither_media_nor_machine_learning() -> None:
    script = (
        "import sys, keys, keys.store\n"
        "print(sorted({'numpy', 'av', 'torch', 'cv2', 'onnxruntime'} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.strip() == "[]"


def test_the_package_exports_what_it_promises() -> None:
    assert keys.__all__ == [
        "CameraKey",
        "CameraPublic",
        "Epoch",
        "EpochKey",
        "EpochRing",
        "Grant",
        "GrantRequest",
        "Identity",
        "IdentityKeys",
        "KeySource",
        "OpenedGrant",
        "Recipient",
        "RegionKeys",
        "SecretBytes",
        "SegmentKeys",
        "Stanza",
        "open_identity",
        "unwrap_epoch_key",
        "wrap_epoch_key",
    ]
    assert all(getattr(keys, name).__doc__ for name in keys.__all__)
