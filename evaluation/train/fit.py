"""Training of the attackers, by the clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from analytics.interface import Image
from evaluation.context import Progress
from evaluation.pairs import Batch, Pairs
from evaluation.recogniser import Vectors
from evaluation.train.networks import InverterNet, RecogniserNet

BATCH = 16
Step = Callable[[np.random.Generator], Tensor]


@dataclass(frozen=True, slots=True)
class Budget:
    """How long to train: by the clock, or for so many steps if that ends sooner."""

    minutes: float
    max_steps: int | None = None
    batch: int = BATCH

    def share(self, seconds: float, steps: int) -> float:
        """What is used up, 1 and more at the end."""
        by_steps = steps / self.max_steps if self.max_steps else 0.0
        return max(seconds / (60 * self.minutes), by_steps)

    def part(self, share: float) -> Budget:
        """A budget of this share of the time and steps."""
        steps = None if self.max_steps is None else max(1, round(self.max_steps * share))
        return Budget(self.minutes * share, steps, self.batch)


def fit(
    net: nn.Module,
    step: Step,
    *,
    budget: Budget,
    seed: int,
    what: str,
    progress: Progress,
    rate: float = 2e-3,
) -> int:
    """Adam with a warm-up and a cosine over the time given; returns the number of steps."""
    rng = np.random.default_rng(seed)
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=1e-4)
    net.train()
    began = time.monotonic()
    steps = 0
    while (share := budget.share(time.monotonic() - began, steps)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (steps + 1) / 20) * (0.5 * (1 + math.cos(math.pi * share)) + 0.01)
        loss = step(rng)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
        steps += 1
        progress(what, min(int(share * 100), 99), 100)
    progress(what, 100, 100)
    net.eval()
    return steps


def fit_inverter(pairs: Pairs, *, budget: Budget, seed: int, progress: Progress) -> tuple[InverterNet, int]:
    """From protected to clear: L1 on samples and on their differences, which keeps edges."""
    torch.manual_seed(seed)
    net = InverterNet()

    def step(rng: np.random.Generator) -> Tensor:
        rows = rng.integers(len(pairs), size=budget.batch)
        seen, clear = _mirrored(rng, pairs.seen[rows], pairs.clear[rows])
        guess = net(seen)
        across, down = (_slopes(guess, axis) - _slopes(clear, axis) for axis in (3, 2))
        return (guess - clear).abs().mean() + across.abs().mean() + down.abs().mean()

    return net, fit(net, step, budget=budget, seed=seed, what="attack: inverter", progress=progress)


def fit_recogniser(
    pairs: Pairs, wanted: Vectors, *, budget: Budget, seed: int, progress: Progress
) -> tuple[RecogniserNet, RecogniserNet, int]:
    """A recogniser taught on clear faces, then fine-tuned on protected ones.

    Args:
        pairs: of faces.
        wanted: [n, 128], how the recogniser that is imitated describes the clear faces, each of length 1.
        budget: a third of it on clear faces.
        seed: of everything random.
        progress: see Context.

    Returns:
        The network after the clear faces, the network after the protected ones, steps in all.
    """
    torch.manual_seed(seed)
    people = int(pairs.owners.max()) + 1
    net, steps = RecogniserNet(people), 0
    targets = torch.from_numpy(wanted.astype(np.float32))
    owners = torch.from_numpy(pairs.owners)
    nets = []
    for source, share, what in ((pairs.clear, 1 / 3, "clear"), (pairs.seen, 2 / 3, "protected")):

        def step(rng: np.random.Generator, source: Batch = source, net: RecogniserNet = net) -> Tensor:
            rows = rng.integers(len(pairs), size=2 * budget.batch)
            (faces,) = _mirrored(rng, _shifted(rng, source[rows]))
            vectors = net(faces)
            imitation = (vectors - targets[rows]).pow(2).sum(1).mean()
            return imitation + 0.2 * F.cross_entropy(net.person_logits(vectors), owners[rows])

        steps += fit(
            net,
            step,
            budget=budget.part(share),
            seed=seed,
            what=f"attack: recogniser on {what} faces",
            progress=progress,
        )
        kept = RecogniserNet(people)
        kept.load_state_dict(net.state_dict())
        nets.append(kept.eval())
    return nets[0], nets[1], steps


def inverted(net: InverterNet, faces: list[Image]) -> list[Image]:
    """Guesses for pictures [112, 112, 3]."""
    found: list[Image] = []
    for start in range(0, len(faces), BATCH):
        with torch.inference_mode():
            guess = net(_tensor(np.stack(faces[start : start + BATCH]))).clamp(0, 1)
        pixels = (guess * 255).round().to(torch.uint8).permute(0, 2, 3, 1).flip(3)
        found += list(np.ascontiguousarray(pixels.numpy()))
    return found


def described(net: RecogniserNet, faces: list[Image]) -> Vectors:
    """Unit vectors [n, 128] of pictures [112, 112, 3]."""
    parts: list[Vectors] = [np.zeros((0, 128), np.float32)]
    for start in range(0, len(faces), 32):
        with torch.inference_mode():
            parts.append(net(_tensor(np.stack(faces[start : start + 32]))).numpy())
    return np.concatenate(parts)


def save(net: nn.Module, path: Path) -> None:
    """Weights only, complete or not at all."""
    temporary = path.with_suffix(".part")
    torch.save(net.state_dict(), temporary)
    temporary.replace(path)


def load(net: nn.Module, path: Path) -> None:
    """Weights that ``save`` wrote, into a network of the same shape."""
    net.load_state_dict(torch.load(path, weights_only=True))
    net.eval()


def _tensor(bgr: Batch) -> Tensor:
    """[B, H, W, 3] BGR -> [B, 3, H, W] RGB in 0..1."""
    return torch.from_numpy(np.ascontiguousarray(bgr[..., ::-1])).permute(0, 3, 1, 2).float() / 255


def _mirrored(rng: np.random.Generator, *batches: Batch) -> list[Tensor]:
    flip = rng.random() < 0.5
    return [_tensor(batch[:, :, ::-1] if flip else batch) for batch in batches]


def _shifted(rng: np.random.Generator, batch: Batch) -> Batch:
    """Moved by up to four pixels: the attacker's crops need not be exact."""
    across, down = (int(value) for value in rng.integers(-4, 5, size=2))
    return np.roll(batch, (down, across), (1, 2))


def _slopes(picture: Tensor, axis: int) -> Tensor:
    return picture.diff(dim=axis)
