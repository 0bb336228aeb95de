from __future__ import annotations

from pathlib import Path

import pytest

from base.errors import AuthenticationFailed, MediaError, UsageError
from forensics.c2pa_manifest import add_manifest, read_manifest
from forensics.decode import decode, report_path
from forensics.ledger import Ledger
from tests.forensics.recordings import Recording, payloads
from tests.support.authority import make_certificate

pytest.importorskip("c2pa", reason="needs the c2pa extra")

_LEAF = (
    "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
    "extendedKeyUsage=critical,emailProtection\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
)


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A chain and a key, as a certificate authority would give them to an organisation."""
    folder = tmp_path_factory.mktemp("c2pa")
    root = make_certificate(folder, "leaf", "/O=tests/CN=custodian", _LEAF)
    chain = folder / "chain.pem"
    chain.write_bytes((folder / "leaf.pem").read_bytes() + root.read_bytes())
    return chain, folder / "leaf.key"


def test_an_opened_video_tells_where_it_comes_from_and_keeps_its_packets(
    recording: Recording, credentials: tuple[Path, Path], tmp_path: Path, ledger: Ledger
) -> None:
    video, out = tmp_path / "video.mp4", tmp_path / "out.mp4"
    report = decode(recording.path, video, [recording.identity], camera=recording.camera, ledger=ledger)
    chain, key = credentials
    add_manifest(video, out, certificates=chain, key=key, ledger=ledger.path)
    statement = read_manifest(out)
    assert statement["verdict"] == "authentic"
    assert statement["recording_sha256"] == report.verification.input.sha256
    assert statement["camera"] == recording.camera.camera_id.hex()
    assert statement["ledger"] == {"seq": report.ledger_seq, "hash": report.ledger_hash}
    assert payloads(out) == payloads(video)
    assert out.stat().st_mode & 0o777 == 0o600
    assert read_manifest(video) == {}

    changed = bytearray(out.read_bytes())
    place = changed.rindex(payloads(video)["video"][5])
    changed[place + 3] ^= 1
    (tmp_path / "changed.mp4").write_bytes(changed)
    with pytest.raises(MediaError, match="mismatch"):
        read_manifest(tmp_path / "changed.mp4")

    path = report_path(video)
    content = path.read_text()
    path.write_text(content.replace('"authentic"', '"tampered"'))
    with pytest.raises(AuthenticationFailed, match="not the report of any opening"):
        add_manifest(video, tmp_path / "edited.mp4", certificates=chain, key=key, ledger=ledger.path)
    believed = add_manifest(video, tmp_path / "edited.mp4", certificates=chain, key=key)
    assert (believed["verdict"], believed["report_in_ledger"]) == ("tampered", False)
    with pytest.raises(UsageError, match="--unchecked"):
        add_manifest(video, tmp_path / "e.mp4", certificates=chain, key=key, ledger=tmp_path / "none")
    path.write_text(content)

    video.write_bytes(video.read_bytes() + b"x")
    with pytest.raises(AuthenticationFailed, match="is not the video"):
        add_manifest(video, tmp_path / "other.mp4", certificates=chain, key=key)
    with pytest.raises(UsageError, match="exists already"):
        add_manifest(video, out, certificates=chain, key=key)
    with pytest.raises(UsageError, match=r"expected \.mp4"):
        add_manifest(tmp_path / "x.mkv", tmp_path / "y.mkv", certificates=chain, key=key)
    with pytest.raises(UsageError, match="missing"):
        add_manifest(out, tmp_path / "again.mp4", certificates=chain, key=key)
