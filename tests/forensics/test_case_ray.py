"""Ray: refused without a token; with one, two real nodes on this machine."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from base.errors import UsageError
from forensics.case_job import CaseJob
from forensics.case_keys import KeyNames
from forensics.case_ray import check_token, work
from keys.secret import SecretBytes
from keys.store import save_identity
from tests.forensics.recordings import Recording, authority
from tests.veilcam.cli import ROOT

PASSPHRASE = "correct horse battery staple"


@pytest.mark.parametrize(
    "environment",
    [{}, {"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "token", "HOME": "/nonexistent"}],
    ids=["nothing set", "switched off", "no token"],
)
def test_without_token_authentication_ray_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="RAY_AUTH"):
        check_token(environment)


def test_a_token_from_the_environment_or_a_file_will_do(tmp_path: Path) -> None:
    check_token({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "x"})
    (tmp_path / "token").write_text("x")
    check_token({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")})


def test_a_node_without_authentication_or_without_the_folder_refuses_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"source": "x", "stem": "x", "camera": None}
    place = {"folder": str(tmp_path), "ledger": "x", "mark": "1"}
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    assert "without RAY_AUTH_MODE" in work(place, job, "process", None)["error"]
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert "does not see the case's folder" in work(place, job, "process", None)["error"]
    assert CaseJob("x", "x", None).keep_native


@dataclass(frozen=True, slots=True)
class Cluster:
    address: str
    environment: dict[str, str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A head and a second node, each with one processor, token authentication on."""
    pytest.importorskip("ray", reason="needs the ray extra")
    if os.environ.get("VEILCAM_RAY_TESTS") != "1":
        pytest.skip("set VEILCAM_RAY_TESTS=1: a cluster takes a minute and 1.5 GB")
    folder = tmp_path_factory.mktemp("ray")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "VEILCAM_"))},
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": str(ROOT),
        "VEILCAM_PASSPHRASE": PASSPHRASE,
    }
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    memory = ["--object-store-memory", "100000000", "--num-cpus", "1"]
    common = [*memory, "--disable-usage-stats", "--block"]
    head = [*ray, "start", "--head", "--port", str(port), "--node-ip-address", "127.0.0.1", *common]
    head += ["--include-dashboard", "false", "--temp-dir", str(folder)]
    second = [*ray, "start", "--address", f"127.0.0.1:{port}", *common]
    nodes: list[subprocess.Popen[bytes]] = []
    with (folder / "log").open("wb") as log:
        try:
            for command in (head, second):
                nodes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
                _wait_for(port)
                assert nodes[-1].poll() is None, (folder / "log").read_text()[-2000:]
            yield Cluster(f"127.0.0.1:{port}", environment)
        finally:
            for node in reversed(nodes):
                node.terminate()  # `--block`: it ends what it has started
                node.wait(60)


def _wait_for(port: int) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.5)
    raise TimeoutError(port)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_case_comes_out_of_two_nodes_as_it_does_of_this_process(
    cluster: Cluster, recording: Recording, tmp_path: Path
) -> None:
    save_identity(tmp_path, authority()[1], SecretBytes(PASSPHRASE.encode()), log2_n=10)
    (tmp_path / "day").mkdir()
    for number in range(2):
        (tmp_path / "day" / f"part{number}.mp4").write_bytes(recording.path.read_bytes())
    program = """
import sys, time
from pathlib import Path
from forensics.case import CaseOptions, recordings_in, run_case
from forensics.case_keys import KeyNames
from forensics.case_ray import RayCluster
from forensics.ledger import Ledger
from tests.forensics.recordings import camera_key
base, address = Path(sys.argv[1]), sys.argv[2]
names = KeyNames.of([base / "authority-1.identity"])
ledger = Ledger(base / "ledger.jsonl")
with RayCluster(names, ledger.path, 2, address) as cluster:
    for _ in range(240):
        if sum(node["Alive"] for node in cluster._ray.nodes()) == 2:
            break
        time.sleep(0.5)
    nodes = sum(node["Alive"] for node in cluster._ray.nodes())
    options = CaseOptions(case="1", cameras=(camera_key().public,))
    report = run_case(recordings_in([base / "day"]), base / "case", cluster, ledger, options)
print(nodes, report.exit_code, [result.error for result in report.results])
"""
    command = [sys.executable, "-c", program, str(tmp_path), cluster.address]
    environment = {name: text for name, text in cluster.environment.items() if name != "VEILCAM_PASSPHRASE"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout.strip().endswith("2 0 [None, None]"), done.stdout + done.stderr[-3000:]
    videos = [(tmp_path / "case" / "video" / f"part{n}.mkv").read_bytes() for n in range(2)]
    assert videos[0] == videos[1]
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert kinds.count("open") == kinds.count("end") == 2
    # a wrong token does not get in
    wrong = {**environment, "RAY_AUTH_TOKEN": "0" * 64}
    done = subprocess.run(command, env=wrong, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode != 0
    assert "not reached, or the token was refused" in done.stderr
    assert KeyNames.of(["pkcs11:token=x"]).identities == ("pkcs11:token=x",)
