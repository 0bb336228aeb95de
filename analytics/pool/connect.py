"""From a worker's address to its connection."""

from __future__ import annotations

from analytics.pool.address import WorkerAddress
from analytics.pool.channel import Channel
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
    channel = _channel(address)
    if address.kind == "yolox":
        return YoloxTransport(channel, address.model)
    return JpegTransport(channel, address.model)


def _channel(address: WorkerAddress) -> Channel:
    if address.is_grpc:
        from analytics.pool.grpc_channel import GrpcChannel  # noqa: PLC0415  # grpc is an extra

        return GrpcChannel.open(address)
    return RestChannel(address.url, token=address.token, tls=address.tls())
