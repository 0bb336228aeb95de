"""Errors over HTTP as RFC 9457 problem details: what went wrong and what the reader can do about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web

CONTENT_TYPE = "application/problem+json"


def problem(
    status: int, detail: str, *, hint: str = "", code: str = "", headers: Mapping[str, str] | None = None
) -> web.Response:
    """A problem response.

    Args:
        status: HTTP status, 4xx or 5xx.
        detail: what happened, one sentence; never a secret.
        hint: what to do about it.
        code: a stable word for programs (``no-h264``, ``not-live``, ...).
        headers: further response headers.
    """
    body = {"title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    if hint:
        body["hint"] = hint
    if code:
        body["code"] = code
    return web.Response(
        status=status,
        body=json.dumps(body).encode(),
        content_type=CONTENT_TYPE,
        headers={"Cache-Control": "no-store", **(headers or {})},
    )
