"""The files under deploy/ and docker-compose.yml, with the real tools where they can run without a daemon."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
import yaml

from camera.settings import load_settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PROFILES = ("tls", "detect", "elf", "mqtt", "mediamtx", "turn", "metrics")
SECRETS = {
    *("camera_key", "access_token", "metrics_token", "turn_password"),
    *("turnserver", "mediamtx", "mqtt_passwords", "worker_token", "metrics_worker_token"),
}


def compose_file() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "docker-compose.yml").read_text()))


def compose_command() -> list[str] | None:
    """``docker compose`` where the plug-in is there, else Debian's docker-compose; no daemon is needed."""
    docker = shutil.which("docker")
    if docker:
        version = subprocess.run([docker, "compose", "version"], capture_output=True, check=False)
        if version.returncode == 0:
            return [docker, "compose"]
    alone = shutil.which("docker-compose")
    return [alone] if alone else None


@pytest.mark.parametrize("profiles", [(), PROFILES], ids=["alone", "all"])
def test_compose_accepts_the_file_with_every_profile(profiles: tuple[str, ...]) -> None:
    command = compose_command()
    if command is None:
        pytest.skip("required: docker-compose")
    flags = [flag for profile in profiles for flag in ("--profile", profile)]
    done = subprocess.run(
        [*command, *flags, "config", "-q"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(compose_file()["services"]))
def test_every_service_is_confined(name: str) -> None:
    service = compose_file()["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    user = service["user"].partition(":")[0]
    assert user.isdigit()
    assert int(user) > 0
    assert "privileged" not in service
    assert not any("docker.sock" in str(volume) for volume in service.get("volumes", ()))
    assert re.search(r":(\$\{VEILCAM_TAG:-latest\}|v?\d)", service["image"])
    assert "environment" not in service or not any(
        re.search("PASSWORD|TOKEN|SECRET", key) for key in service["environment"]
    )


def test_secrets_are_files_that_git_and_the_image_never_see() -> None:
    secrets = compose_file()["secrets"]
    assert set(secrets) == SECRETS
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert "/deploy/secrets/" in ignored
    assert "/deploy/keys/" in ignored
    for secret in secrets.values():
        assert secret["file"].startswith("./deploy/secrets/")
    assert not any(line.startswith("!deploy") for line in (ROOT / ".dockerignore").read_text().splitlines())


def test_commands_of_our_image_exist() -> None:
    from veilcam.cli.app import app  # noqa: PLC0415

    group = typer.main.get_command(app)
    for service in compose_file()["services"].values():
        if not service["image"].startswith("veilcam:"):
            continue
        words = " ".join(service["command"]).split("exec veilcam")[-1].split(">")[0].split()
        command: Any = group
        while words and hasattr(command, "commands"):
            assert words[0] in command.commands
            command = command.commands[words.pop(0)]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_the_image_holds_every_package_and_runs_as_nobody() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
    wanted = {pattern.rstrip("*") for pattern in packages["include"]}
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert wanted <= sent
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    assert re.search(r"^USER 10001:10001$", dockerfile, re.MULTILINE)
    assert "HEALTHCHECK" in dockerfile


def test_the_cameras_settings_are_accepted() -> None:
    settings = load_settings(DEPLOY / "config" / "camera.yaml", {})
    assert settings.http.token_file == Path("/run/secrets/access_token")
    assert settings.recipients == (Path("/config/custodian.recipient"),)


def test_the_edge_workers_are_reached_through_this_machine_only_and_checked() -> None:
    services = compose_file()["services"]
    workers = {name: service for name, service in services.items() if service.get("profiles") == ["elf"]}
    assert len(workers) == 3
    for service in workers.values():
        (port,) = service["ports"]
        assert port.startswith("127.0.0.1:")
        assert "--token-file" in service["command"]
        assert "/v2/health/ready" in service["healthcheck"]["test"][-1]
        assert service["secrets"] == ["worker_token"]


def test_setup_makes_what_compose_mounts_and_keeps_it_the_next_time(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("required: openssl")
    shutil.copytree(DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns("secrets", "keys", "state"))
    program = tmp_path / "bin" / "veilcam"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m veilcam "$@"\n')
    program.chmod(0o755)
    environment = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "VEILCAM_PASSPHRASE": "correct horse battery staple",
    }

    def setup() -> dict[str, bytes]:
        script = tmp_path / "deploy" / "setup.sh"
        done = subprocess.run(
            ["sh", str(script)], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return {path.name: path.read_bytes() for path in (tmp_path / "deploy" / "secrets").iterdir()}

    made = setup()
    assert made.keys() >= SECRETS
    assert b"@" not in made["mediamtx"]
    assert made["metrics_token"] == made["access_token"]
    assert made["metrics_worker_token"] == made["worker_token"] != made["access_token"]
    assert setup() == made
    for path in (tmp_path / "deploy" / "secrets").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o400
    assert (tmp_path / "deploy" / "config" / "custodian.recipient").is_file()
    schema = json.loads((tmp_path / "deploy" / "veilcam.schema.json").read_text())
    values = yaml.safe_load((DEPLOY / "config" / "camera.yaml").read_text())
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(values)) == []


def test_systemd_accepts_the_unit_and_finds_it_well_confined(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("required: systemd-analyze")
    unit = tmp_path / "veilcam.service"
    # The program need not be installed here.
    text = (DEPLOY / "veilcam.service").read_text().replace("/opt/veilcam/bin/veilcam", "/bin/true")
    unit.write_text(text)
    verify = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert verify.returncode == 0, verify.stderr
    assert "veilcam.service" not in verify.stderr
    security = subprocess.run(
        [analyze, "security", "--offline=true", str(unit)], capture_output=True, text=True, check=False
    )
    match = re.search(r"Overall exposure level for veilcam\.service: ([\d.]+)", security.stdout)
    assert match is not None, security.stderr
    assert float(match[1]) <= 2.0  # systemd's own scale: 0 is safest, 10 worst
