"""What ``veilcam worker`` is told."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from analytics.oip import Limits
from analytics.worker.engine import DETECTOR, EngineOptions
from analytics.worker.grpc_server import GrpcTls
from base.access import AccessToken, ListenAddress
from base.errors import UsageError
from base.files import read_bounded

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_PEM_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Served:
    """One model to serve: ``[NAME=]SPEC`` of a detector, or ``NAME=PATH`` of an ONNX file."""

    name: str
    spec: str

    @classmethod
    def detector(cls, text: str) -> Served:
        """Read ``NAME=SPEC``, or ``SPEC``, whose name is made of it (``yolox-nano``, a file's stem, ...).

        Raises:
            UsageError: a name that is not allowed.
        """
        name, separator, spec = text.partition("=")
        if not separator:
            kind, _, argument = text.partition(":")
            name = Path(argument).stem if argument else {"yolox": "yolox-nano"}.get(kind, kind)
            spec = text
            name = re.sub(r"[^A-Za-z0-9._-]", "-", name)
        return cls(_checked(name), spec)

    @classmethod
    def model(cls, text: str) -> Served:
        """Read ``NAME=PATH`` or ``PATH``, whose name is the file's without its ending.

        Raises:
            UsageError: a name that is not allowed.
        """
        name, separator, path = text.partition("=")
        return cls(_checked(name), path) if separator else cls(_checked(Path(text).stem), text)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name) or name == DETECTOR:
        message = (
            f"model name: expected letters, digits, '.', '_', '-', and not 'detector', got {name[:64]!r}"
        )
        raise UsageError(message)
    return name


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of a server.

    Attributes:
        cert: its certificate, with intermediate ones behind it.
        key: its private key, without a passphrase.
        client_ca: who signs clients' certificates; given, a client must show one.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """For HTTP.

        Raises:
            UsageError: a file cannot be read, or does not hold what it should.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self.cert, self.key, password=_no_passphrase)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:  # ssl.SSLError is one
            reason = error.strerror or str(error)
            files = ", ".join(str(p) for p in (self.cert, self.key, self.client_ca) if p is not None)
            message = f"TLS: expected PEM files of a certificate and its key, got {files}: {reason[:100]}"
            raise UsageError(message) from error
        return context

    def grpc(self) -> GrpcTls:
        """For gRPC; ``context`` has found the files in order.

        Raises:
            UsageError: a file cannot be read.
        """
        try:
            chain, key = read_bounded(self.cert, _MAX_PEM_BYTES), read_bounded(self.key, _MAX_PEM_BYTES)
            ca = None if self.client_ca is None else read_bounded(self.client_ca, _MAX_PEM_BYTES)
        except OSError as error:
            message = f"TLS: {error.filename}: {error.strerror}"
            raise UsageError(message) from error
        return GrpcTls(chain, key, ca)


def _no_passphrase() -> str:
    raise UsageError("TLS: expected a private key without a passphrase")


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Of one worker.

    Attributes:
        listen: for REST and metrics.
        grpc: for gRPC, if it is wanted.
        detectors: the first is also served as ``detector``.
        models: ONNX files, served as they are.
        token: who has it may ask; None: everybody.
        tls: files; None: no TLS.
        insecure: listen beyond this machine although neither token nor client certificates are asked for.
        engine: limits of the queue.
        limits: of messages.
        threads: of the run-time, for one inference.
        max_side: larger pictures are scaled down for the network; None: 4096.
        min_score: the weakest detection that a request can ask for.
        drain_s: how long waiting work may take when the worker is told to end.
    """

    listen: ListenAddress = field(default_factory=lambda: ListenAddress("127.0.0.1", 8500))
    grpc: ListenAddress | None = None
    detectors: tuple[Served, ...] = ()
    models: tuple[Served, ...] = ()
    token: AccessToken | None = None
    tls: TlsFiles | None = None
    insecure: bool = False
    engine: EngineOptions = field(default_factory=EngineOptions)
    limits: Limits = field(default_factory=lambda: Limits(body_bytes=32 << 20))
    threads: int = 1
    max_side: int | None = None
    min_score: float = 0.05
    drain_s: float = 10.0

    def check(self) -> None:
        """Refuse what nobody should run.

        Raises:
            UsageError: no model, two of one name, or open to strangers without being told so.
        """
        names = [served.name for served in (*self.detectors, *self.models)]
        if not names:
            raise UsageError("worker: expected at least one --detector or --model")
        if len(set(names)) != len(names):
            message = f"worker: expected models of different names, got {', '.join(names)}"
            raise UsageError(message)
        guarded = self.token is not None or (self.tls is not None and self.tls.client_ca is not None)
        for address in (self.listen, self.grpc):
            if address is not None and not address.is_loopback and not guarded and not self.insecure:
                message = (
                    f"listening on {address.host} lets other machines connect, so it needs --token-file or"
                    " --tls-client-ca (mutual TLS); --insecure does without, where every machine is trusted"
                )
                raise UsageError(message)
