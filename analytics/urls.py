"""URLs in messages."""

from __future__ import annotations

from urllib.parse import urlsplit


def shown_url(url: str) -> str:
    """The URL without user, password, query and fragment."""
    parts = urlsplit(url)
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
