"""The page's files, read once at the start and served from memory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

SCRIPTS = (
    "activity.js",
    "api.js",
    "app.js",
    "boxes.js",
    "edge.js",
    "live.js",
    "player.js",
    "problems.js",
    "recordings.js",
    "tools.js",
)
FILES = {
    "/": ("index.html", "text/html"),
    "/style.css": ("style.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    **{f"/{name}": (name, "text/javascript") for name in SCRIPTS},
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One static file with its strong entity tag."""

    data: bytes
    content_type: str
    etag: str


def load_page() -> Mapping[str, PageFile]:
    """Every file of the page by its URL path."""
    return {path: _load(name, content_type) for path, (name, content_type) in FILES.items()}


def _load(name: str, content_type: str) -> PageFile:
    data = resources.files("camera").joinpath("web", name).read_bytes()
    return PageFile(data, content_type, '"' + hashlib.sha256(data).hexdigest()[:16] + '"')
