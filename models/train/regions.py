"""Training of the attention LSTM that predicts where known objects will be.

After Elf (Zhang et al., MobiCom 2021): an encoder LSTM over an object's last boxes, a decoder LSTM that
attends to the encoder's states at every step, mean squared error of the four edges plus 1 - IoU, Adam.
Other than there, boxes are given relative to the last one and in parts of its size, so that the network need
not learn the same motion anew for every place and size, and the age of each box is an input, since answers
may come late.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from base.files import atomic_write
from models.card import CARD_VERSION
from models.train.region_tracks import Samples, cut_samples, read_tracks
from models.train.run import settings_text

FEATURES = 6  # four edges, area, age
EDGE_GAIN = 10.0  # edges in tenths of the object's size: numbers of about 1
AGE_UNIT = 4.0  # frames


@dataclass(frozen=True, slots=True)
class RegionTraining:
    """How the region predictor is trained."""

    boxes: tuple[Path, ...]  # JSON Lines of `veilcam detect` on the training clips
    out: Path
    window: int = 5  # boxes of history
    hidden: int = 16  # states of encoder and decoder
    horizons: tuple[int, ...] = (1, 2, 3)  # frames ahead
    strides: tuple[int, ...] = (1, 2, 3)  # speeds: every so many-th picture
    min_score: float = 0.3
    min_length: int = 4  # boxes of a track
    steps: int = 5000
    batch: int = 256
    learning_rate: float = 2e-3
    jitter: float = 0.02  # detector noise added to histories, in parts of the size
    weight_iou: float = 1.0
    seed: int = 1
    threads: int = 1


class AttentionLstm(nn.Module):
    """Encoder, additive attention, decoder: [B, T, FEATURES] to [B, 4] edge offsets in tenths of the size."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.encoder = nn.LSTMCell(FEATURES, hidden)
        self.ask = nn.Linear(2 * hidden, hidden)  # of the decoder's hidden and cell state
        self.offer = nn.Linear(hidden, hidden, bias=False)  # of the encoder's states
        self.score = nn.Linear(hidden, 1, bias=False)
        self.mix = nn.Linear(hidden + FEATURES, FEATURES)
        self.decoder = nn.LSTMCell(FEATURES, hidden)
        self.head = nn.Linear(2 * hidden, 4)
        nn.init.zeros_(self.head.weight)  # at first: everything stays where it is
        nn.init.zeros_(self.head.bias)

    def forward(self, features: Tensor) -> Tensor:
        """See the class."""
        count, window, _ = features.shape
        hidden = self.decoder.hidden_size
        state = (features.new_zeros(count, hidden), features.new_zeros(count, hidden))
        states = []
        for step in range(window):
            state = self.encoder(features[:, step], state)
            states.append(state[0])
        encoded = torch.stack(states, 1)  # [B, T, H]
        offered = self.offer(encoded)
        state = (features.new_zeros(count, hidden), features.new_zeros(count, hidden))
        context = encoded[:, -1]
        for step in range(window):
            asked = self.ask(torch.cat(state, 1))[:, None]
            weight = torch.softmax(self.score(torch.tanh(asked + offered)), 1)
            context = (weight * encoded).sum(1)
            mixed = self.mix(torch.cat([context, features[:, step]], 1))
            state = self.decoder(mixed, state)
        result: Tensor = self.head(torch.cat([state[0], context], 1))
        return result


def features_of(history: Tensor, age: Tensor) -> Tensor:
    """[B, T, FEATURES] from boxes [B, T, 4] and ages [B, T]; as analytics.elf.attention_lstm has them."""
    size = sizes(history[:, -1])[:, None]
    edges = (history - history[:, -1:]) / size * EDGE_GAIN
    sides = (history[..., 2:] - history[..., :2]).clamp(min=1.0)
    area = torch.log(sides.prod(-1, keepdim=True) / sides[:, -1:].prod(-1, keepdim=True))
    return torch.cat([edges, area, age[..., None] / AGE_UNIT], -1)


def sizes(boxes: Tensor) -> Tensor:
    """[B, 4]: width, height, width, height; at least 4 pixels."""
    sides = (boxes[:, 2:] - boxes[:, :2]).clamp(min=4.0)
    return torch.cat([sides, sides], 1)


def iou(a: Tensor, b: Tensor) -> Tensor:
    """[B]: intersection over union of boxes a[i] and b[i]."""
    shared = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0).prod(1)
    both = (a[:, 2:] - a[:, :2]).clamp(min=0).prod(1) + (b[:, 2:] - b[:, :2]).clamp(min=0).prod(1)
    return shared / (both - shared).clamp(min=1e-6)


def train_regions(
    settings: RegionTraining, progress: Callable[[float, dict[str, float]], None] | None = None
) -> dict[str, Any]:
    """Train, write ``weights/`` with card to ``settings.out``, and return the card."""
    torch.manual_seed(settings.seed)
    torch.set_num_threads(settings.threads)
    tracks = read_tracks(settings.boxes, settings.min_score, settings.min_length)
    samples = cut_samples(tracks, settings.window, settings.horizons, settings.strides)
    network = AttentionLstm(settings.hidden)
    optimiser = torch.optim.Adam(network.parameters(), settings.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, settings.steps)
    chance = np.random.default_rng(settings.seed)
    smooth: dict[str, float] = {}
    for step in range(settings.steps):
        history, age, target = _batch(samples, settings, chance)
        size = sizes(history[:, -1])
        offset = network(features_of(history, age))
        squared = (offset - (target - history[:, -1]) / size * EDGE_GAIN).square().clamp(max=100).mean()
        missed = 1 - iou(history[:, -1] + offset / EDGE_GAIN * size, target).mean()
        loss = squared + settings.weight_iou * missed
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        for name, value in (("squared", squared), ("iou_lost", missed)):
            smooth[name] = 0.98 * smooth.get(name, float(value.detach())) + 0.02 * float(value.detach())
        if progress and step % 100 == 0:
            progress(step / settings.steps, dict(smooth))
    return _export(network, settings, len(tracks), len(samples.target), smooth)


def _batch(
    samples: Samples, settings: RegionTraining, chance: np.random.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Random samples with detector noise, half of them mirrored left to right, half top to bottom."""
    rows = chance.integers(0, len(samples.target), settings.batch)
    history, target = samples.history[rows].copy(), samples.target[rows].copy()
    sides = np.tile(history[:, -1:, 2:] - history[:, -1:, :2], (1, 1, 2))
    history += settings.jitter * chance.standard_normal(history.shape).astype(np.float32) * sides
    for axis in (0, 1):
        turned = chance.random(settings.batch) < 0.5
        for boxes in (history, target):
            boxes[turned, ..., axis], boxes[turned, ..., axis + 2] = (
                -boxes[turned, ..., axis + 2],
                -boxes[turned, ..., axis],
            )
    return torch.from_numpy(history), torch.from_numpy(samples.age[rows]), torch.from_numpy(target)


def _export(
    network: AttentionLstm,
    settings: RegionTraining,
    num_tracks: int,
    num_samples: int,
    smooth: dict[str, float],
) -> dict[str, Any]:
    folder = settings.out / "weights"
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {name: value.detach().numpy().astype(np.float32) for name, value in network.state_dict().items()}
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    data = stream.getvalue()
    name = "regions-v1.npz"
    atomic_write(folder / name, data)
    card = {
        "card": CARD_VERSION,
        "name": "regions-v1",
        "network": {
            "size_multiple": 1,
            "window": settings.window,
            "hidden": settings.hidden,
            "parameters": sum(value.size for value in arrays.values()),
        },
        "files": {name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}},
        "licence": "Apache-2.0; training data: see NOTICE",
        "training": {
            "settings": settings_text(asdict(settings)),
            "tracks": num_tracks,
            "samples": num_samples,
            "last_losses": {key: round(value, 5) for key, value in smooth.items()},
        },
        "metrics": {},
    }
    atomic_write(folder / "regions-v1.json", json.dumps(card, indent=2).encode() + b"\n")
    return card
