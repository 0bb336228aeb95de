"""Trains the keyed pixel path: real x264 between hiding and revealing, a fresh key for every batch."""

from __future__ import annotations

import logging
import math
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from base.errors import UsageError
from models.train.augment import Cropper
from models.train.coded import Coded, x264_round_trip
from models.train.color import planes_to_rgb, rgb_to_planes
from models.train.mean_face import FacesInTraining
from models.train.networks import BANDS, Generator
from models.train.pixel_networks import HIGH, LOW, PixelNetworks, PixelShape
from models.train.plots import write_sheet
from models.train.rate import coded_bits
from models.train.rotations import random_rotations, rotated, rotated_back
from models.train.run import (
    Progress,
    RunState,
    card_text,
    load,
    mean_weights,
    run_for,
    running_mean,
    scheduled_rate,
)
from models.train.samples import load_faces, prepare

logger = logging.getLogger(__name__)

SETTINGS: dict[str, tuple[PixelShape, float]] = {"high": (HIGH, 0.10), "low": (LOW, 0.007)}
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
        self._faces = FacesInTraining(settings.crop_size)
        self._protector = _load_generator(settings.protector)
        self.networks = PixelNetworks(self._shape)
        self.averaged = running_mean(self.networks, settings.averaging)
        self._optimizer = torch.optim.AdamW(
            self.networks.parameters(), settings.learning_rate, betas=(0.9, 0.99), weight_decay=0.0
        )
        self.state = RunState(price=0.05)

    def run(self, progress: Progress | None = None) -> PixelNetworks:
        """Train until the time is used up; ``progress`` gets the share done and the smoothed figures."""
        run_for(self, self._settings.out, self._settings.minutes, progress)
        return self.averaged_networks()

    def averaged_networks(self) -> PixelNetworks:
        """The running mean of the weights: what is exported."""
        networks = PixelNetworks(self._shape)
        networks.load_state_dict(self.averaged.module.state_dict())
        return networks.eval()

    def train(self, share: float) -> None:
        """One step."""
        settings, state = self._settings, self.state
        rate = scheduled_rate(settings.learning_rate, state.step, share, warm_up_steps=100)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        clear = self._draw()
        base = self._protected(clear)
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
        state.follow_budget(over=over, lowest=0.01, highest=20.0)
        state.step += 1

    def _losses(self, clear: Planes, base: Planes) -> dict[str, Tensor]:
        """Every force by name, unweighted; also keeps the figures for the log."""
        networks, rng = self.networks, self._rng
        latents = networks.analyse(clear, base)
        rotations = random_rotations(self._shape.channels, *latents.shape[-2:])
        turned = rotated(latents, rotations)
        hidden = networks.hide(base, turned)
        coded = x264_round_trip(hidden[0], hidden[1], rng.uniform(*self._settings.crf_range))
        received = (coded.luma, coded.chroma)
        revealed = networks.reveal(received)
        right = rng.random() >= self._settings.wrong_keys
        if not right:
            # Another key must give back what was published, not something better.
            rotations = random_rotations(self._shape.channels, *latents.shape[-2:])
        restored = networks.restore(received, revealed, rotated_back(revealed, rotations))
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
        self._note(losses, right=right, clear=clear, base=base, restored=restored, coded=coded)
        return losses

    def _protected(self, clear: Planes) -> Planes:
        """What the camera makes of it."""
        with torch.no_grad():
            drawn = self._protector(*clear)
        return self._faces.drawn((drawn.luma, drawn.chroma), drawn.gates, clear)

    def _draw(self) -> Planes:
        crops = [self._cropper.draw().clear for _ in range(self._settings.batch)]
        rgb = torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2).float() / 255
        return rgb_to_planes(rgb)

    def _note(
        self,
        losses: dict[str, Tensor],
        *,
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
        if self.state.step % 20 == 0:
            figures["base_bits_per_pixel"] = x264_round_trip(base[0], base[1], 23).bits_per_pixel
        self.state.note(figures)

    def checkpoint(self) -> dict[str, Any]:
        """Everything to continue from."""
        return {
            "networks": self.networks.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "state": asdict(self.state),
        }

    def described(self) -> dict[str, Any]:
        """What goes on the model card: settings, steps, seconds, last figures. No machine's paths."""
        return card_text(self._settings, self.state, "figures")

    def draw_sheet(self, path: Path) -> None:
        """Rows of clear, protected, published, restored, and restored under a wrong key."""
        clear = self._draw()
        networks: PixelNetworks = self.averaged.module.eval()
        base = self._protected(clear)
        with torch.no_grad():
            latents = networks.analyse(clear, base)
            grid = latents.shape[-2:]
            right, wrong = (random_rotations(self._shape.channels, *grid) for _ in range(2))
            hidden = networks.hide(base, rotated(latents, right))
            coded = x264_round_trip(hidden[0], hidden[1], 23)
            received = (coded.luma, coded.chroma)
            revealed = networks.reveal(received)
            restored = [
                networks.restore(received, revealed, rotated_back(revealed, key)) for key in (right, wrong)
            ]
        columns = [planes_to_rgb(*planes) for planes in (clear, base, hidden, *restored)]
        write_sheet(path, columns)

    def resume(self) -> bool:
        """Continue from the checkpoint in the output folder, if there is one."""
        stored = load(self._settings.out)
        if stored is None:
            return False
        self.networks.load_state_dict(stored["networks"])
        self.averaged.load_state_dict(stored["averaged"])
        self._optimizer.load_state_dict(stored["optimizer"])
        self.state = RunState(**stored["state"])
        return True


def _load_generator(checkpoint: Path) -> Generator:
    """The averaged generator of a protector's run, frozen."""
    generator = Generator()
    generator.load_state_dict(mean_weights(torch.load(checkpoint, weights_only=True)))
    return generator.eval().requires_grad_(False)
