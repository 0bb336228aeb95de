"""What a configuration says about outgoing streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from base.errors import UsageError
from camera.outputs.target import Protocol
from camera.settings import CameraSettings, load_settings

BASE = "source: 'whip:'\ncamera: gate.camera\nrecipients: [custody.recipient]\n"


def load(tmp_path: Path, text: str, **environment: str) -> CameraSettings:
    path = tmp_path / "gate.yaml"
    path.write_text(BASE + text)
    return load_settings(path, environment)


def test_targets_are_urls_or_sections_and_secrets_come_from_files_or_the_environment(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-bearer-token-1234\n")
    settings = load(
        tmp_path,
        "publish:\n"
        "  - rtsp://user:${RTSP_PASSWORD}@media:8554/gate\n"
        "  - {url: 'whips://media/gate', token_file: token, layer: sealed}\n"
        "  - {url: 'srt://relay:9000', carrier: gop}\n",
        RTSP_PASSWORD="open-sesame",
    )
    rtsp, whip, srt = (target.target() for target in settings.publish)
    assert (rtsp.protocol, rtsp.layer, rtsp.name) == (Protocol.RTSP, "sealed", "rtsp://media:8554/gate")
    assert "open-sesame" in rtsp.url
    assert (whip.url, whip.token, whip.layer) == ("https://media/gate", "a-bearer-token-1234", "sealed")
    assert (srt.protocol, srt.carrier) == (Protocol.SRT, "gop")
    assert "open-sesame" not in repr(settings)


def test_rtsp_is_off_unless_it_has_an_address_and_needs_a_password_beyond_loopback(tmp_path: Path) -> None:
    assert load(tmp_path, "").rtsp.options() is None
    assert load(tmp_path, "rtsp: {listen: '127.0.0.1:8554'}\n").rtsp.options() is not None
    with pytest.raises(UsageError, match="password"):
        load(tmp_path, "rtsp: {listen: '0.0.0.0:8554'}\n").rtsp.options()


def test_ice_servers_take_their_credential_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "turn").write_text("secret-2\n")
    text = (
        "http:\n  ice_servers:\n    - {url: 'turn:turn.example:3478', username: u, credential_file: turn}\n"
    )
    (server,) = (entry.server() for entry in load(tmp_path, text).http.ice_servers)
    assert server.credential == "secret-2"


@pytest.mark.parametrize(
    "text",
    ["publish: [{url: 'rtsp://h/x', layr: sealed}]\n", "rtsp: {lisen: ':1'}\n", "coding: {sub_scale: 5}\n"],
)
def test_what_is_not_known_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError):
        load(tmp_path, text)
