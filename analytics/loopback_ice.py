"""Lets WebRTC work on a machine that has no network at all.

aioice offers every address but 127.0.0.1 and ::1, so without an interface that is up (a laptop offline, a
sealed container) it offers nothing and no connection to the same machine can come up. Where it would find
nothing, it is given the loopback address instead. Everything else stays as it was.
"""

from __future__ import annotations

from aioice import ice

LOOPBACK = "127.0.0.1"

_find_addresses = ice.get_host_addresses


def _addresses_or_loopback(use_ipv4: bool, use_ipv6: bool) -> list[str]:
    return _find_addresses(use_ipv4, use_ipv6) or [LOOPBACK]


def allow_loopback() -> None:
    """Offer the loopback address where there is no other; for this process, harmless when repeated."""
    ice.get_host_addresses = _addresses_or_loopback
