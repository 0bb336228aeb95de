"""A frozen object detector whose opinion the protected picture has to keep."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import Tensor

from models.yolox_head import STRIDES


@dataclass(frozen=True, slots=True)
class Opinion:
    """Raw YOLOX head over all anchors [B, A, ...]: boxes (grid units), objectness, classes in 0..1."""

    boxes: Tensor
    objectness: Tensor
    classes: Tensor


class Judge(Protocol):
    """What the trainer needs of a teacher."""

    def __call__(self, rgb: Tensor) -> Opinion:
        """RGB [B, 3, H, W] in 0..1 -> opinion over all anchors of strides 8, 16, 32."""


class Teacher:
    """YOLOX (Ge et al. 2021) as a differentiable function of an RGB picture."""

    def __init__(self, model: Path) -> None:
        from onnx2torch import convert  # noqa: PLC0415  (slow import, training only)

        graph = onnx.load(str(model))
        for tensor in graph.graph.initializer:
            values = numpy_helper.to_array(tensor)
            if values.dtype == np.int64 and values.tolist() == [1, 85, -1]:
                # The export fixed the batch to 1; 0 means "as the input".
                tensor.CopyFrom(numpy_helper.from_array(np.array([0, 85, -1], np.int64), tensor.name))
        self._net = convert(graph).eval()
        for parameter in self._net.parameters():
            parameter.requires_grad_(False)

    def __call__(self, rgb: Tensor) -> Opinion:
        """RGB [B, 3, H, W] in 0..1, H and W multiples of 32."""
        raw = self._net(rgb.flip(1) * 255)
        return Opinion(raw[..., :4], raw[..., 4].clamp(1e-4, 1 - 1e-4), raw[..., 5:].clamp(1e-4, 1 - 1e-4))


def anchor_weights(ignored: Tensor) -> Tensor:
    """[B, 1, H, W] mask of ignored pixels -> [B, A], 0 for anchors that look at one."""
    maps = [1 - F.max_pool2d(ignored, stride).flatten(1) for stride in STRIDES]
    return torch.cat(maps, 1)


def _excess_cross_entropy(predicted: Tensor, wanted: Tensor) -> Tensor:
    """Cross-entropy minus the wanted distribution's own entropy: 0 for agreement."""
    own = F.binary_cross_entropy(wanted, wanted, reduction="none")
    return F.binary_cross_entropy(predicted, wanted, reduction="none") - own


def disagreement(clear: Opinion, protected: Opinion, weights: Tensor) -> Tensor:
    """How far the detector changed its mind; 0 = same boxes, objectness and classes."""
    certainty = (clear.objectness * clear.classes.amax(-1)).clamp(0, 1) * weights  # [B, A]
    total = certainty.sum() + 1
    boxes = (clear.boxes - protected.boxes).abs().clamp(max=3).sum(-1)
    classes = _excess_cross_entropy(protected.classes, clear.classes).sum(-1)
    objectness = (_excess_cross_entropy(protected.objectness, clear.objectness) * weights).sum()
    return ((0.3 * boxes + classes) * certainty).sum() / total + 2 * objectness / total
