"""The protocol over gRPC. Needs the extra ``worker``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from analytics.oip import grpc_form
from analytics.oip.messages import InferRequest, InferResponse, Limits, ModelMetadata
from analytics.oip.protobuf import METHODS, SERVICE, message_classes, quiet_grpc
from analytics.pool.address import WorkerAddress
from analytics.pool.channel import BOX_LIMITS, reading
from analytics.pool.transport import Overloaded
from base.errors import MissingDependency, PeerError, UsageError

DEFAULT_PORT = 8001  # as Triton has it
_OPTIONS = (
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
)
_BUSY = frozenset({"RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"})


class GrpcChannel:
    """See Channel. Connects at the first call."""

    def __init__(self, channel: Any, token: str | None, limits: Limits) -> None:  # noqa: ANN401  # grpc has no types
        """Use ``open``."""
        self._limits = limits
        self._channel = channel
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        classes = message_classes()
        self._calls = {
            method: channel.unary_unary(
                f"/{SERVICE}/{method}",
                request_serializer=classes[request].SerializeToString,
                response_deserializer=bytes,  # parsed here, where an error is ours
            )
            for method, (request, _) in METHODS.items()
        }

    @classmethod
    def open(cls, address: WorkerAddress, limits: Limits = BOX_LIMITS) -> Self:
        """Prepare; nothing is connected yet. gRPC channels belong to the running event loop.

        Args:
            address: of the worker.
            limits: of its answers.

        Raises:
            MissingDependency: grpcio (extra ``worker``) is not installed.
            UsageError: a certificate file that cannot be read.
        """
        quiet_grpc()
        try:
            import grpc.aio  # noqa: PLC0415  # an extra
        except ImportError as error:
            message = "gRPC needs the extra 'worker': pip install 'veilcam[worker]'"
            raise MissingDependency(message) from error
        parts = urlsplit(address.url)
        host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
        target = f"{host}:{parts.port or DEFAULT_PORT}"
        options = (*_OPTIONS, ("grpc.max_receive_message_length", limits.body_bytes))
        if not address.is_secure:
            return cls(grpc.aio.insecure_channel(target, options=options), address.token, limits)
        credentials = grpc.ssl_channel_credentials(
            _bytes(address.ca_file), _bytes(address.key_file), _bytes(address.cert_file)
        )
        return cls(grpc.aio.secure_channel(target, credentials, options=options), address.token, limits)

    async def is_ready(self) -> bool:
        """See Channel."""
        answer = await self._call("ServerReady", message_classes()["ServerReadyRequest"]())
        return bool(answer.ready)

    async def metadata(self, model: str) -> ModelMetadata:
        """See Channel."""
        request = message_classes()["ModelMetadataRequest"](name=model)
        answer = await self._call("ModelMetadata", request)
        with reading():
            return grpc_form.model_metadata(answer, self._limits)

    async def infer(self, request: InferRequest) -> InferResponse:
        """See Channel."""
        message = grpc_form.infer_request_message(request)
        answer = await self._call("ModelInfer", message)
        with reading():
            return grpc_form.infer_response(answer, self._limits)

    async def close(self) -> None:
        """See Channel."""
        await self._channel.close()

    async def _call(self, method: str, request: Any) -> Any:  # noqa: ANN401
        import grpc  # noqa: PLC0415  # an extra

        try:
            data = await self._calls[method](request, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            code = error.code().name
            if code in _BUSY:
                message = f"has no time now: gRPC status {code}"
                raise Overloaded(message) from error
            message = f"{_reason(code, error.details() or '')}: gRPC status {code}"
            raise PeerError(message) from error
        return grpc_form.parse(METHODS[method][1], data)


def _reason(code: str, details: str) -> str:
    """For people; of the details, which the worker may have written, only what is known is said."""
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return "cannot be reached: its certificate is not trusted"
    if "Connection refused" in details:
        return "cannot be reached: Connection refused"
    known = {
        "UNAUTHENTICATED": "refuses our token",
        "PERMISSION_DENIED": "refuses us",
        "NOT_FOUND": "does not have the model",
    }
    return known.get(code, "cannot be reached or failed")


def _bytes(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"{path}: {error.strerror}"
        raise UsageError(message) from error
