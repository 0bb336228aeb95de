"""The loop that every training shares: time limit, smoothed figures, history, checkpoints, pictures."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from base.files import atomic_write
from models.train.plots import plot_history

PROGRESS_STEPS = 20
SAVE_STEPS = 100
PICTURE_SECONDS = 300.0

Progress = Callable[[float, dict[str, float]], None]


@dataclass(slots=True)
class RunState:
    """Where a training stands; part of its checkpoint."""

    step: int = 0
    seconds: float = 0.0
    price: float = 1.0  # of a coded bit; follows a budget
    smooth: dict[str, float] = field(default_factory=dict)

    def note(self, figures: Mapping[str, float]) -> None:
        """Take figures into the running means, which forget with a factor of 0.98 a step."""
        for name, value in figures.items():
            self.smooth[name] = 0.98 * self.smooth.get(name, value) + 0.02 * value

    def follow_budget(self, *, over: bool, lowest: float, highest: float) -> None:
        """Raise the price of bits while too many are spent, lower it otherwise."""
        self.price = min(highest, max(lowest, self.price * (1.005 if over else 0.995)))
        self.smooth["price"] = self.price


class Trainer(Protocol):
    """One training, as the loop sees it."""

    @property
    def state(self) -> RunState:
        """Where it stands; ``step`` is counted by the training itself."""

    def train(self, share: float) -> None:
        """One step; ``share`` of the time is used up."""

    def checkpoint(self) -> dict[str, Any]:
        """Everything to continue from: tensors and plain values."""

    def described(self) -> dict[str, Any]:
        """What goes on the model card."""

    def draw_sheet(self, path: Path) -> None:
        """Write a picture of what the networks do now."""


def run_for(trainer: Trainer, out: Path, minutes: float, progress: Progress | None = None) -> None:
    """Train until ``minutes`` in all are used up, earlier runs included.

    Writes to ``out``: checkpoint.pt, settings.json, history.jsonl, and every five minutes
    figures.png and sheet.jpg.
    """
    limit = minutes * 60
    state = trainer.state
    began, before, drawn = time.monotonic(), state.seconds, 0.0
    reported = saved = state.step
    while state.seconds < limit:
        trainer.train(state.seconds / limit)
        state.seconds = before + time.monotonic() - began
        if state.step - reported >= PROGRESS_STEPS:
            reported = state.step
            _append(out, state)
            if progress:
                progress(min(1.0, state.seconds / limit), dict(state.smooth))
        if state.step - saved >= SAVE_STEPS:
            saved = state.step
            save(trainer, out)
        if state.seconds - drawn > PICTURE_SECONDS:
            drawn = state.seconds
            _draw(trainer, out)
    save(trainer, out)
    _draw(trainer, out)


def save(trainer: Trainer, out: Path) -> None:
    """Write checkpoint and settings, each complete or not at all."""
    temporary = out / ".checkpoint.pt.part"
    torch.save(trainer.checkpoint(), temporary)
    temporary.replace(out / "checkpoint.pt")
    atomic_write(out / "settings.json", json.dumps(trainer.described(), indent=2).encode() + b"\n")


def load(out: Path) -> dict[str, Any] | None:
    """The checkpoint in ``out``, or None."""
    path = out / "checkpoint.pt"
    if not path.exists():
        return None
    stored: dict[str, Any] = torch.load(path, weights_only=True)
    return stored


def _append(out: Path, state: RunState) -> None:
    line = {"step": state.step, "seconds": round(state.seconds, 1), **state.smooth}
    with (out / "history.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _draw(trainer: Trainer, out: Path) -> None:
    plot_history(out / "history.jsonl", out / "figures.png")
    trainer.draw_sheet(out / "sheet.jpg")


def scheduled_rate(highest: float, step: int, share: float, *, warm_up_steps: int) -> float:
    """Learning rate: a linear start, then a half cosine over the run's time down to a hundredth."""
    warm_up = min(1.0, (step + 1) / warm_up_steps)
    return highest * warm_up * (0.5 * (1 + math.cos(math.pi * share)) + 0.01)


def running_mean(network: nn.Module, decay: float) -> AveragedModel:
    """A copy of ``network`` that follows its weights and buffers with an exponential mean."""
    return AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)


def mean_weights(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The running mean in a checkpoint, as a state of the network itself."""
    prefix = "module."
    return {key[len(prefix) :]: value for key, value in stored["averaged"].items() if key.startswith(prefix)}


def card_text(settings: object, state: RunState, figures: str) -> dict[str, Any]:
    """What a training tells on a model card; ``figures`` is what its running means are called there."""
    training = {
        "settings": settings_text(asdict(cast(Any, settings))),
        "steps": state.step,
        "seconds": round(state.seconds),
        figures: {name: round(value, 4) for name, value in state.smooth.items()},
    }
    return {"licence": "Apache-2.0", "training": training, "metrics": {}}


def settings_text(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for a card: paths become names, since a card holds no machine's paths."""

    def plain(value: object) -> object:
        if isinstance(value, tuple):
            return [plain(each) for each in value]
        return value.name if isinstance(value, Path) else value

    return {name: plain(value) for name, value in settings.items() if name != "out"}
