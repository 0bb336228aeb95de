"""Who may talk to the camera's HTTP server: the token, the address it listens on, origins and rates.

Two modes:

* no token: only on a loopback address. Requests must name a loopback host (a page elsewhere cannot reach us
  by DNS rebinding) and, from a browser, come from our own page (another site open in the same browser may
  not look at the camera).
* token: any address. ``Authorization: Bearer`` on everything but the page's own files and the health checks.
  A bearer token is never sent by a browser on its own, so any origin may use the API (CORS ``*``).
"""

from __future__ import annotations

from base.access import (
    TOKEN_VARIABLE,
    AccessToken,
    ListenAddress,
    RateLimiter,
    find_token,
    is_loopback_host,
)
from base.errors import UsageError

__all__ = [
    "TOKEN_VARIABLE",
    "AccessToken",
    "ListenAddress",
    "RateLimiter",
    "find_token",
    "is_loopback_host",
    "require_push_token",
    "require_safe",
]


def require_safe(listen: ListenAddress, token: AccessToken | None) -> None:
    """Refuse to be reachable from other machines without a token.

    Raises:
        UsageError: not a loopback address and no token.
    """
    if token is None and not listen.is_loopback:
        message = (
            f"listening on {listen.host} lets other machines connect, so it needs a token:"
            f" set {TOKEN_VARIABLE} or give a token file, or listen on 127.0.0.1"
        )
        raise UsageError(message)


def require_push_token(token: AccessToken | None, ingest_token: AccessToken | None) -> None:
    """Refuse to wait for publishers whom nothing would let in.

    Raises:
        UsageError: neither token is there.
    """
    if token is None and ingest_token is None:
        message = (
            f"source whip: nobody could push without a token: set {TOKEN_VARIABLE}, give a token file, or"
            " http.ingest_token_file for pushing alone"
        )
        raise UsageError(message)
