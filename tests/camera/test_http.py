"""The HTTP server's rules: who may ask, what leaves, what is logged, and what the health checks say."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from base.errors import UsageError
from camera.access import AccessToken, ListenAddress, RateLimiter, find_token, is_loopback_host, require_safe
from camera.health import RecorderState
from camera.http import HttpOptions, HttpServer, ListenError, redact_path
from camera.state import CameraView
from camera.webrtc.viewers import Viewers
from tests.support.serving import TOKEN, serving
from tests.support.stand_in import StandInCamera

SDP = {"Content-Type": "application/sdp"}
CHROMIUM = (Path(__file__).parent / "offers" / "chromium.sdp").read_bytes()


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(width=320, height=180) as running:
        while running.broadcast.idle_s is None:
            time.sleep(0.01)
        yield running


WIDER = ["0.0.0.0", "::", "192.0.2.1", "camera.local", "127.0.0.1.example.org"]  # noqa: S104

# -- the address and the token


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9000", "127.0.0.1", 9000),
        ("127.0.0.1", "127.0.0.1", 8080),
        (":9000", "127.0.0.1", 9000),
        ("[::1]:9000", "::1", 9000),
        ("[::1]", "::1", 8080),
        ("0.0.0.0:0", "0.0.0.0", 0),  # noqa: S104
        ("camera.local:80", "camera.local", 80),
    ],
)
def test_listen_addresses_are_read(text: str, host: str, port: int) -> None:
    assert ListenAddress.parse(text) == ListenAddress(host, port)


@pytest.mark.parametrize("text", ["127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1:-1", "a:b:c"])
def test_bad_listen_addresses_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        ListenAddress.parse(text)


@given(st.text(max_size=40))
def test_any_text_as_listen_address_is_read_or_refused(text: str) -> None:
    try:
        address = ListenAddress.parse(text)
    except UsageError:
        return
    assert 0 <= address.port <= 65535
    assert address.host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_loopback_needs_no_token(host: str) -> None:
    assert is_loopback_host(host)
    require_safe(ListenAddress(host.strip("[]"), 0), None)


@pytest.mark.parametrize("host", WIDER)
def test_any_wider_address_refuses_to_start_without_a_token(host: str, camera: StandInCamera) -> None:
    viewers = Viewers(camera)
    with pytest.raises(UsageError, match="needs a token"):
        HttpServer(CameraView("yard", camera, viewers), HttpOptions(listen=ListenAddress(host, 0)))
    require_safe(ListenAddress(host, 0), AccessToken(TOKEN))


@pytest.mark.parametrize("token", ["", "short", "with spaces in it and long", "tab\tseparated-and-long"])
def test_weak_tokens_are_refused_without_being_shown(token: str) -> None:
    with pytest.raises(UsageError) as caught:
        AccessToken(token)
    assert not token or token not in str(caught.value)


def test_a_token_is_compared_and_never_shown() -> None:
    token = AccessToken(TOKEN)
    assert token.matches(TOKEN)
    assert not token.matches(TOKEN + "x")
    assert not token.matches("")
    assert not token.matches("\udcff\u2603")
    assert TOKEN not in repr(token)
    with pytest.raises(TypeError):
        pickle.dumps(token)


def test_the_token_comes_from_the_file_or_else_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    other = {"VEILCAM_TOKEN": "another-token-of-length"}
    from_file, from_environment = find_token(file, other), find_token(None, other)
    assert from_file is not None
    assert from_environment is not None
    assert from_file.matches(TOKEN)
    assert from_environment.matches("another-token-of-length")
    assert find_token(None, {}) is None
    with pytest.raises(UsageError, match="No such file"):
        find_token(tmp_path / "absent", {})


def test_the_rate_limiter_refills_and_forgets_the_longest_unseen() -> None:
    now_s = 0.0
    limiter = RateLimiter(2.0, 3, max_clients=2, clock=lambda: now_s)
    assert [limiter.allow("a") for _ in range(4)] == [True, True, True, False]
    now_s = 0.5
    assert [limiter.allow("a") for _ in range(2)] == [True, False]
    assert limiter.allow("b")
    assert limiter.allow("c")  # "a" is forgotten
    assert limiter.level("a") == 3.0


# -- with a token


async def test_everything_but_page_and_probes_needs_the_token(camera: StandInCamera) -> None:
    async with serving(camera, token=TOKEN) as server:
        for path in ("/", "/app.js", "/style.css", "/icon.svg", "/healthz", "/readyz"):
            async with server.http.get(server.url + path) as answer:
                assert answer.status == 200, path
        for path in ("/metrics", "/api/v1/state", "/whep", "/whep/session/x", "/nothing"):
            async with server.http.get(server.url + path) as answer:
                assert answer.status == 401, path
                assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        for path in ("/metrics", "/api/v1/state"):
            async with server.http.get(server.url + path, headers=server.bearer) as answer:
                assert answer.status == 200, path
        for scheme in ("Bearer wrong-token-of-length", f"Basic {TOKEN}", TOKEN, "Bearer", f"Bearer {TOKEN}x"):
            async with server.http.post(
                server.whep, data=CHROMIUM, headers=SDP | {"Authorization": scheme}
            ) as answer:
                assert answer.status == 401, scheme
        async with server.http.post(
            server.whep, data=CHROMIUM, headers=SDP | {"Authorization": f"bearer {TOKEN}"}
        ) as answer:
            assert answer.status == 201


async def test_guessing_tokens_is_slowed_down(camera: StandInCamera) -> None:
    async with serving(camera, token=TOKEN) as server:
        statuses = []
        for index in range(14):
            wrong = {"Authorization": f"Bearer wrong-token-number-{index}"}
            async with server.http.get(server.url + "/api/v1/state", headers=wrong) as answer:
                statuses.append(answer.status)
        assert statuses[:10] == [401] * 10
        assert statuses[-1] == 429


async def test_a_preflight_passes_and_any_origin_may_use_the_token(camera: StandInCamera) -> None:
    origin = {"Origin": "https://viewer.example"}
    async with serving(camera, token=TOKEN) as server:
        preflight = origin | {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        }
        async with server.http.options(server.whep, headers=preflight) as answer:
            assert answer.status == 200
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
            assert "POST" in answer.headers["Access-Control-Allow-Methods"]
            assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
            assert answer.headers["Accept-Post"] == "application/sdp"
        async with server.http.post(
            server.whep, data=CHROMIUM, headers=SDP | origin | server.bearer
        ) as answer:
            assert answer.status == 201
            assert {"Location", "ETag", "Link", "Accept-Patch"} <= set(
                answer.headers["Access-Control-Expose-Headers"].split(", ")
            )
            assert "Access-Control-Allow-Credentials" not in answer.headers


# -- without a token


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Host": "evil.example"},
        {"Host": "10.0.0.1:80"},
    ],
)
async def test_without_a_token_another_site_gets_nothing(
    camera: StandInCamera, headers: dict[str, str]
) -> None:
    async with serving(camera) as server:
        for method, path in (("POST", "/whep"), ("GET", "/api/v1/state"), ("OPTIONS", "/whep"), ("GET", "/")):
            async with server.http.request(
                method, server.url + path, data=CHROMIUM if method == "POST" else None, headers=SDP | headers
            ) as answer:
                assert answer.status == 403, path
                assert "Access-Control-Allow-Origin" not in answer.headers


async def test_without_a_token_its_own_page_may_ask(camera: StandInCamera) -> None:
    async with serving(camera) as server:
        async with server.http.get(server.url + "/api/v1/state", headers={"Origin": server.url}) as answer:
            assert answer.status == 200
        by_name = server.url.replace("127.0.0.1", "localhost")
        async with server.http.get(by_name + "/api/v1/state", headers={"Origin": by_name}) as answer:
            assert answer.status == 200


# -- what leaves


async def test_every_response_carries_the_security_headers_and_no_versions(camera: StandInCamera) -> None:
    async with serving(camera) as server:
        for path, status in (("/", 200), ("/nothing", 404), ("/healthz", 200), ("/whep", 204)):
            async with server.http.get(server.url + path) as answer:
                assert answer.status == status
                assert answer.headers["Server"] == "veilcam"
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy


async def test_the_page_needs_no_inline_script_or_style(camera: StandInCamera) -> None:
    async with serving(camera) as server, server.http.get(server.url + "/") as answer:
        text = await answer.text()
        assert "<script>" not in text
        assert "<style" not in text
        assert " style=" not in text
        assert " onclick" not in text
        etag = {"If-None-Match": answer.headers["ETag"]}
        async with server.http.get(server.url + "/", headers=etag) as again:
            assert again.status == 304


async def test_errors_are_problem_details(camera: StandInCamera) -> None:
    async with serving(camera) as server, server.http.get(server.url + "/nothing") as answer:
        assert answer.content_type == "application/problem+json"
        assert (await answer.json(content_type=None))["status"] == 404


async def test_too_many_changes_are_refused_for_a_while(camera: StandInCamera) -> None:
    async with serving(camera, burst=3) as server:
        statuses = []
        for _ in range(6):
            async with server.http.delete(server.url + "/whep/session/x") as answer:
                statuses.append(answer.status)
        assert statuses[:3] == [404] * 3
        assert 429 in statuses[3:]


async def test_a_body_that_never_ends_is_cut_off(camera: StandInCamera) -> None:
    async def endless() -> object:
        while True:
            yield b"a" * 65536

    async with (
        asyncio.timeout(40),
        serving(camera) as server,
        server.http.post(server.whep, data=endless(), headers=SDP) as answer,
    ):
        assert answer.status == 413


async def test_the_access_log_holds_no_secret(
    camera: StandInCamera, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "camera")
    async with serving(camera, token=TOKEN) as server:
        async with server.http.post(
            server.whep + f"?token={TOKEN}", data=CHROMIUM, headers=SDP | server.bearer
        ) as answer:
            session = answer.headers["Location"]
        async with server.http.delete(server.url + session, headers=server.bearer) as answer:
            assert answer.status == 200
        async with server.http.get(server.url + "/%0Aforged%20line", headers=server.bearer) as answer:
            assert answer.status == 404
    assert "DELETE /whep/session/* 200" in caplog.text
    assert session.rpartition("/")[2] not in caplog.text
    assert TOKEN not in caplog.text
    assert "\nforged" not in caplog.text
    assert "ice-pwd" not in caplog.text
    assert redact_path("/x" * 100) == ("/x" * 100)[:100]


async def test_an_address_in_use_is_one_clear_error(camera: StandInCamera) -> None:
    async with serving(camera) as server:
        port = int(server.url.rpartition(":")[2])
        view = CameraView("yard", camera, Viewers(camera))
        second = HttpServer(view, HttpOptions(listen=ListenAddress("127.0.0.1", port)))
        with pytest.raises(ListenError, match=f"127.0.0.1 port {port}: Address already in use"):
            await second.start()


# -- health, state and metrics


async def test_a_working_camera_is_alive_and_ready(camera: StandInCamera) -> None:
    async with serving(camera) as server:
        async with server.http.get(server.url + "/healthz") as answer:
            assert (answer.status, (await answer.json())["status"]) == (200, "alive")
        async with server.http.get(server.url + "/readyz") as answer:
            assert answer.status == 200
            assert await answer.json() == {
                "ready": True,
                "checks": {"source": True, "encoder": True, "epoch": True, "disk": True},
            }


async def test_a_camera_without_pictures_is_alive_and_not_ready() -> None:
    async with serving(StandInCamera()) as server:
        async with server.http.get(server.url + "/healthz") as answer:
            assert answer.status == 200
        async with server.http.get(server.url + "/readyz") as answer:
            assert answer.status == 503
            assert (await answer.json())["checks"]["source"] is False


@pytest.mark.parametrize(
    ("free_bytes", "error", "ready"), [(10**9, "", True), (10**6, "", False), (10**9, "disk full", False)]
)
async def test_readiness_includes_the_recorders_disk(
    camera: StandInCamera, free_bytes: int, error: str, ready: bool
) -> None:
    state = RecorderState("recordings", 3, 10**6, free_bytes, 10**8, error)
    async with serving(camera, recorder=lambda: state) as server:
        async with server.http.get(server.url + "/readyz") as answer:
            assert (await answer.json())["checks"]["disk"] is ready
        async with server.http.get(server.url + "/api/v1/state") as answer:
            assert (await answer.json())["recording"]["segments"] == 3


async def test_the_state_tells_what_the_page_shows_and_no_secret(camera: StandInCamera) -> None:
    async with serving(camera) as server:
        async with server.http.post(server.whep, data=CHROMIUM, headers=SDP) as answer:
            session = answer.headers["Location"].rpartition("/")[2]
        async with server.http.get(server.url + "/api/v1/state") as answer:
            assert answer.headers["Cache-Control"] == "no-store"
            text = await answer.text()
    state = json.loads(text)
    assert session not in text
    assert (state["name"], state["live"], state["viewers"], state["max_viewers"]) == ("yard", True, 1, 16)
    assert len(bytes.fromhex(state["key_epoch"])) == 4
    assert 0 <= state["segment_age_s"] <= 2.5
    assert (state["picture"]["width"], state["picture"]["height"]) == (320, 180)


async def test_metrics_are_valid_and_count(camera: StandInCamera) -> None:
    async with serving(camera) as server:
        async with server.http.get(server.url + "/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            first = samples(await answer.text())
        await asyncio.sleep(0.3)
        async with server.http.get(server.url + "/metrics") as answer:
            second = samples(await answer.text())
    for name in (
        "veilcam_frames_total",
        "veilcam_dropped_frames_total",
        "veilcam_stage_seconds_bucket",
        "veilcam_recovery_bytes_total",
        "veilcam_keyframe_requests_total",
        "veilcam_viewers",
        "veilcam_camera_age_seconds",
        "veilcam_key_epoch",
        "process_resident_memory_bytes",
    ):
        assert any(key.startswith(name) for key in second), name
    sent = 'veilcam_frames_total{"stage": "send"}'
    assert second[sent] > first[sent]
    count = second['veilcam_stage_seconds_count{"stage": "encode"}']
    assert second['veilcam_stage_seconds_bucket{"le": "+Inf", "stage": "encode"}'] == count > 0


def samples(text: str) -> dict[str, float]:
    return {
        sample.name + (json.dumps(sample.labels, sort_keys=True) if sample.labels else ""): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
