"""From a worker's address to its connection."""

from __future__ import annotations

from analytics.oip.messages import Limits
from analytics.pool.address import WorkerAddress
from analytics.pool.channel import BOX_LIMITS, HEAD_LIMITS, Channel
from analytics.pool.jpeg_transport import JpegTransport
from analytics.pool.rest_channel import RestChannel
from analytics.pool.transport import Transport
from analytics.pool.yolox_transport import YoloxTransport


def open_transport(address: WorkerAddress) -> Transport:
    """The connection for ``address``; nothing is sent yet.

    Raises:
        UsageError: a certificate file that cannot be read.
        MissingDependency: gRPC without the extra ``worker``.
    """
    if address.kind == "yolox":
        return YoloxTransport(_channel(address, HEAD_LIMITS), address.model)
    return JpegTransport(_channel(address, BOX_LIMITS), address.model)


def _channel(address: WorkerAddress, limits: Limits) -> Channel:
    if address.is_grpc:
        from analytics.pool.grpc_channel import GrpcChannel  # noqa: PLC0415  # grpc is an extra

        return GrpcChannel.open(address, limits)
    return RestChannel(address.url, token=address.token, tls=address.tls(), limits=limits)
