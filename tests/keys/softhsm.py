"""SoftHSM tokens for tests: a folder of their own, so that nobody's real tokens are touched."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

PIN = "271828"
_MODULES = (
    Path("/usr/lib/softhsm/libsofthsm2.so"),
    Path("/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so"),
    Path("/usr/lib64/pkcs11/libsofthsm2.so"),
)


def module() -> Path:
    """SoftHSM's library; skips the test without it."""
    pytest.importorskip("pkcs11", reason="required: python-pkcs11 is not installed")
    found = next((path for path in _MODULES if path.exists()), None)
    if found is None or shutil.which("softhsm2-util") is None:
        pytest.skip("required: softhsm2 is not installed")
    return found


def configure(folder: Path) -> Path:
    """Write a configuration whose tokens lie in ``folder``; returns it, for SOFTHSM2_CONF."""
    (folder / "tokens").mkdir(parents=True, exist_ok=True)
    configuration = folder / "softhsm2.conf"
    configuration.write_text(
        f"directories.tokendir = {folder / 'tokens'}\nobjectstore.backend = file\nlog.level = ERROR\n"
    )
    return configuration


def make_token(label: str, configuration: Path) -> None:
    """Add a token with `PIN`."""
    subprocess.run(
        ["softhsm2-util", "--init-token", "--free", "--label", label, "--pin", PIN, "--so-pin", "31415926"],
        env={"PATH": "/usr/bin:/bin", "SOFTHSM2_CONF": str(configuration)},
        check=True,
        capture_output=True,
    )


def token_uri(token: str, key: str) -> str:
    """The URI of a key."""
    return f"pkcs11:token={quote(token)};object={quote(key)}?module-path={module()}"
