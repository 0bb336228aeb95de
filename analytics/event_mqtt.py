"""Events over MQTT, in the topics that Home Assistant and what was written for Frigate look at.

    PREFIX/CAMERA/available   online | offline, retained; the broker says offline when we vanish (last will)
    PREFIX/CAMERA/live        ON | OFF, retained: whether there is a picture
    PREFIX/CAMERA/notice      JSON of the last notice
    PREFIX/CAMERA/LABEL       number of objects of that label in view, retained; also for ``all``
    PREFIX/events             JSON {type: new | update | end, before, after}

Home Assistant finds the entities by itself (MQTT discovery): retained messages under ``homeassistant/``.
"""

from __future__ import annotations

import json
import re
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from analytics.events import Counts, Event, Notice, ObjectEvent
from base.errors import MissingDependency, PeerError, UsageError
from base.version import __version__

if TYPE_CHECKING:
    import aiomqtt

PORTS = {"mqtt": 1883, "mqtts": 8883}
ANSWER_S = 10.0
MAX_LABELS = 200  # topics of one camera; COCO has 80 classes
_NAME = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class MqttOptions:
    """One broker.

    Attributes:
        host: name or address.
        port: 1883, with TLS 8883.
        tls: verified against the system's authorities.
        user: may be empty.
        password: may be empty.
        prefix: first part of all topics.
        camera: second part.
        discovery: Home Assistant's prefix; "" to send none.
    """

    host: str
    port: int = 1883
    tls: bool = False
    user: str = ""
    password: str = field(default="", repr=False)
    prefix: str = "veilcam"
    camera: str = "camera"
    discovery: str = "homeassistant"

    @classmethod
    def parse(
        cls,
        address: str,
        *,
        camera: str = "camera",
        password: str | None = None,
        discovery: str = "homeassistant",
    ) -> MqttOptions:
        """Read ``mqtt[s]://[USER[:PASSWORD]@]HOST[:PORT][/PREFIX]``.

        Raises:
            UsageError: anything else, or a prefix that is no topic name.
        """
        try:
            parts = urlsplit(address)
            port = parts.port or PORTS[parts.scheme]
        except (ValueError, KeyError) as error:
            message = "MQTT: expected mqtt[s]://[USER[:PASSWORD]@]HOST[:PORT][/PREFIX]"
            raise UsageError(message) from error
        prefix = unquote(parts.path).strip("/") or "veilcam"
        if not parts.hostname or parts.query or "#" in address or any(c in prefix for c in "+#\0"):
            message = "MQTT: expected mqtt[s]://[USER[:PASSWORD]@]HOST[:PORT][/PREFIX], without + and #"
            raise UsageError(message)
        return cls(
            host=parts.hostname,
            port=port,
            tls=parts.scheme == "mqtts",
            user=unquote(parts.username or ""),
            password=unquote(parts.password or "") or password or "",
            prefix=prefix,
            camera=topic_name(camera),
            discovery=discovery,
        )


def topic_name(text: str) -> str:
    """The text as one level of a topic: no slash, wildcard or space."""
    return _NAME.sub("_", text).strip("_") or "_"


class MqttTarget:
    """One connection to a broker; every message with quality of service 1 (at least once)."""

    def __init__(self, options: MqttOptions) -> None:
        """Prepare; nothing is connected yet.

        Raises:
            MissingDependency: aiomqtt is not installed.
        """
        try:
            import aiomqtt  # noqa: PLC0415  # an extra
        except ImportError as error:
            message = "events over MQTT need aiomqtt: pip install 'veilcam[mqtt]'"
            raise MissingDependency(message) from error
        self._aiomqtt = aiomqtt
        self._options = options
        self.name = f"mqtt://{options.host}:{options.port}"
        self._base = f"{options.prefix}/{options.camera}"
        self._client: aiomqtt.Client | None = None
        self._labels: set[str] = set()
        self._retained: dict[str, bytes] = {}

    async def open(self) -> None:
        """Connect and say that we are there.

        Raises:
            PeerError: the broker does not answer or refuses.
        """
        options = self._options
        client = self._aiomqtt.Client(
            options.host,
            options.port,
            username=options.user or None,
            password=options.password or None,
            will=self._aiomqtt.Will(f"{self._base}/available", b"offline", qos=1, retain=True),
            tls_context=ssl.create_default_context() if options.tls else None,
            timeout=ANSWER_S,
        )
        try:
            await client.__aenter__()
        except (self._aiomqtt.MqttError, OSError) as error:
            raise self._failed(error) from error
        self._client = client
        for topic, payload in list(self._retained.items()):  # a broker that was restarted may have lost them
            await self._publish(topic, payload.decode(), retain=True)
        await self._publish(f"{self._base}/available", "online", retain=True)
        await self._discover("binary_sensor", "live", _live_entity(self._base))

    async def send(self, event: Event) -> None:
        """Publish one event.

        Raises:
            PeerError: the broker is away.
        """
        if isinstance(event, ObjectEvent):
            await self._publish(f"{self._options.prefix}/events", event.to_json())
        elif isinstance(event, Counts):
            await self._send_counts(event)
        else:
            await self._send_notice(event)

    async def idle(self) -> None:
        """Say again that we are there: a broker that has gone is noticed by this.

        Raises:
            PeerError: it has.
        """
        await self._publish(f"{self._base}/available", "online", retain=True)

    async def close(self) -> None:
        """Say that we go (a will is for accidents only), and disconnect."""
        client, self._client = self._client, None
        if client is None:
            return
        try:
            await client.publish(f"{self._base}/available", b"offline", qos=1, retain=True)
            await client.__aexit__(None, None, None)
        except (self._aiomqtt.MqttError, OSError):
            return  # it was gone already: the broker publishes the will

    async def _send_counts(self, counts: Counts) -> None:
        for label, number in [*counts.by_label.items(), ("all", sum(counts.by_label.values()))]:
            name = topic_name(label)
            if name not in self._labels:
                if len(self._labels) >= MAX_LABELS:
                    continue
                self._labels.add(name)
                for kind, entity in _label_entities(self._base, name):
                    await self._discover(kind, name, entity)
            await self._publish(f"{self._base}/{name}", str(number), retain=True)

    async def _send_notice(self, notice: Notice) -> None:
        if notice.name in ("live", "not-live"):
            await self._publish(f"{self._base}/live", "ON" if notice.name == "live" else "OFF", retain=True)
        await self._publish(f"{self._base}/notice", notice.to_json())

    async def _discover(self, kind: str, name: str, entity: dict[str, object]) -> None:
        """Home Assistant's MQTT discovery: ``homeassistant/KIND/NODE/OBJECT/config``."""
        if not self._options.discovery:
            return
        node = f"veilcam_{self._options.camera}"
        config = {
            "unique_id": f"{node}_{name}_{kind}",
            "availability_topic": f"{self._base}/available",
            "device": {
                "identifiers": [node],
                "name": self._options.camera,
                "manufacturer": "veilcam",
                "model": "protected camera",
                "sw_version": __version__,
            },
            "origin": {"name": "veilcam", "sw_version": __version__},
            **entity,
        }
        await self._publish(f"{self._options.discovery}/{kind}/{node}/{name}/config", config, retain=True)

    async def _publish(self, topic: str, payload: str | dict[str, object], *, retain: bool = False) -> None:
        data = (payload if isinstance(payload, str) else json.dumps(payload, allow_nan=False)).encode()
        if retain:
            self._retained[topic] = data
        if self._client is None:
            message = f"{self.name}: not connected"
            raise PeerError(message)
        try:
            await self._client.publish(topic, data, qos=1, retain=retain)
        except (self._aiomqtt.MqttError, OSError) as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> PeerError:
        return PeerError(f"{self.name}: {error}")


def _live_entity(base: str) -> dict[str, object]:
    return {"name": "Live", "device_class": "connectivity", "state_topic": f"{base}/live"}


def _label_entities(base: str, name: str) -> list[tuple[str, dict[str, object]]]:
    topic = f"{base}/{name}"
    words = "Objects" if name == "all" else name.replace("_", " ").capitalize()
    occupied: dict[str, object] = {
        "name": f"{words} occupancy",
        "device_class": "occupancy",
        "state_topic": topic,
        "value_template": "{{ 'ON' if value | int(0) > 0 else 'OFF' }}",
    }
    counted: dict[str, object] = {"name": f"{words} count", "state_topic": topic}
    counted["state_class"] = "measurement"
    return [("binary_sensor", occupied), ("sensor", counted)]
