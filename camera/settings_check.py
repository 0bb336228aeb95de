"""Looking at settings without running a camera: what is wrong with them, what they are, their JSON Schema."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from analytics.urls import shown_url
from base.errors import VeilError
from camera.access import ListenAddress, find_token, require_push_token, require_safe
from camera.settings import CameraSettings
from camera.sources import open_source
from camera.sources.uri import SourceKind

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """JSON Schema of the settings file, for editors and other validators."""
    return {
        "$schema": SCHEMA_ID,
        "title": "veilcam camera",
        **CameraSettings.model_json_schema(),
    }


def shown(settings: CameraSettings) -> dict[str, Any]:
    """Every setting with its value, defaults too, and no secret: URLs without user, password and query."""
    return _shown_section(settings)


def find_problems(settings: CameraSettings, environment: Mapping[str, str]) -> list[str]:
    """What would keep a camera with these settings from starting, as far as it can be seen without keys.

    Args:
        settings: as loaded.
        environment: where the token may be.
    """
    problems: list[str] = []
    _look_at_files(settings, problems)

    def attempt(key: str, action: Callable[[], object]) -> None:
        try:
            action()
        except VeilError as error:
            problems.append(f"{key}: {error}")

    attempt("source", lambda: open_source(settings.source))
    attempt("http", lambda: _check_http(settings, environment))
    attempt("events", settings.event_targets)
    attempt("rtsp", settings.rtsp.options)
    attempt("workers", lambda: settings.workers.options(settings.name))
    for number, target in enumerate(settings.publish):
        attempt(f"publish.{number}", target.target)
    for number, server in enumerate(settings.http.ice_servers):
        attempt(f"http.ice_servers.{number}", server.server)
    return problems


def _look_at_files(settings: CameraSettings, problems: list[str]) -> None:
    for key, path in (
        ("camera", settings.camera),
        *((f"recipients.{number}", path) for number, path in enumerate(settings.recipients)),
    ):
        if not path.is_file():
            problems.append(f"{key}: no such file: {path}")
        elif not os.access(path, os.R_OK):
            problems.append(f"{key}: not readable: {path}")
    folder = settings.record.folder
    if folder is not None and not _can_be_made(folder):
        problems.append(f"record.folder: cannot be written: {folder}")


def _can_be_made(folder: Path) -> bool:
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _check_http(settings: CameraSettings, environment: Mapping[str, str]) -> None:
    token = find_token(settings.http.token_file, environment)
    require_safe(ListenAddress.parse(settings.http.listen), token)
    ingest_file = settings.http.ingest_token_file
    ingest_token = None if ingest_file is None else find_token(ingest_file, {})
    if settings.source.partition(":")[0] == SourceKind.PUSHED.value:
        require_push_token(token, ingest_token)


def _shown_section(section: BaseModel) -> dict[str, Any]:
    shown_values = {
        name: _shown_value(getattr(section, name), secret=not field.repr)
        for name, field in type(section).model_fields.items()
    }
    if shown_values.get("webhook"):  # some receivers have their secret in the path
        parts = urlsplit(str(shown_values["webhook"]))
        shown_values["webhook"] = f"{parts.scheme}://{parts.netloc}/***"
    return shown_values


def _shown_value(value: Any, *, secret: bool) -> Any:  # noqa: ANN401
    if isinstance(value, BaseModel):
        return _shown_section(value)
    if isinstance(value, tuple | list):
        return [_shown_value(inner, secret=secret) for inner in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):  # options of the source may be passwords
        return dict.fromkeys(value, "***")
    if isinstance(value, str) and secret and "://" in value:
        return shown_url(value)
    return value
