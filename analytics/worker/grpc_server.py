"""The gRPC side of a worker. Needs the extra ``worker``."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from analytics.oip import grpc_form
from analytics.oip.protobuf import METHODS, SERVICE, message_classes, quiet_grpc
from analytics.worker.refusal import Refused, Why
from analytics.worker.rest_api import SERVER, RestApi
from base.access import ListenAddress
from base.errors import FormatError, LimitExceeded, Malformed, MissingDependency, PeerError

MAX_CONCURRENT = 64
MAX_METADATA_BYTES = 8192
MESSAGE_S = 20.0
"""For the message of a call, from its begin."""
MAX_CONNECTIONS = 128
IDLE_MS = 30_000
"""A connection without a call is closed after it; clients of gRPC open another one by themselves."""
_HANDSHAKE_MS = 10_000


@dataclass(frozen=True, slots=True)
class GrpcTls:
    """PEM texts of a server: its certificates, its key, and who may sign clients' certificates."""

    chain: bytes
    key: bytes
    client_ca: bytes | None = None

    def __repr__(self) -> str:
        return "GrpcTls(...)"


class WorkerGrpc:
    """Serves the engine, token and limits of a RestApi over gRPC until closed."""

    def __init__(self, api: RestApi, listen: ListenAddress, tls: GrpcTls | None = None) -> None:
        """Prepare; nothing is bound yet.

        Raises:
            MissingDependency: grpcio is not installed.
        """
        quiet_grpc()
        try:
            import grpc  # noqa: PLC0415  # an extra
        except ImportError as error:
            message = "gRPC needs the extra 'worker': pip install 'veilcam[worker]'"
            raise MissingDependency(message) from error
        message_classes()
        self._grpc = grpc
        self._api = api
        self._engine = api.engine
        self._listen = listen
        self._tls = tls
        self._port = listen.port
        self._server: Any = None

    @property
    def address(self) -> str:
        """``HOST:PORT``, with the real port once started."""
        return self._listen.netloc(self._port)

    async def start(self) -> None:
        """Bind and serve.

        Raises:
            PeerError: the address cannot be bound.
        """
        grpc = self._grpc
        handlers = {
            # On the wire a stream of one message is a call with one; but its handler runs before the message
            # is read, so strangers are turned away first.
            name: grpc.stream_unary_rpc_method_handler(self._guarded(name, getattr(self, f"_{name}")))
            for name in METHODS
        }
        self._server = grpc.aio.server(
            handlers=[grpc.method_handlers_generic_handler(SERVICE, handlers)],
            options=self._options(),
            maximum_concurrent_rpcs=MAX_CONCURRENT,
        )
        address = self._listen.netloc()
        try:
            if self._tls is None:
                self._port = self._server.add_insecure_port(address)
            else:
                self._port = self._server.add_secure_port(address, self._credentials(self._tls))
        except RuntimeError as error:
            message = f"cannot listen on {address} for gRPC: is the port in use?"
            raise PeerError(message) from error
        await self._server.start()

    async def close(self) -> None:
        """Stop serving; open requests have a second to end."""
        if self._server is not None:
            await self._server.stop(1.0)
            self._server = None

    def _options(self) -> Sequence[tuple[str, int]]:
        return (
            ("grpc.max_receive_message_length", self._api.limits.body_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_metadata_size", MAX_METADATA_BYTES),
            ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
            ("grpc.max_concurrent_streams", MAX_CONCURRENT),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
            ("grpc.max_allowed_incoming_connections", MAX_CONNECTIONS),
            ("grpc.max_connection_idle_ms", IDLE_MS),
            ("grpc.http2.min_ping_interval_without_data_ms", 5000),
            ("grpc.so_reuseport", 0),  # two workers on one port would share its callers
        )

    def _credentials(self, tls: GrpcTls) -> Any:  # noqa: ANN401  # grpcio has no types
        return self._grpc.ssl_server_credentials(
            [(tls.key, tls.chain)],
            root_certificates=tls.client_ca,
            require_client_auth=tls.client_ca is not None,
        )

    def _guarded(
        self, name: str, method: Callable[[Any, float | None, str], Awaitable[Any]]
    ) -> Callable[[AsyncIterator[bytes], Any], Awaitable[bytes]]:
        async def handle(messages: AsyncIterator[bytes], context: Any) -> bytes:  # noqa: ANN401
            peer = _address(context.peer())
            await self._check(name, context, peer)
            try:
                data = await _only(messages)
                message = grpc_form.parse(METHODS[name][0], data)
                found = await method(message, context.time_remaining(), peer)
            except Refused as refused:
                await self._abort(context, refused)
            except LimitExceeded as error:
                await self._abort(context, Refused(Why.TOO_LARGE, str(error)))
            except FormatError as error:
                await self._abort(context, Refused(Why.INVALID, str(error)))
            reply: bytes = found.SerializeToString()
            return reply

        return handle

    async def _check(self, name: str, context: Any, peer: str) -> None:  # noqa: ANN401
        if name in ("ServerLive", "ServerReady"):
            return
        headers = {
            key.title(): value
            for key, value in context.invocation_metadata() or ()
            if key == "authorization" and isinstance(value, str)
        }
        refusal = self._api.refuse_stranger(headers, peer)
        if refusal is not None:
            code = "RESOURCE_EXHAUSTED" if refusal.status == 429 else "UNAUTHENTICATED"
            said = "too many wrong tokens" if refusal.status == 429 else "the token is missing or wrong"
            await context.abort(getattr(self._grpc.StatusCode, code), said)

    async def _abort(self, context: Any, refused: Refused) -> None:  # noqa: ANN401
        trailers: tuple[tuple[str, str], ...] = (("veilcam-code", refused.why.code),)
        if refused.retry_after_s is not None:  # gRFC A6: what a client that retries waits for
            trailers += (("grpc-retry-pushback-ms", str(math.ceil(refused.retry_after_s * 1000))),)
        await context.abort(getattr(self._grpc.StatusCode, refused.why.grpc_status), str(refused), trailers)

    async def _ServerLive(self, *_: object) -> Any:  # noqa: ANN401, N802  # the protocol's names
        return message_classes()["ServerLiveResponse"](live=self._engine.is_live)

    async def _ServerReady(self, *_: object) -> Any:  # noqa: ANN401, N802
        return message_classes()["ServerReadyResponse"](ready=self._engine.is_ready)

    async def _ServerMetadata(self, *_: object) -> Any:  # noqa: ANN401, N802
        return grpc_form.server_metadata_message(SERVER)

    async def _ModelReady(self, message: Any, *_: object) -> Any:  # noqa: ANN401, N802
        self._engine.model(message.name, message.version)
        return message_classes()["ModelReadyResponse"](ready=self._engine.is_ready)

    async def _ModelMetadata(self, message: Any, *_: object) -> Any:  # noqa: ANN401, N802
        metadata = self._engine.model(message.name, message.version).metadata()
        found = grpc_form.model_metadata_message(metadata)
        found.name = message.name
        return found

    async def _ModelInfer(self, message: Any, timeout_s: float | None, peer: str) -> Any:  # noqa: ANN401, N802
        self._engine.model(message.model_name, message.model_version)
        self._engine.metrics.received.inc(message.ByteSize())
        request = grpc_form.infer_request(message, self._api.limits)
        return grpc_form.infer_response_message(await self._engine.infer(request, timeout_s, peer))


def _address(peer: str) -> str:
    """``ipv4:10.0.0.7:5000`` and ``ipv6:%5B::1%5D:5000`` as REST has them: a client is one in both forms."""
    return unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]")


async def _only(messages: AsyncIterator[bytes]) -> bytes:
    """The one message of a call.

    Raises:
        Malformed: none, more than one, or not within MESSAGE_S.
    """
    try:
        async with asyncio.timeout(MESSAGE_S):
            found = [data async for data in _first_two(messages)]
    except TimeoutError:
        message = f"the message took more than {MESSAGE_S:g} s"
        raise Malformed(message) from None
    if len(found) != 1:
        message = f"expected one message, got {'several' if found else 'none'}"
        raise Malformed(message)
    return found[0]


async def _first_two(messages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    count = 0
    async for data in messages:
        yield data
        count += 1
        if count == 2:
            return
