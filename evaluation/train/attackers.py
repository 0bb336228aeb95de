"""Trained attackers as the parts use them; weights are kept in the cache, so that a cut run continues."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from analytics.interface import Image
from evaluation.context import Context
from evaluation.faces import See, open_recogniser
from evaluation.pairs import PATCH_PX, Pairs, face_pairs, patch_pairs
from evaluation.pictures import resized
from evaluation.plates import split
from evaluation.recogniser import Vectors
from evaluation.train.fit import Budget, described, fit_inverter, fit_recogniser, inverted, load, save
from evaluation.train.networks import InverterNet, RecogniserNet


@dataclass(frozen=True, slots=True)
class Inverter:
    """Guesses the clear look of protected square patches of any size."""

    net: InverterNet
    trained: str

    def __call__(self, patches: list[Image]) -> list[Image]:
        """Pictures [112, 112, 3]."""
        return inverted(self.net, [resized(patch, PATCH_PX, PATCH_PX) for patch in patches])


@dataclass(frozen=True, slots=True)
class Student:
    """A recogniser fine-tuned on protected faces (``describe``), and its state before (``clear``)."""

    before: RecogniserNet
    after: RecogniserNet
    trained: str

    def describe(self, faces: list[Image], *, clear: bool = False) -> Vectors:
        """Unit vectors [n, 128]; with ``clear`` by the network that saw clear faces only."""
        net = self.before if clear else self.after
        return described(net, [resized(face, PATCH_PX, PATCH_PX) for face in faces])


def train_inverter(context: Context, see: See, name: str = "inverter") -> Inverter:
    """On every face of the defender's people and on patches of his training pictures and plates."""
    torch.set_num_threads(context.threads)
    path = context.kept(f"{name}.pt")
    note = context.kept(f"{name}.txt")
    if path.exists() and note.exists():
        net = InverterNet()
        load(net, path)
        return Inverter(net, note.read_text())
    pairs = Pairs.joined([face_pairs(context, see), patch_pairs(context, see, _pictures(context))])
    net, steps = fit_inverter(
        pairs, budget=Budget(context.attack_minutes), seed=context.seed, progress=context.progress
    )
    trained = (
        f"U-Net, {steps} steps of 16 in {context.attack_minutes:g} minutes on {len(pairs)} pairs "
        f"({int((pairs.owners >= 0).sum())} of faces)"
    )
    save(net, path)
    note.write_text(trained)
    return Inverter(net, trained)


def train_student(context: Context, see: See, name: str = "student") -> Student:
    """Imitates dlib's description of the clear face, first from clear, then from protected faces."""
    torch.set_num_threads(context.threads)
    paths = [context.kept(f"{name}-{state}.pt") for state in ("before", "after")]
    note = context.kept(f"{name}.txt")
    if note.exists() and all(path.exists() for path in paths):
        nets = []
        for path in paths:
            people = len(torch.load(path, weights_only=True)["classes"])
            nets.append(RecogniserNet(people))
            load(nets[-1], path)
        return Student(nets[0], nets[1], note.read_text())
    pairs = face_pairs(context, see)
    wanted = unit(_clear_descriptions(context, pairs))
    before, after, steps = fit_recogniser(
        pairs, wanted, budget=Budget(context.attack_minutes), seed=context.seed, progress=context.progress
    )
    trained = (
        f"taught to describe like dlib, {steps} steps of 32 in {context.attack_minutes:g} minutes on "
        f"{len(pairs)} "
        f"pairs of {len(set(pairs.owners.tolist()))} people, a third of the time on clear faces"
    )
    for net, path in zip((before, after), paths, strict=True):
        save(net, path)
    note.write_text(trained)
    return Student(before, after, trained)


def unit(vectors: Vectors) -> Vectors:
    """Rows of length 1."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9), np.float32)


def _pictures(context: Context) -> list[Path]:
    """The defender's training pictures, and plates whose text is not in the test."""
    trained, _ = split(context.data.plates())
    found = context.data.training_pictures() + sorted({plate.path for plate in trained})
    return found[:: max(1, len(found) // context.limit(400, quick=4))]


def _clear_descriptions(context: Context, pairs: Pairs) -> Vectors:
    """Dlib's vectors of the clear crops; the store makes equal crops cheap."""
    recogniser = open_recogniser(context)
    rows = range(0, len(pairs), 16)
    parts = [
        recogniser.describe(list(pairs.clear[row : row + 16]))
        for row in context.track("attack: descriptions to imitate", rows)
    ]
    recogniser.save()
    return np.concatenate(parts)
