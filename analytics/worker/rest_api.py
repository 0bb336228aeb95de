"""The REST side of a worker without a server: method, path, headers and body in, an answer out.

aiohttp serves it in ``veilcam worker``, Ray Serve in a replica.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from analytics.oip import Limits, ServerMetadata, rest
from analytics.worker.engine import Engine
from analytics.worker.refusal import Refused, Why
from base.access import AccessToken, RateLimiter
from base.errors import FormatError, LimitExceeded
from base.version import __version__

JSON, BINARY = "application/json", "application/octet-stream"
SERVER = ServerMetadata("veilcam-worker", __version__, ("binary_tensor_data",))
OPEN_PATHS = frozenset({"/v2/health/live", "/v2/health/ready"})
"""Probes carry no token, and these tell nothing worth one."""
_MODEL = re.compile(r"/v2/models/([^/]{1,400})(?:/versions/([^/]{1,64}))?(/ready|/infer)?")
_LENGTH = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


class RestApi:
    """Answers the protocol's REST requests, and ``GET /metrics``."""

    def __init__(
        self, engine: Engine, token: AccessToken | None = None, limits: Limits | None = None
    ) -> None:
        """Serve ``engine`` to whoever has ``token`` (None: to everybody), within ``limits``."""
        self.engine = engine
        self.limits = limits or Limits()
        self._token = token
        self._failures = RateLimiter(0.2, 10)

    def refuse(self, method: str, path: str, headers: Mapping[str, str], peer: str) -> Reply | None:
        """What is to be said before the body is read; None to go on.

        Args:
            method: of the request.
            path: as it was sent, without query.
            headers: with names that are found whatever their case.
            peer: the address of the client.
        """
        if path not in OPEN_PATHS and (refusal := self.refuse_stranger(headers, peer)) is not None:
            return refusal
        if method not in ("GET", "HEAD", "POST"):
            return _error(405, f"{method[:16]} is not allowed here", {"Allow": "GET, HEAD, POST"})
        return self._refuse_body(headers) if method == "POST" else None

    def _refuse_body(self, headers: Mapping[str, str]) -> Reply | None:
        if headers.get("Content-Encoding", "identity").lower() != "identity":
            return _error(415, "compressed bodies are not taken: pictures are compressed already")
        length = headers.get("Content-Length", "")
        if not _LENGTH.fullmatch(length):
            return _error(411, "a body needs its Content-Length")
        if int(length) > self.limits.body_bytes:
            return _error(413, f"expected at most {self.limits.body_bytes} bytes, got {length}")
        return None

    def refuse_stranger(self, headers: Mapping[str, str], peer: str) -> Reply | None:
        """What somebody without the token is told; None for everybody else."""
        if self._token is None:
            return None
        if self._failures.level(peer) < 1:
            return _error(429, "too many wrong tokens", {"Retry-After": "10"})
        scheme, _, candidate = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._token.matches(candidate.strip()):
            return None
        self.engine.metrics.unauthorized.inc()
        if candidate:
            self._failures.allow(peer)
        said = "the token is wrong" if candidate else "a token is needed: Authorization: Bearer TOKEN"
        return _error(401, said, {"WWW-Authenticate": 'Bearer realm="veilcam-worker"'})

    async def reply(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, peer: str = ""
    ) -> Reply:
        """The answer to a request that ``refuse`` let through; never raises for what a client sent."""
        try:
            if method == "POST":
                return await self._post(path, headers, body, peer)
            return self._get(path)
        except Refused as refused:
            return _refusal(refused)
        except LimitExceeded as error:
            return _error(413, str(error))
        except FormatError as error:
            return _error(400, str(error))

    def _get(self, path: str) -> Reply:
        fixed: dict[str, Callable[[], Reply]] = {
            "/v2": lambda: _document(rest.server_metadata_document(SERVER)),
            "/v2/": lambda: _document(rest.server_metadata_document(SERVER)),
            "/v2/health/live": lambda: _health("live", self.engine.is_live),
            "/v2/health/ready": lambda: _health("ready", self.engine.is_ready),
            "/metrics": self._metrics,
        }
        if path in fixed:
            return fixed[path]()
        found = _MODEL.fullmatch(path)
        if found is None or found[3] == "/infer":
            return _error(404, "no such path")
        name = unquote(found[1])
        model = self.engine.model(name, unquote(found[2] or ""))
        if found[3] == "/ready":
            return _health("ready", self.engine.is_ready, name)
        document = rest.model_metadata_document(model.metadata())
        return _document(document | {"name": name})

    async def _post(self, path: str, headers: Mapping[str, str], body: bytes, peer: str) -> Reply:
        found = _MODEL.fullmatch(path)
        if found is None or found[3] != "/infer":
            return _error(404, "no such path")
        name, version = unquote(found[1]), unquote(found[2] or "")
        self.engine.model(name, version)
        length = headers.get(rest.HEADER_LENGTH)
        if length is not None and not _LENGTH.fullmatch(length):
            return _error(400, f"{rest.HEADER_LENGTH}: expected a number of bytes")
        self.engine.metrics.received.inc(len(body))
        json_length = None if length is None else int(length)
        request = rest.parse_infer_request(name, version, body, json_length, self.limits)
        response = await self.engine.infer(request, peer=peer)
        data, head = rest.infer_response_body(response, request)
        if head is None:
            return Reply(200, data)
        return Reply(200, data, BINARY, {rest.HEADER_LENGTH: str(head)})

    def _metrics(self) -> Reply:
        metrics = self.engine.metrics
        return Reply(200, metrics.render(), metrics.content_type)


def _document(document: Mapping[str, object]) -> Reply:
    return Reply(200, json.dumps(document).encode())


def _health(key: str, good: bool, name: str | None = None) -> Reply:
    document: dict[str, object] = {} if name is None else {"name": name}
    return Reply(200 if good else 503, json.dumps(document | {key: good}).encode())


def _error(status: int, message: str, headers: Mapping[str, str] | None = None, code: str = "") -> Reply:
    document = rest.error_document(message) | ({"code": code} if code else {})
    return Reply(status, json.dumps(document).encode(), headers=headers or {})


def _refusal(refused: Refused) -> Reply:
    headers = {}
    if refused.retry_after_s is not None:
        headers["Retry-After"] = str(math.ceil(refused.retry_after_s))  # RFC 9110: whole seconds
    return _error(refused.why.http_status, str(refused), headers, refused.why.code)


def too_busy() -> Reply:
    """For a server that cannot take another body at the moment."""
    return _refusal(Refused(Why.BUSY, "too many requests are on their way in", 1.0))
