"""Trains the keyed pixel path: real x264 between hiding and revealing, a fresh key for every batch."""

from __future__ import annotations

import json
import logging
import math
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from base.errors import UsageError
from base.files import atomic_write
from models.train.augment import Cropper
from models.train.coded import Coded, x264_round_trip
from models.train.color import rgb_to_planes
from models.train.networks import BANDS, Generator
from models.train.pixel_networks import HIGH, LOW, PixelNetworks, PixelShape
from models.train.rate import coded_bits
from models.train.rotations import random_rotations, rotated, rotated_back
from models.train.samples import load_faces, prepare

logger = logging.getLogger(__name__)

SETTINGS: dict[str, tuple[PixelShape, float]] = {"high": (HIGH, 0.10), "low": (LOW, 0.015)}
"""Shape and wanted extra bits (of ``models.train.rate``, per sample) by name of the setting."""

_MOST_NOISE = 1.5
"""Grey levels. Noise cannot be restored; with more of it Restore learns to blur."""

Planes = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class PixelTraining:
    """Settings of one run; written beside the weights."""

    setting: str  # high | low
    protector: Path  # checkpoint of the protector's run; its generator draws c
    pictures: tuple[Path, ...]  # folders of pictures and videos, searched recursively
    faces: Path  # aligned face crops, one sub-folder per identity
    face_finder: Path  # YuNet ONNX, labels the training pictures
    out: Path  # checkpoint, log, settings
    face_identities: int = 120
    minutes: float = 45.0
    crop_size: int = 192  # pixels, multiple of 64
    batch: int = 5
    learning_rate: float = 2e-3
    seed: int = 1
    threads: int = 2
    crf_range: tuple[int, int] = (18, 28)
    wrong_keys: float = 0.25  # share of batches that are read with another key
    weight_recovery: float = 10.0  # squared error of the restored picture
    weight_structure: float = 0.05  # 1 - SSIM of its luma
    weight_latents: float = 0.02  # squared error of the revealed latents
    weight_visible: float = 0.3  # squared error of y against c
    averaging: float = 0.998


@dataclass(slots=True)
class _State:
    step: int = 0
    seconds: float = 0.0
    price: float = 0.05  # of an extra bit per sample; follows the budget
    smooth: dict[str, float] = field(default_factory=dict)


def _squared_error(planes: Planes, wanted: Planes) -> Tensor:
    """Over all samples; luma counts twice as much as all chroma."""
    return F.mse_loss(planes[0], wanted[0]) + 0.5 * F.mse_loss(planes[1], wanted[1])


def structural_similarity(first: Tensor, second: Tensor, window: int = 8) -> Tensor:
    """Mean SSIM of planes in 0..1 over uniform windows (Wang et al. 2004)."""

    def mean(plane: Tensor) -> Tensor:
        return F.avg_pool2d(plane, window, 4)

    one, two = mean(first), mean(second)
    variance_one, variance_two = mean(first * first) - one * one, mean(second * second) - two * two
    covariance = mean(first * second) - one * two
    c1, c2 = 0.01**2, 0.03**2
    quality = ((2 * one * two + c1) * (2 * covariance + c2)) / (
        (one * one + two * two + c1) * (variance_one + variance_two + c2)
    )
    return quality.mean()


def _decibels(squared_error: float) -> float:
    return -10 * math.log10(max(squared_error, 1e-9))


class PixelTrainer:
    """Holds networks, optimiser and data of one run; ``run`` trains until the time is used up."""

    def __init__(self, settings: PixelTraining) -> None:
        if settings.setting not in SETTINGS:
            raise UsageError(f"setting: expected one of {', '.join(SETTINGS)}, got {settings.setting!r}")
        if settings.crop_size % 64:
            raise UsageError(f"crop size: expected a multiple of 64, got {settings.crop_size}")
        self._settings = settings
        self._shape, self._budget = SETTINGS[settings.setting]
        torch.manual_seed(settings.seed)
        torch.set_num_threads(settings.threads)
        self._rng = random.Random(settings.seed)
        settings.out.mkdir(parents=True, exist_ok=True)
        samples = list(prepare(list(settings.pictures), settings.face_finder, settings.out / "cache"))
        if not samples:
            raise UsageError(f"no training pictures in {settings.pictures}")
        faces = load_faces(settings.faces, range(settings.face_identities))
        self._cropper = Cropper(
            *(samples, faces), size=settings.crop_size, bands=BANDS, rng=self._rng, most_noise=_MOST_NOISE
        )
        self._protector = _load_generator(settings.protector)
        self.networks = PixelNetworks(self._shape)
        self.averaged = AveragedModel(
            self.networks, multi_avg_fn=get_ema_multi_avg_fn(settings.averaging), use_buffers=True
        )
        self._optimizer = torch.optim.AdamW(
            self.networks.parameters(), settings.learning_rate, betas=(0.9, 0.99), weight_decay=0.0
        )
        self._state = _State()

    def run(self, progress: Callable[[float, dict[str, float]], None] | None = None) -> PixelNetworks:
        """Train; ``progress`` gets the share done and the smoothed figures about every 20 steps."""
        limit = self._settings.minutes * 60
        began, before = time.monotonic(), self._state.seconds
        while self._state.seconds < limit:
            self._step(self._state.seconds / limit)
            self._state.seconds = before + time.monotonic() - began
            if self._state.step % 20 == 0 and progress:
                progress(min(1.0, self._state.seconds / limit), dict(self._state.smooth))
            if self._state.step % 100 == 0:
                self.save()
        self.save()
        return self.networks

    def _step(self, share: float) -> None:
        settings, state = self._settings, self._state
        warm_up = min(1.0, (state.step + 1) / 100)
        for group in self._optimizer.param_groups:
            group["lr"] = settings.learning_rate * warm_up * (0.5 * (1 + math.cos(math.pi * share)) + 0.01)
        clear = self._draw()
        with torch.no_grad():
            drawn = self._protector(*clear)
        base = (drawn.luma, drawn.chroma)
        losses = self._losses(clear, base)
        loss = (
            settings.weight_recovery * losses["recovery"]
            + settings.weight_structure * losses["structure"]
            + settings.weight_latents * losses["latents"]
            + settings.weight_visible * losses["visible"]
            + state.price * losses["extra_bits"]
        )
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.networks.parameters(), 1.0)
        self._optimizer.step()
        self.averaged.update_parameters(self.networks)
        over = state.smooth.get("extra_bits", 1.0) > self._budget
        state.price = min(20.0, max(0.01, state.price * (1.004 if over else 0.996)))
        state.step += 1

    def _losses(self, clear: Planes, base: Planes) -> dict[str, Tensor]:
        """Every force by name, unweighted; also keeps the figures for the log."""
        networks, rng = self.networks, self._rng
        latents = networks.analyse(clear, base)
        rotations = random_rotations(self._shape.channels, *latents.shape[-2:])
        turned = rotated(latents, rotations)
        hidden = networks.hide(base, turned)
        coded = x264_round_trip(*hidden, crf=rng.uniform(*self._settings.crf_range))
        received = (coded.luma, coded.chroma)
        revealed = networks.reveal(received)
        right = rng.random() >= self._settings.wrong_keys
        if not right:
            # Another key must give back what was published, not something better.
            rotations = random_rotations(self._shape.channels, *latents.shape[-2:])
        restored = networks.restore(received, rotated_back(revealed, rotations))
        wanted = clear if right else base
        grid_yx = rng.randrange(8), rng.randrange(8)
        bits = [coded_bits(p[0], grid_yx) + 0.5 * coded_bits(p[1], grid_yx) for p in (hidden, base)]
        losses = {
            "recovery": _squared_error(restored, wanted),
            "structure": 1 - structural_similarity(restored[0], wanted[0]),
            "latents": F.mse_loss(revealed, turned),
            "visible": _squared_error(hidden, base),
            "extra_bits": (bits[0] - bits[1]).clamp(min=0),
        }
        self._note(losses, right, clear, base, restored, coded)
        return losses

    def _draw(self) -> Planes:
        crops = [self._cropper.draw().clear for _ in range(self._settings.batch)]
        rgb = torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2).float() / 255
        return rgb_to_planes(rgb)

    def _note(
        self,
        losses: dict[str, Tensor],
        right: bool,
        clear: Planes,
        base: Planes,
        restored: Planes,
        coded: Coded,
    ) -> None:
        figures = {name: float(losses[name].detach()) for name in ("latents", "extra_bits")}
        figures["bits_per_pixel"] = coded.bits_per_pixel
        figures["visible_db"] = _decibels(float(losses["visible"].detach()))
        name = "restored" if right else "wrong_key"
        error = float(F.mse_loss(restored[0].detach(), clear[0]))
        figures[f"{name}_db"] = _decibels(error)
        figures[f"{name}_gain_db"] = figures[f"{name}_db"] - _decibels(float(F.mse_loss(base[0], clear[0])))
        if right:
            figures["ssim"] = 1 - float(losses["structure"].detach())
        if self._state.step % 20 == 0:
            figures["base_bits_per_pixel"] = x264_round_trip(*base, crf=23).bits_per_pixel
        smooth = self._state.smooth
        for key, value in figures.items():
            smooth[key] = 0.98 * smooth.get(key, value) + 0.02 * value
        smooth["price"] = self._state.price

    def save(self) -> None:
        """Write checkpoint and settings (plain tensors and JSON; loadable with weights_only)."""
        out = self._settings.out
        temporary = out / ".checkpoint.pt.part"
        torch.save(
            {
                "networks": self.networks.state_dict(),
                "averaged": self.averaged.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "state": asdict(self._state),
            },
            temporary,
        )
        temporary.replace(out / "checkpoint.pt")
        atomic_write(out / "settings.json", json.dumps(self.described(), indent=2).encode() + b"\n")

    def described(self) -> dict[str, Any]:
        """What goes on the model card: settings, steps, seconds, last figures. No machine's paths."""
        settings = {
            name: [getattr(v, "name", v) for v in value]
            if isinstance(value, tuple)
            else getattr(value, "name", value)
            for name, value in asdict(self._settings).items()
            if name != "out"
        }
        state = self._state
        figures = {name: round(value, 4) for name, value in state.smooth.items()}
        training = {
            "settings": settings,
            "steps": state.step,
            "seconds": round(state.seconds),
            "figures": figures,
        }
        return {"licence": "Apache-2.0", "training": training, "metrics": {}}

    def resume(self) -> bool:
        """Continue from the checkpoint in the output folder, if there is one."""
        path = self._settings.out / "checkpoint.pt"
        if not path.exists():
            return False
        stored = torch.load(path, weights_only=True)
        self.networks.load_state_dict(stored["networks"])
        self.averaged.load_state_dict(stored["averaged"])
        self._optimizer.load_state_dict(stored["optimizer"])
        self._state = _State(**stored["state"])
        return True


def _load_generator(checkpoint: Path) -> Generator:
    """The averaged generator of a protector's run, frozen."""
    stored = torch.load(checkpoint, weights_only=True)
    generator = Generator()
    prefix = "module."
    averaged = {key[len(prefix) :]: value for key, value in stored["averaged"].items() if key.startswith(prefix)}
    generator.load_state_dict(averaged)
    return generator.eval().requires_grad_(False)
