"""Where a worker is, what it speaks, and what it may see."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from analytics.elf.types import LOCAL
from analytics.urls import shown_url
from base.errors import UsageError

WorkerKind = Literal["veilcam", "yolox"]
SCHEMES = ("http", "https", "grpc", "grpcs")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


@dataclass(frozen=True, slots=True)
class WorkerAddress:
    """One worker of the pool.

    Attributes:
        url: ``http[s]://HOST:PORT`` or ``grpc[s]://HOST:PORT``; no user, no query.
        name: short and unique in a pool; host and port if empty.
        kind: ``veilcam`` takes JPEG tiles and gives boxes; ``yolox`` is any server of the Open Inference
            Protocol with a plain YOLOX network (Triton, KServe, MLServer, OpenVINO), which is given numbers.
        model: name of the model there.
        token: bearer token, or None.
        ca_file: certificates to trust instead of the system's.
        cert_file, key_file: what to show to a worker that asks for a certificate.
        max_share: part of a frame's area that it may see, 0 to 1.
        trusted: it may be given the low-resolution look at the whole frame (see Policy.look).

    Raises:
        UsageError: a URL that cannot be meant, a name that is not allowed, or a share that is not 0 to 1.
    """

    url: str
    name: str = ""
    kind: WorkerKind = "veilcam"
    model: str = "detector"
    token: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    max_share: float = 1.0
    trusted: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        wrong = port == -1 or parts.username is not None or parts.query or parts.fragment
        if parts.scheme not in SCHEMES or not parts.hostname or wrong:
            message = f"worker {shown_url(self.url)}: expected http[s]:// or grpc[s]://HOST:PORT"
            raise UsageError(message)
        if not self.name:
            host = re.sub(r"[^A-Za-z0-9._-]+", "-", parts.hostname).strip("-._")[:58]
            object.__setattr__(self, "name", f"{host}:{port}" if port else host)
        if not _NAME.fullmatch(self.name) or self.name == LOCAL:
            message = f"worker name {self.name[:64]!r}: expected letters, digits and . _ : -, not {LOCAL!r}"
            raise UsageError(message)
        if not 0 < self.max_share <= 1:
            message = f"worker {self.name}: expected max_share above 0, at most 1, got {self.max_share}"
            raise UsageError(message)
        if (self.cert_file is None) != (self.key_file is None):
            message = f"worker {self.name}: cert_file and key_file belong together"
            raise UsageError(message)

    @property
    def is_secure(self) -> bool:
        """TLS is used."""
        return urlsplit(self.url).scheme in {"https", "grpcs"}

    @property
    def is_grpc(self) -> bool:
        """The protocol's gRPC form; otherwise REST."""
        return urlsplit(self.url).scheme in {"grpc", "grpcs"}

    def tls(self) -> ssl.SSLContext | None:
        """What a TLS connection is checked with; None without TLS.

        Raises:
            UsageError: a certificate file that cannot be read.
        """
        if not self.is_secure:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            message = f"worker {self.name}: certificates cannot be read: {error.strerror or 'not PEM'}"
            raise UsageError(message) from error
        return context
