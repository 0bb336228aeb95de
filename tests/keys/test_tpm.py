from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import FormatError, KeyUnavailable, MissingDependency, UsageError
from keys import CameraPublic
from keys.secret import RevealToken
from keys.store import describe, load_camera, save_sealed_camera
from keys.tpm import SealedCamera, seal_camera
from tests.keys.software_tpm import software_tpm

PUBLIC = CameraPublic("gate", bytes(range(32)))


@pytest.fixture(scope="module")
def tpm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with software_tpm(tmp_path_factory.mktemp("tpm")) as tcti:
        yield tcti


@pytest.fixture
def machine(tpm: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TPM2TOOLS_TCTI", tpm)
    return tpm


@pytest.mark.usefixtures("machine")
def test_the_tpm_opens_what_it_sealed_and_the_file_has_no_key_in_it(tmp_path: Path) -> None:
    sealed = seal_camera("gate")
    path = save_sealed_camera(tmp_path, sealed)
    assert path.stat().st_mode & 0o777 == 0o600
    camera = load_camera(path)
    sealed.public.verify(camera.sign(b"message"), b"message")
    seed = bytes(camera.seed.expose(RevealToken("test")))
    assert seed not in bytes(sealed.tpm_private) + bytes(sealed.tpm_public)
    info = describe(path)
    assert (info.kind, info.name, info.key_id) == ("sealed-camera", "gate", camera.camera_id)


@pytest.mark.usefixtures("machine")
def test_another_machine_does_not_open_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_sealed_camera(tmp_path, seal_camera("gate"))
    with software_tpm(tmp_path / "other") as other:
        monkeypatch.setenv("TPM2TOOLS_TCTI", other)
        with pytest.raises(KeyUnavailable, match="another machine's TPM"):
            load_camera(path)


@pytest.mark.usefixtures("machine")
def test_with_pcrs_it_opens_until_they_change(tmp_path: Path) -> None:
    path = save_sealed_camera(tmp_path, seal_camera("gate", "sha256:16"))  # 16: free for tests
    first = load_camera(path).camera_id
    assert load_camera(path).camera_id == first
    subprocess.run(["tpm2_pcrextend", f"16:sha256={'ab' * 32}"], check=True)
    with pytest.raises(KeyUnavailable, match="PCRs have other values"):
        load_camera(path)


@pytest.mark.usefixtures("machine")
def test_a_changed_file_does_not_open(tmp_path: Path) -> None:
    sealed = seal_camera("gate")
    broken = bytearray(sealed.tpm_private)
    broken[-1] ^= 1
    other = SealedCamera(sealed.public, None, sealed.tpm_public, bytes(broken))
    with pytest.raises(KeyUnavailable, match="TPM"):
        other.open()
    swapped = SealedCamera(PUBLIC, None, sealed.tpm_public, sealed.tpm_private)
    with pytest.raises(KeyUnavailable, match="another key than the file names"):
        swapped.open()


def test_without_a_tpm_or_its_programs_the_error_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_sealed_camera(tmp_path, SealedCamera(PUBLIC, None, b"public", b"private"))
    assert describe(path).key_id == PUBLIC.camera_id  # needs neither
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependency, match="tpm2-tools"):
        load_camera(path)


def test_the_tpm_is_not_told_passphrases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tpm2_createprimary").write_text(f"#!/bin/sh\nenv > {tmp_path}/seen\nexit 1\n")
    (tmp_path / "tpm2_createprimary").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("VEILCAM_PASSPHRASE_DORA", "secret")
    with pytest.raises(KeyUnavailable, match="tpm2_createprimary failed: no reason given"):
        seal_camera("gate")
    assert "PATH=" in (tmp_path / "seen").read_text()
    assert "secret" not in (tmp_path / "seen").read_text()


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = save_sealed_camera(tmp_path, SealedCamera(PUBLIC, None, b"public", b"private"))
    path.chmod(0o644)
    with pytest.raises(KeyUnavailable, match="chmod 600"):
        load_camera(path)


@pytest.mark.parametrize("pcrs", ["", "7", "sha256:", "sha256:24", "sha256:7;x", "md5:7", "none"])
def test_pcrs_that_there_are_not_are_refused(pcrs: str) -> None:
    with pytest.raises(UsageError, match="PCRs"):
        seal_camera("gate", pcrs)


@given(
    st.sampled_from([None, "sha256:0,7", "sha1:23"]),
    st.binary(min_size=1, max_size=1024),
    st.binary(min_size=1, max_size=1024),
)
def test_files_come_back_as_they_were_written(pcrs: str | None, public: bytes, private: bytes) -> None:
    sealed = SealedCamera(PUBLIC, pcrs, public, private)
    assert SealedCamera.parse(bytes(sealed)) == sealed


@given(st.binary(max_size=300))
def test_random_bytes_raise_nothing_but_format_errors(data: bytes) -> None:
    for prefix in (b"", b"veilcam-sealed-camera v1\nname: gate\n"):
        with pytest.raises(FormatError):
            SealedCamera.parse(prefix + data)
