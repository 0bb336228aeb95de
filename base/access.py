"""What every server of ours needs to know who may talk to it: tokens, addresses, rates."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from base.errors import UsageError
from base.files import read_bounded

TOKEN_VARIABLE = "VEILCAM_TOKEN"  # noqa: S105  (the variable's name)
MIN_TOKEN_CHARS = 16
MAX_TOKEN_BYTES = 1024


class AccessToken:
    """A shared secret that can only be compared. Keeps a digest, not the token."""

    __slots__ = ("_digest",)

    def __init__(self, token: str) -> None:
        """Take a token.

        Raises:
            UsageError: shorter than 16 characters, or not printable ASCII without spaces.
        """
        if len(token) < MIN_TOKEN_CHARS:
            message = f"token: expected at least {MIN_TOKEN_CHARS} characters, got {len(token)}"
            raise UsageError(message)
        if not token.isascii() or not token.isprintable() or " " in token:
            message = "token: expected printable ASCII characters without spaces"
            raise UsageError(message)
        self._digest = _digest(token)

    def matches(self, candidate: str) -> bool:
        """Whether ``candidate`` is the token, in time that does not depend on where they differ."""
        return hmac.compare_digest(self._digest, _digest(candidate))

    def __repr__(self) -> str:
        return "AccessToken(...)"

    def __reduce__(self) -> NoReturn:
        message = "an access token is not pickled"
        raise TypeError(message)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def find_token(path: Path | None, environment: Mapping[str, str]) -> AccessToken | None:
    """The token from a file, else from ``VEILCAM_TOKEN``, else None.

    Raises:
        UsageError: the file cannot be read, or the token is too weak.
        LimitExceeded: the file is longer than 1 KiB.
    """
    if path is not None:
        try:
            return AccessToken(read_bounded(path, MAX_TOKEN_BYTES).decode("utf-8", "replace").strip())
        except OSError as error:
            message = f"token file {path}: {error.strerror}"
            raise UsageError(message) from error
    token = environment.get(TOKEN_VARIABLE, "").strip()
    return AccessToken(token) if token else None


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where the server listens. ``host`` is an address or a name, ``port`` 0 means any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, default_port: int = 8080) -> ListenAddress:
        """Read ``HOST:PORT``, ``[IPV6]:PORT``, ``HOST`` or ``:PORT``; loopback when the host is left out.

        Raises:
            UsageError: anything else.
        """
        host, separator, port = text.rpartition(":")
        if not separator or text.endswith("]"):
            host, port = text, str(default_port)
        if not port.isascii() or not port.isdigit() or int(port) > 65535:
            message = f"listen address: expected HOST:PORT, got {text!r}"
            raise UsageError(message)
        return cls(host.strip("[]") or "127.0.0.1", int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback_host(self.host)

    def netloc(self, port: int | None = None) -> str:
        """``HOST:PORT`` as URLs have it; ``port`` replaces 0 once the socket is bound."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{port or self.port}"

    def url(self, port: int | None = None) -> str:
        """Base URL; ``port`` replaces 0 once the socket is bound."""
        return f"http://{self.netloc(port)}"


def is_loopback_host(host: str) -> bool:
    """Whether a name or address means this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class RateLimiter:
    """A token bucket per client; remembers at most ``max_clients``, forgetting the least recent."""

    def __init__(
        self,
        rate_per_s: float,
        burst: int,
        *,
        max_clients: int = 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate_per_s = rate_per_s
        self._burst = float(burst)
        self._max_clients = max_clients
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def level(self, client: str) -> float:
        """How many requests the client may make at once, at this moment."""
        now_s = self._clock()
        level, seen_s = self._buckets.get(client, (self._burst, now_s))
        return min(self._burst, level + (now_s - seen_s) * self._rate_per_s)

    def allow(self, client: str) -> bool:
        """Take one request from the client's bucket; False when it is empty."""
        level = self.level(client)
        allowed = level >= 1.0
        self._buckets[client] = (level - 1.0 if allowed else level, self._clock())
        self._buckets.move_to_end(client)
        while len(self._buckets) > self._max_clients:
            self._buckets.popitem(last=False)
        return allowed
