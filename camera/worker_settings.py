"""Settings of detection on edge workers; off unless a worker is named.

workers: [http://edge-1.lan:8001, http://edge-2.lan:8001]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from analytics.elf.types import SMALLEST_CUT_PX, Policy
from analytics.pool import PoolOptions, WorkerAddress
from camera.edge_detection import EdgeOptions
from camera.settings_file import read_secret
from camera.stream_settings import StreamSection


class WorkerSettings(StreamSection):
    """One worker; in YAML its URL alone will do."""

    url: str = Field(min_length=1, repr=False)  # http[s]://HOST:PORT or grpc[s]://HOST:PORT
    name: str = ""  # short, for page and metrics; not set: host and port
    kind: Literal["veilcam", "yolox"] = "veilcam"  # yolox: another server with a plain YOLOX network
    model: str = "detector"  # the model's name there
    token_file: Path | None = None  # bearer token
    ca_file: Path | None = None  # trust these certificates instead of the system's
    cert_file: Path | None = None  # our certificate, for workers that ask for one
    key_file: Path | None = None
    max_share: float = Field(default=1.0, gt=0, le=1)  # of a frame's area that it may see at a time
    trusted: bool = False  # it may look at the whole (small) frame with `look: trusted`

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:  # noqa: ANN401
        return {"url": value} if isinstance(value, str) else value

    def address(self) -> WorkerAddress:
        """What the pool takes.

        Raises:
            UsageError: a URL that is not understood, or a file that cannot be read.
        """
        address = WorkerAddress(
            self.url,
            self.name,
            self.kind,
            self.model,
            token=read_secret(self.token_file),
            ca_file=self.ca_file,
            cert_file=self.cert_file,
            key_file=self.key_file,
            max_share=self.max_share,
            trusted=self.trusted,
        )
        address.tls()
        return address


class WorkersSettings(StreamSection):
    """The pool and how this camera uses it; in YAML the list of workers alone will do."""

    pool: tuple[WorkerSettings, ...] = Field(default=(), max_length=64)
    deadline_ms: float = Field(default=500.0, ge=10, le=60_000)  # answers that come later are not waited for
    jpeg_quality: int = Field(default=85, ge=1, le=100)
    min_score: float = Field(default=0.3, ge=0, le=1)
    max_share: float = Field(
        default=1.0, gt=0, le=1
    )  # of a frame that any untrusted worker may see at a time
    look: Literal["local", "trusted", "any"] = "any"  # who sees the whole frame (small) to find new objects
    smallest_cut_px: int = Field(
        default=SMALLEST_CUT_PX, ge=0
    )  # pictures of fewer pixels go whole, to one worker after the other
    audit_every: int = Field(
        default=50, ge=0
    )  # one frame in so many: a second worker checks a tile; 0: never
    local: str | None = None  # the camera's own detector (hog, yolox, ...), for what no worker answers

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:  # noqa: ANN401
        return {"pool": value} if isinstance(value, list | tuple) else value

    def options(self, camera: str) -> EdgeOptions | None:
        """What the camera takes; None when there is no pool.

        Args:
            camera: its name, by which workers share themselves fairly.

        Raises:
            UsageError: addresses that cannot be meant, or a look that nobody may have.
        """
        if not self.pool:
            return None
        pool = PoolOptions(
            deadline_s=self.deadline_ms / 1000,
            jpeg_quality=self.jpeg_quality,
            min_score=self.min_score,
            camera=camera,
            policy=Policy(self.max_share, self.look, smallest_cut_px=self.smallest_cut_px),
            audit_every=self.audit_every,
        )
        return EdgeOptions(tuple(worker.address() for worker in self.pool), pool, self.local)
