"""Trains the protector: three forces (utility, privacy, rate and look) and one visible Lagrangian."""

from __future__ import annotations

import logging
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from torch import Tensor

from base.errors import UsageError
from models.train.augment import Crop, Cropper
from models.train.color import planes_to_rgb, rgb_to_planes
from models.train.mean_face import FacesInTraining
from models.train.networks import BANDS, Generator, PatchDiscriminator, Protected, coarseness_of, shut_logits
from models.train.pictures import Image
from models.train.plots import write_sheet
from models.train.rate import coded_bits
from models.train.run import (
    Progress,
    RunState,
    card_text,
    load,
    run_for,
    running_mean,
    scheduled_rate,
)
from models.train.samples import load_cartoons, load_faces, prepare
from models.train.teacher import Judge, Teacher, anchor_weights, disagreement

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProtectorTraining:
    """Settings of one run; written beside the weights."""

    pictures: tuple[Path, ...]  # folders of pictures and videos, searched recursively
    faces: Path  # aligned face crops, one sub-folder per identity
    cartoons: Path  # frames of the style to imitate
    teacher: Path  # YOLOX ONNX, frozen
    face_finder: Path  # YuNet ONNX, labels the training pictures
    out: Path  # checkpoint, log, settings
    start: Path | None = None  # safetensors of earlier weights to go on from
    face_identities: int = 120  # the first so many identities; the others stay for evaluation
    minutes: float = 60.0
    crop_size: int = 320  # pixels, multiple of 64
    batch: int = 4
    learning_rate: float = 2e-3
    seed: int = 1
    threads: int = 2
    finding_share: float = 0.5  # first part of the time: only find what is sensitive
    weight_utility: float = 1.0  # detector disagreement
    weight_coarseness: float = 6.0  # cross-entropy of shut bands inside faces, plates, text
    weight_idle: float = 3.0  # the same elsewhere
    idle_background: float = 0.1  # share of that which counts where no object is: there all is coarse anyway
    weight_sensitive: float = 6.0  # L1 to the target inside faces, plates, text
    weight_cartoon: float = 0.7  # L1 to the flat cartoon elsewhere
    weight_style: float = 0.02  # patch discriminator
    rate_budget: float = 0.3  # wanted bits, of the clear crop's; the price of a bit follows, see _note
    find_steps: int = 2  # supervised steps on crops of their own for every joint one
    averaging: float = 0.997  # the exported weights are a running mean of this decay


def _batch(crops: list[Crop]) -> dict[str, Tensor]:
    def picture(images: list[Image]) -> Tensor:
        stacked = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 255
        return stacked.contiguous(memory_format=torch.channels_last)

    def stack(maps: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]) -> Tensor:
        return torch.from_numpy(np.stack(maps))

    return {
        "clear": picture([c.clear for c in crops]),
        "target": picture([c.target for c in crops]),
        "sensitive": stack([c.sensitive for c in crops])[:, None],
        "shut": stack([c.shut for c in crops]),
        "importance": stack([c.importance for c in crops]),
        "pasted": stack([c.pasted for c in crops])[:, None],
        "floor": stack([c.floor for c in crops]),
    }


def _bits(luma: Tensor, chroma: Tensor, grid_yx: tuple[int, int]) -> Tensor:
    """About the coded bits per luma sample."""
    return coded_bits(luma, grid_yx) + 0.5 * coded_bits(chroma, grid_yx)


def _masked_l1(difference: Tensor, mask: Tensor) -> Tensor:
    return (difference * mask).sum() / (mask.sum() * difference.shape[1] + 1e3)


def _coarseness_losses(
    batch: dict[str, Tensor], coarseness: Tensor, idle_background: float
) -> dict[str, Tensor]:
    """Cross-entropy of the bands that must be shut, apart for sensitive blocks and all others.

    Both are means over their own area, else the few sensitive blocks would not count. Of the others those
    on objects count most.
    """
    shut = batch["shut"]
    inside = shut.amax(1, keepdim=True)
    weight = inside * batch["importance"]
    idle = (1 - inside) * torch.where(batch["floor"] == 0, 1.0, idle_background)
    entropy = F.binary_cross_entropy_with_logits(shut_logits(coarseness), shut, reduction="none").mean(
        1, keepdim=True
    )
    return {
        "coarseness": (entropy * weight).sum() / (weight.sum() + 20),
        "idle": (entropy * idle).sum() / (idle.sum() + 20),
    }


def _losses(
    batch: dict[str, Tensor],
    drawn: Protected,
    teacher: Judge,
    with_faces: tuple[Tensor, Tensor],
    grid_yx: tuple[int, int],
    *,
    idle_background: float,
) -> dict[str, Tensor]:
    """Every force on the generator by name, unweighted; ``with_faces`` is as the camera shows it."""
    target_luma, target_chroma = rgb_to_planes(batch["target"])
    # Gradients pass as if no face were drawn.
    own = (drawn.luma, drawn.chroma)
    rgb = planes_to_rgb(*(plane + (new - plane).detach() for plane, new in zip(own, with_faces, strict=True)))
    with torch.no_grad():
        wanted = teacher(batch["clear"])
    weights = anchor_weights(batch["pasted"])
    sensitive = batch["sensitive"]
    half = F.avg_pool2d(sensitive, 2)
    cartoon = (1 - sensitive) * F.interpolate((batch["floor"] == 0).float(), scale_factor=8.0)
    half_cartoon = F.avg_pool2d(cartoon, 2)
    luma, chroma = (drawn.luma - target_luma).abs(), (drawn.chroma - target_chroma).abs()
    return {
        "utility": disagreement(wanted, teacher(rgb), weights),
        **_coarseness_losses(batch, drawn.coarseness, idle_background),
        "sensitive": _masked_l1(luma, sensitive) + _masked_l1(chroma, half),
        "cartoon": _masked_l1(luma, cartoon) + _masked_l1(chroma, half_cartoon),
        "rate": _bits(drawn.luma, drawn.chroma, grid_yx),
    }


def start_from(generator: Generator, path: Path) -> None:
    """Take the weights of an earlier training, as ``export_protector`` wrote them.

    Raises:
        UsageError: the file holds no such weights.
    """
    try:
        stored = load_safetensors(path.read_bytes())
        state = generator.state_dict()
        state |= {name: value.float() for name, value in stored.items()}
        generator.load_state_dict(state)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        message = f"{path}: expected a protector's .safetensors: {str(error).splitlines()[0]}"
        raise UsageError(message) from error


class ProtectorTrainer:
    """Holds networks, optimisers and data of one run; ``run`` trains until the time is used up."""

    def __init__(self, settings: ProtectorTraining, teacher: Judge | None = None) -> None:
        if settings.crop_size % 64:
            raise UsageError(f"crop size: expected a multiple of 64, got {settings.crop_size}")
        self._settings = settings
        torch.manual_seed(settings.seed)
        torch.set_num_threads(settings.threads)
        self._rng = random.Random(settings.seed)
        settings.out.mkdir(parents=True, exist_ok=True)
        samples = list(prepare(list(settings.pictures), settings.face_finder, settings.out / "cache"))
        faces = load_faces(settings.faces, range(settings.face_identities))
        self._faces = FacesInTraining(settings.crop_size)
        self._cartoons = load_cartoons(settings.cartoons, settings.crop_size)
        if not samples or not self._cartoons:
            raise UsageError(
                f"no training pictures in {settings.pictures} or no cartoons in {settings.cartoons}"
            )
        logger.info("%d pictures, %d faces, %d cartoons", len(samples), len(faces), len(self._cartoons))
        self._cropper = Cropper(samples, faces, size=settings.crop_size, bands=BANDS, rng=self._rng)
        self._teacher: Judge = teacher or Teacher(settings.teacher)
        self.generator = Generator().to(memory_format=torch.channels_last)
        if settings.start:
            start_from(self.generator, settings.start)
        self.averaged = running_mean(self.generator, settings.averaging)
        self.discriminator = PatchDiscriminator()
        self._optimizer = torch.optim.AdamW(
            self.generator.parameters(), settings.learning_rate, betas=(0.9, 0.99), weight_decay=0.0
        )
        self._critic = torch.optim.Adam(self.discriminator.parameters(), 2e-4, betas=(0.5, 0.99))
        self.state = RunState(price=2.0)

    def run(self, progress: Progress | None = None) -> Generator:
        """Train until the time is used up; ``progress`` gets the share done and the smoothed figures."""
        run_for(self, self._settings.out, self._settings.minutes, progress)
        return self.averaged_generator()

    def averaged_generator(self) -> Generator:
        """The running mean of the weights: what is exported."""
        generator = Generator()
        generator.load_state_dict(self.averaged.module.state_dict())
        return generator.eval()

    def train(self, share: float) -> None:
        """One joint step with its finding steps; in the first part of the time only a finding step."""
        settings, state = self._settings, self.state
        rate = scheduled_rate(settings.learning_rate, state.step, share, warm_up_steps=50)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        if share < settings.finding_share:
            self._find()
            return
        for _ in range(settings.find_steps):
            self._find()
        batch = self._draw()
        luma, chroma = rgb_to_planes(batch["clear"])
        drawn = self.generator(luma, chroma, batch["floor"])
        grid_yx = self._rng.randrange(8), self._rng.randrange(8)
        with_faces = self._faces.drawn((drawn.luma, drawn.chroma), drawn.gates, (luma, chroma))
        losses = _losses(
            *(batch, drawn, self._teacher, with_faces, grid_yx), idle_background=settings.idle_background
        )
        with torch.no_grad():
            losses["clear_rate"] = _bits(luma, chroma, grid_yx)
        losses["style"] = -self.discriminator(planes_to_rgb(drawn.luma, drawn.chroma)).mean()
        lagrangian = (
            settings.weight_utility * losses["utility"]
            + settings.weight_coarseness * losses["coarseness"]
            + settings.weight_idle * losses["idle"]
            + settings.weight_sensitive * losses["sensitive"]
            + settings.weight_cartoon * losses["cartoon"]
            + state.price * losses["rate"]
            + settings.weight_style * losses["style"]
        )
        self._descend(lagrangian)
        if state.step % 2 == 0:
            losses["critic"] = self._train_critic(planes_to_rgb(drawn.luma, drawn.chroma).detach())
        self._note(losses, drawn, batch)
        state.step += 1

    def _draw(self) -> dict[str, Tensor]:
        return _batch([self._cropper.draw() for _ in range(self._settings.batch)])

    def _find(self) -> None:
        """Supervised start: where faces, plates and text are and how large, without drawing anything.

        Twenty times cheaper than a full step, and the detector's gradient, which is large and
        knows nothing of privacy, does not drown it.
        """
        batch = self._draw()
        losses = _coarseness_losses(
            batch,
            coarseness_of(self.generator.gate_net(*rgb_to_planes(batch["clear"]))),
            self._settings.idle_background,
        )
        self._descend(losses["coarseness"] + losses["idle"])
        self.state.note({name: float(value.detach()) for name, value in losses.items()})
        self.state.step += 1

    def _descend(self, loss: Tensor) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.generator.parameters(), 5.0)
        self._optimizer.step()
        self.averaged.update_parameters(self.generator)

    def _train_critic(self, drawn_rgb: Tensor) -> Tensor:
        """Hinge loss against random crops of real cartoon frames."""
        size = self._settings.crop_size
        crops = []
        for _ in range(len(drawn_rgb)):
            frame = self._rng.choice(self._cartoons)
            top = self._rng.randrange(frame.shape[0] - size + 1)
            left = self._rng.randrange(frame.shape[1] - size + 1)
            crops.append(frame[top : top + size, left : left + size])
        real = torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2).float() / 255
        real_rgb = planes_to_rgb(*rgb_to_planes(real))
        loss = (
            F.relu(1 - self.discriminator(real_rgb)).mean() + F.relu(1 + self.discriminator(drawn_rgb)).mean()
        )
        self._critic.zero_grad(set_to_none=True)
        loss.backward()
        self._critic.step()
        return loss.detach()

    def _note(self, losses: dict[str, Tensor], drawn: Protected, batch: dict[str, Tensor]) -> None:
        """Smooth the figures; raise the price of bits while too many are spent, lower it otherwise."""
        state, settings = self.state, self._settings
        figures = {name: float(value.detach()) for name, value in losses.items()}
        shut = batch["shut"]
        if float(shut.sum()) > 0:
            figures["open_where_shut"] = float((drawn.gates.detach() * shut).sum() / shut.sum())
        figures["open"] = float(drawn.gates.detach().mean())
        state.note(figures)
        over = state.smooth["rate"] > settings.rate_budget * state.smooth["clear_rate"]
        state.follow_budget(over=over, lowest=0.1, highest=80.0)

    def checkpoint(self) -> dict[str, Any]:
        """Everything to continue from."""
        return {
            "generator": self.generator.state_dict(),
            "averaged": self.averaged.state_dict(),
            "discriminator": self.discriminator.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "critic": self._critic.state_dict(),
            "state": asdict(self.state),
        }

    def described(self) -> dict[str, Any]:
        """What goes on the model card: settings, steps, seconds, last losses. No machine's paths."""
        return card_text(self._settings, self.state, "losses")

    def draw_sheet(self, path: Path) -> None:
        """Rows of clear, protected, wanted, and the cell sizes that may remain (bright: coarse)."""
        batch = self._draw()
        with torch.no_grad():
            drawn = self.averaged.module.eval()(*rgb_to_planes(batch["clear"]), batch["floor"])
        coarse = F.interpolate(drawn.coarseness.clamp(0, BANDS) / BANDS, size=batch["clear"].shape[-2:])
        columns = [
            batch["clear"],
            planes_to_rgb(drawn.luma, drawn.chroma),
            batch["target"],
            coarse.expand(-1, 3, -1, -1),
        ]
        write_sheet(path, columns)

    def resume(self) -> bool:
        """Continue from the checkpoint in the output folder, if there is one."""
        stored = load(self._settings.out)
        if stored is None:
            return False
        self.generator.load_state_dict(stored["generator"])
        self.averaged.load_state_dict(stored["averaged"])
        self.discriminator.load_state_dict(stored["discriminator"])
        self._optimizer.load_state_dict(stored["optimizer"])
        self._critic.load_state_dict(stored["critic"])
        self.state = RunState(**stored["state"])
        return True
