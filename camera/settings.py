"""The configuration of one camera: a YAML file, three lines at least, every key overridable.

    source: rtsp://gate.example/stream        # or a file, a folder, /dev/video0, synthetic
    camera: gate.camera
    recipients: [custody.recipient]

Environment variables win over the file: ``VEILCAM__RECORD__FOLDER=/srv`` sets ``record.folder``. ``${NAME}``
in a value is replaced by an environment variable, so that passwords stay out of the file. Relative paths are
relative to the file.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeGuard, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from analytics.event_outlet import EventTarget
from analytics.event_targets import open_target
from base.errors import UsageError
from camera.cutter import CutRules
from camera.publisher import CodingOptions
from camera.recorder import RecorderOptions
from camera.retention import RetentionRules
from camera.settings_file import anchor_paths, expanded, from_environment, merge, read_secret, read_yaml
from camera.stream_settings import IceServerSettings, PublishSettings, RtspSettings
from camera.worker_settings import WorkersSettings
from codec.regions import parse_split


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class CodingSettings(_Section):
    """How the protected and the sealed layer are coded."""

    sealed: Literal["copy", "av1", "hevc", "h264", "ffv1", "none"] | None = None
    sealed_crf: float | None = Field(default=None, ge=0, le=63)
    sealed_preset: str | None = None
    sealed_regions: str | None = None  # COLSxROWS: tiles of the original that a grant can open singly
    pixels: Literal["off", "low", "high"] | None = None  # hide the original in the picture too; not set: off
    crf: float = Field(default=26.0, ge=0, le=51)
    preset: str = "veryfast"
    max_bitrate_kbps: int | None = Field(default=None, ge=100, le=200_000)
    threads: int = Field(default=1, ge=1, le=16)
    sub_scale: Literal[0, 2, 3, 4] = 2  # the smaller rendition for bad links: size divided by; 0: none


class SegmentSettings(_Section):
    """Lengths of segments in seconds, and of an epoch."""

    target_s: float = Field(default=2.0, gt=0, le=30)
    min_s: float = Field(default=1.0, gt=0, le=30)
    max_s: float = Field(default=4.0, gt=0, le=30)
    epoch_s: float = Field(default=600.0, ge=10, le=86_400)


class RecordSettings(_Section):
    """Recording; off unless a folder is named."""

    folder: Path | None = None
    file_minutes: float = Field(default=10.0, gt=0, le=24 * 60)
    max_age_days: float | None = Field(default=None, gt=0)
    max_gb: float | None = Field(default=None, gt=0)
    min_free_mb: float = Field(default=256.0, ge=0)


class HttpSettings(_Section):
    """The page and WHEP. Binding wider than loopback needs a token."""

    listen: str = "127.0.0.1:8080"
    token_file: Path | None = None
    max_viewers: int = Field(default=16, ge=1, le=256)
    ingest_token_file: Path | None = None  # who may publish to /whip; else the token above
    ice_servers: tuple[IceServerSettings, ...] = Field(default=(), max_length=8)


class EventsSettings(_Section):
    """Where events go, beside the page: any of a file, a webhook and an MQTT broker."""

    file: Path | None = None  # JSON Lines
    webhook: str | None = Field(default=None, repr=False)  # some receivers have their secret in the path
    webhook_token_file: Path | None = None
    mqtt: str | None = Field(default=None, repr=False)  # mqtt[s]://[USER[:PASSWORD]@]HOST[:PORT][/PREFIX]
    mqtt_password_file: Path | None = None


class CameraSettings(_Section):
    """One camera."""

    source: str = Field(min_length=1, repr=False)  # may hold a password
    camera: Path
    recipients: tuple[Path, ...] = Field(min_length=1, max_length=64)
    name: str = Field(default="camera", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    loop: bool = False
    realtime: bool = True
    source_options: dict[str, str] = Field(default_factory=dict)
    open_timeout_s: float = Field(default=10.0, gt=0, le=120)
    read_timeout_s: float = Field(default=5.0, gt=0, le=120)
    queue_frames: int = Field(default=2, ge=1, le=64)
    protector_threads: int | None = Field(default=None, ge=1, le=64)
    protector_refresh: int = Field(default=2, ge=1, le=10)  # look for faces in every n-th picture
    protector_hold: bool = True  # parts that have not changed keep their pixels
    strength: Literal["light", "standard", "strong", "maximum"] = "standard"
    background: Literal["coarse", "fine"] | None = None  # not set: coarse, with coding.pixels fine
    coding: CodingSettings = Field(default_factory=CodingSettings)
    segments: SegmentSettings = Field(default_factory=SegmentSettings)
    record: RecordSettings = Field(default_factory=RecordSettings)
    http: HttpSettings = Field(default_factory=HttpSettings)
    publish: tuple[PublishSettings, ...] = Field(default=(), max_length=16)
    rtsp: RtspSettings = Field(default_factory=RtspSettings)
    events: EventsSettings = Field(default_factory=EventsSettings)
    workers: WorkersSettings = Field(default_factory=WorkersSettings)

    def coding_options(self) -> CodingOptions:
        """What the pipeline takes.

        Raises:
            UsageError: segment lengths that contradict each other.
        """
        coding = self.coding
        return CodingOptions(
            sealed=coding.sealed,
            sealed_crf=coding.sealed_crf,
            sealed_preset=coding.sealed_preset,
            sealed_regions=None if coding.sealed_regions is None else parse_split(coding.sealed_regions),
            pixels=coding.pixels,
            crf=coding.crf,
            preset=coding.preset,
            max_bitrate_bps=None if coding.max_bitrate_kbps is None else coding.max_bitrate_kbps * 1000,
            threads=coding.threads,
            sub_scale=coding.sub_scale,
            cut=CutRules(self.segments.target_s, self.segments.min_s, self.segments.max_s),
        )

    def recorder_options(self) -> RecorderOptions | None:
        """What the recorder takes; None when nothing is recorded."""
        record = self.record
        if record.folder is None:
            return None
        return RecorderOptions(
            record.folder,
            self.name,
            file_s=60 * record.file_minutes,
            retention=RetentionRules(
                None if record.max_age_days is None else 86_400 * record.max_age_days,
                None if record.max_gb is None else round(1e9 * record.max_gb),
            ),
            min_free_bytes=round(1e6 * record.min_free_mb),
        )

    def event_targets(self) -> tuple[EventTarget, ...]:
        """Where events go.

        Raises:
            UsageError: an address that cannot be meant, or a secret's file that cannot be read.
            MissingDependency: MQTT without the extra ``mqtt``.
        """
        events = self.events
        targets = [] if events.file is None else [open_target(str(events.file))]
        for address, secret in (
            (events.webhook, events.webhook_token_file),
            (events.mqtt, events.mqtt_password_file),
        ):
            if address is not None:
                targets.append(open_target(address, token=read_secret(secret), camera=self.name))
        return tuple(targets)


def load_settings(
    path: Path | None, environment: Mapping[str, str], overrides: Mapping[str, Any] | None = None
) -> CameraSettings:
    """Read a camera's settings; ``overrides`` (from the command line, nested) win over the environment.

    Raises:
        UsageError: not YAML, an unknown key (with the nearest known one), or a value that is not allowed;
            the message names the dotted path and never the value.
        LimitExceeded: the file is longer than 64 KiB.
    """
    values = {} if path is None else read_yaml(path)
    base = Path() if path is None else path.parent
    values = expanded(values, environment)
    anchor_paths(values, base)
    merge(values, from_environment(environment))
    merge(values, overrides or {})
    try:
        settings = CameraSettings.model_validate(values)
    except ValidationError as error:
        where = "settings" if path is None else path.name
        message = f"{where}: " + "; ".join(_explain(problem) for problem in error.errors(include_url=False))
        raise UsageError(message) from None
    settings.coding_options()
    return settings


def _explain(problem: Any) -> str:  # noqa: ANN401
    path = [str(part) for part in problem["loc"]]
    dotted = ".".join(path)
    if problem["type"] == "missing":
        return f"{dotted}: is missing"
    if problem["type"] in ("model_type", "dict_type") and (keys := _known_keys(path)):
        return f"{dotted}: expected a section with keys such as {keys[0]}, got {problem['input']!r:.40}"
    if problem["type"] != "extra_forbidden":
        return f"{dotted}: {problem['msg']}"
    close = difflib.get_close_matches(path[-1], _known_keys(path[:-1]), n=1)
    hint = (
        f", did you mean {close[0]}?" if close else f", expected one of {', '.join(_known_keys(path[:-1]))}"
    )
    return f"{dotted}: unknown key{hint}"


def _known_keys(path: list[str]) -> list[str]:
    """The keys of the section at a path; parts of the path may be numbers of a list."""
    model: type[BaseModel] = CameraSettings
    for part in path:
        if part.isdigit():
            continue
        inner = model.model_fields[part].annotation if part in model.model_fields else None
        found = [kind for kind in (inner, *get_args(inner)) if _is_section(kind)]
        if not found:
            return []
        model = found[0]
    return list(model.model_fields)


def _is_section(kind: Any) -> TypeGuard[type[BaseModel]]:  # noqa: ANN401
    return isinstance(kind, type) and issubclass(kind, BaseModel)
