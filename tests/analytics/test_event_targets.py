from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from aiohttp import web
from hypothesis import given

from analytics import event_outlet
from analytics.event_mqtt import MqttOptions, MqttTarget, topic_name
from analytics.event_outlet import EventOutlet
from analytics.event_targets import FileTarget, WebhookTarget, open_target
from analytics.events import Counts, Event, Notice, ObjectEvent, TrackedObject
from base.errors import UsageError
from tests.support.broker import Broker, find_mosquitto, free_port

aiomqtt = pytest.importorskip("aiomqtt", reason="required: aiomqtt")
needs_broker = pytest.mark.skipif(find_mosquitto() is None, reason="required: mosquitto")

PERSON = TrackedObject("100.000-abcdef", "person", 0.81, 0.9, (10, 20, 30, 70), 100.0, 101.5)
NEW = ObjectEvent("gate", "new", None, PERSON)
LIVE = Notice("gate", "live", 100.0, "pictures arrive")
ONE_PERSON = Counts("gate", 101.5, {"person": 1})


async def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_outlet, "FIRST_DELAY_S", 0.05)
    monkeypatch.setattr(event_outlet, "LONGEST_DELAY_S", 0.2)
    monkeypatch.setattr(event_outlet, "IDLE_S", 0.2)


# -- the JSON


def test_an_object_event_has_the_fields_of_frigates_events() -> None:
    # docs.frigate.video, integrations/mqtt, frigate/events: those that do not depend on zones and snapshots.
    frigate = {
        *("id", "camera", "frame_time", "label", "top_score", "false_positive", "start_time", "end_time"),
        *("score", "box", "area", "ratio", "current_zones", "entered_zones", "has_snapshot", "has_clip"),
    }
    shown = NEW.to_json()
    assert set(shown) == {"type", "before", "after"}
    after = shown["after"]
    assert isinstance(after, dict)
    assert frigate <= set(after)
    assert (after["area"], after["ratio"], after["end_time"]) == (1000, 0.4, None)


# -- files


async def test_a_file_gets_one_line_per_event_and_is_turned_over_when_it_is_full(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    target = FileTarget(path, max_bytes=100)
    await target.open()
    for event in (LIVE, NEW, ONE_PERSON):
        await target.send(event)
    await target.close()
    old = (tmp_path / "events.jsonl.1").read_text().splitlines()
    assert [json.loads(text)["type"] for text in old] == ["notice", "new"]
    assert [json.loads(text)["type"] for text in path.read_text().splitlines()] == ["counts"]
    assert path.stat().st_mode & 0o007 == 0


def test_a_file_that_cannot_be_written_yet_gets_the_events_later(tmp_path: Path, quick: None) -> None:
    path = tmp_path / "later" / "events.jsonl"
    with EventOutlet([FileTarget(path)]) as outlet:
        outlet.offer(LIVE)
        while not outlet.stats()[0].error:
            time.sleep(0.01)
        assert "No such file" in outlet.stats()[0].error
        path.parent.mkdir()
        while not outlet.stats()[0].sent:
            time.sleep(0.01)
    assert len(path.read_text().splitlines()) == 1


# -- webhooks


@asynccontextmanager
async def receiver(answers: list[int]) -> AsyncIterator[tuple[str, list[tuple[str, Any]]]]:
    """An HTTP server that answers with the given statuses, the last one forever."""
    got: list[tuple[str, Any]] = []

    async def take(request: web.Request) -> web.Response:
        got.append((request.headers.get("Authorization", ""), await request.json()))
        return web.Response(status=answers.pop(0) if len(answers) > 1 else answers[0])

    app = web.Application()
    app.router.add_post("/hook", take)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}/hook", got
    finally:
        await runner.cleanup()


async def test_a_webhook_gets_each_event_and_again_after_a_failure_but_not_after_a_refusal(
    quick: None,
) -> None:
    async with receiver([503, 429, 200, 400, 200]) as (url, got):
        target = WebhookTarget(url, "s3cret-token")
        outlet = EventOutlet([target])
        outlet.start()
        for event in (LIVE, NEW, ONE_PERSON):
            outlet.offer(event)
        await until(lambda: outlet.stats()[0].sent == 3)
        await asyncio.to_thread(outlet.close)
    assert [body["type"] for _, body in got] == ["notice", "notice", "notice", "new", "counts"]
    assert {token for token, _ in got} == {"Bearer s3cret-token"}
    assert target.num_refused == 1


async def test_a_webhook_that_is_away_costs_the_oldest_events_and_never_the_caller(quick: None) -> None:
    outlet = EventOutlet([WebhookTarget(f"http://127.0.0.1:{free_port()}/x")], queue_events=5)
    outlet.start()
    start_s = time.monotonic()
    for _ in range(1000):
        outlet.offer(LIVE)
    assert time.monotonic() - start_s < 1.0
    await until(lambda: outlet.stats()[0].dropped >= 990)
    assert not outlet.stats()[0].connected
    await asyncio.to_thread(outlet.close, 0.2)
    assert time.monotonic() - start_s < 5.0


def test_the_address_of_a_webhook_does_not_reach_the_log(
    quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    outlet = EventOutlet(
        [WebhookTarget(f"http://127.0.0.1:{free_port()}/secret-path?key=secret", "tok-secret")]
    )
    outlet.start()
    outlet.offer(LIVE)
    while not outlet.stats()[0].error:
        time.sleep(0.01)
    outlet.close(0.1)
    assert "no answer" in caplog.text
    assert "secret" not in caplog.text + repr(outlet.stats())


# -- MQTT


@asynccontextmanager
async def listening(port: int, **login: str) -> AsyncIterator[dict[str, list[str]]]:
    """Every message that the broker gives out, by topic."""
    got: dict[str, list[str]] = {}
    ready = asyncio.Event()

    async def read() -> None:
        async with aiomqtt.Client("127.0.0.1", port, **login) as client:
            await client.subscribe("#", qos=1)
            ready.set()
            async for message in client.messages:
                got.setdefault(str(message.topic), []).append(message.payload.decode())

    task = asyncio.create_task(read())
    await ready.wait()
    try:
        yield got
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@needs_broker
async def test_a_broker_gets_frigates_topics_and_home_assistant_finds_the_entities(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        async with listening(broker.port) as got:
            outlet = EventOutlet([open_target(f"mqtt://127.0.0.1:{broker.port}/home/veil", camera="gate")])
            outlet.start()
            for event in (LIVE, NEW, ONE_PERSON):
                outlet.offer(event)
            await until(lambda: "home/veil/gate/all" in got)
            await asyncio.to_thread(outlet.close)
            await until(lambda: got["home/veil/gate/available"] == ["online", "offline"])
        assert json.loads(got["home/veil/events"][0]) == NEW.to_json()
        assert got["home/veil/gate/person"] == ["1"]
        assert got["home/veil/gate/live"] == ["ON"]
        assert json.loads(got["home/veil/gate/notice"][0])["name"] == "live"
        configs = {topic: json.loads(texts[0]) for topic, texts in got.items() if topic.endswith("/config")}
        assert set(configs) == {
            "homeassistant/binary_sensor/veilcam_gate/live/config",
            "homeassistant/binary_sensor/veilcam_gate/person/config",
            "homeassistant/sensor/veilcam_gate/person/config",
            "homeassistant/binary_sensor/veilcam_gate/all/config",
            "homeassistant/sensor/veilcam_gate/all/config",
        }
        assert len({config["unique_id"] for config in configs.values()}) == len(configs)
        for config in configs.values():  # what each entity points at is a topic that we use
            assert config["state_topic"] in got
            assert config["availability_topic"] == "home/veil/gate/available"
        # Retained: who comes later knows too.
        async with listening(broker.port) as later:
            await until(lambda: "home/veil/gate/person" in later)
            assert later["home/veil/gate/available"] == ["offline"]
            assert "home/veil/events" not in later


@needs_broker
async def test_a_broker_that_restarts_gets_the_event_that_failed_and_what_it_forgot(
    tmp_path: Path, quick: None
) -> None:
    with Broker(tmp_path) as broker:
        outlet = EventOutlet([open_target(f"mqtt://127.0.0.1:{broker.port}", camera="gate")])
        outlet.start()
        outlet.offer(LIVE)
        await until(lambda: outlet.stats()[0].sent == 1)
        broker.stop()
        await until(lambda: not outlet.stats()[0].connected)
        outlet.offer(NEW)
        broker.start()
        await until(lambda: outlet.stats()[0].sent == 2)
        async with listening(broker.port) as got:
            await until(lambda: "veilcam/gate/live" in got)
            assert got["veilcam/gate/available"][0] == "online"
        await asyncio.to_thread(outlet.close)


@needs_broker
async def test_the_broker_says_offline_when_the_camera_vanishes(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        target = MqttTarget(MqttOptions.parse(f"mqtt://127.0.0.1:{broker.port}", camera="gate"))
        await target.open()
        async with listening(broker.port) as got:
            await until(lambda: got.get("veilcam/gate/available") == ["online"])
            assert target._client is not None
            connection = target._client._client.socket()  # cut as by a power failure, without a DISCONNECT
            assert isinstance(connection, socket.socket)
            connection.shutdown(socket.SHUT_RDWR)
            await until(lambda: got["veilcam/gate/available"] == ["online", "offline"])
        await target.close()


@needs_broker
async def test_a_wrong_password_is_an_error_that_names_the_broker_and_not_the_password(
    tmp_path: Path, quick: None
) -> None:
    with Broker(tmp_path, user="camera", password="right-one") as broker:
        address = f"mqtt://camera@127.0.0.1:{broker.port}"
        outlet = EventOutlet(
            [open_target(address, token="wrong-one"), open_target(address, token="right-one")]
        )
        outlet.start()
        outlet.offer(LIVE)
        await until(lambda: bool(outlet.stats()[0].error) and outlet.stats()[1].sent == 1)
        stats = repr(outlet.stats())
        await asyncio.to_thread(outlet.close, 0.2)
    assert f"127.0.0.1:{broker.port}" in stats
    assert "wrong-one" not in stats
    assert "right-one" not in repr(MqttOptions.parse("mqtt://u:right-one@h"))


# -- addresses


@pytest.mark.parametrize(
    "address",
    ["ftp://x/y", "mqtt://", "mqtt://host/a/#", "mqtt://host:99999", "http://", "https://user:pw@host/hook"],
)
def test_addresses_that_cannot_be_meant_are_refused(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_target(address)
    assert "pw@" not in str(caught.value)


def test_an_mqtt_address_is_read() -> None:
    options = MqttOptions.parse("mqtts://me:p%40ss@broker.example/site/a", camera="north gate")
    assert (options.host, options.port, options.tls) == ("broker.example", 8883, True)
    assert (options.user, options.password, options.prefix) == ("me", "p@ss", "site/a")
    assert options.camera == "north_gate"


@given(st.text(max_size=40))
def test_any_text_becomes_one_level_of_a_topic(text: str) -> None:
    name = topic_name(text)
    assert name
    assert name.isascii()
    assert not set(name) & set("/+# ")


@given(st.text(max_size=60))
def test_any_address_is_a_target_or_a_usage_error(text: str) -> None:
    try:
        open_target(text)
    except UsageError:
        return


def test_nothing_is_started_for_no_target() -> None:
    with EventOutlet([]) as outlet:
        outlet.offer(LIVE)
    assert outlet.stats() == ()


async def test_a_redirect_is_not_followed() -> None:
    async with receiver([302]) as (url, got):
        target = WebhookTarget(url)
        event: Event = LIVE
        await target.send(event)
        await target.close()
        assert target.num_refused == 1
        assert len(got) == 1
