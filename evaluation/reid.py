"""Bodies: whether a person re-identification network finds someone again in later frames."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from analytics.interface import Image
from evaluation.context import Context
from evaluation.data import TrackedBox, read_bgr
from evaluation.detectors import Run, open_onnx
from evaluation.identify import Attempt
from evaluation.pictures import resized
from evaluation.recogniser import Vectors, distances
from evaluation.results import Part, Row, Table
from evaluation.statistics import proportion

_MEAN = np.array([0.485, 0.456, 0.406], np.float32)  # of ImageNet, RGB
_SPREAD = np.array([0.229, 0.224, 0.225], np.float32)
SIZE_WH = (128, 256)


def reid(context: Context) -> Part:
    """The part: MOT people of the first frame are the gallery, of the later frames the probes."""
    model = context.data.model("osnet_x0_25_msmt17.onnx")
    boxes = context.data.tracked()
    if model is None or not boxes:
        return Part("reid", skipped="needs models/osnet_x0_25_msmt17.onnx and mot/ with labelled people")
    run = open_onnx(model, context.threads)
    first: dict[str, int] = {}
    for box in boxes:
        first[box.identity] = min(first.get(box.identity, box.frame), box.frame)
    gallery = [box for box in boxes if box.frame == first[box.identity]]
    last = {box.identity: max(one.frame for one in boxes if one.identity == box.identity) for box in boxes}
    probes = [box for box in boxes if box.frame == last[box.identity] > first[box.identity]]
    probes = probes[: context.limit(len(probes), quick=6)]
    place = {box.identity: index for index, box in enumerate(gallery)}
    owners = np.array([place[box.identity] for box in probes], np.int64)
    clear_gallery, own_gallery = _described(context, run, gallery)
    clear_probes, seen_probes = _described(context, run, probes)
    bound = Attempt(distances(clear_probes, clear_gallery), owners)
    attacks = {
        "protected probes, clear gallery": Attempt(distances(seen_probes, clear_gallery), owners),
        "protected probes, protected gallery (parrot)": Attempt(distances(seen_probes, own_gallery), owners),
    }
    rows = []
    clear = bound.rank1().value
    for name, attack in attacks.items():
        hits = attack.hits
        note = f"{hits.mean() / clear:.0%} of clear; floor and aim: half of clear" if clear else ""
        rows.append(
            Row.of(
                name,
                proportion(int(hits.sum()), len(hits)),
                clear=clear,
                chance=1 / len(gallery),
                floor=clear / 2,
                aim=clear / 2,
                note=note,
            )
        )
    note = (
        f"OSNet x0.25 (MSMT17), {len(gallery)} people at least 64 pixels high of all MOT sequences together; "
        "gallery from the "
        "first frame, probes from the last one that shows them, a fraction of a second later: an easy task "
        "in clear."
    )
    return Part(
        "reid", (Table("Body re-identification, rank-1", "share", "probes", False, tuple(rows), note),)
    )


def _described(context: Context, run: Run, boxes: Sequence[TrackedBox]) -> tuple[Vectors, Vectors]:
    """Unit vectors of all boxes in clear and in protected frames, in the order given."""
    order = sorted(range(len(boxes)), key=lambda index: str(boxes[index].path))
    clear: dict[int, Vectors] = {}
    seen: dict[int, Vectors] = {}
    frames = [(path, list(group)) for path, group in groupby(order, key=lambda index: boxes[index].path)]
    for path, indices in context.track("reid", frames):
        picture = read_bgr(path)
        looks = (context.camera.clear_still(picture).image, context.camera.still(picture).image)
        for store, look in zip((clear, seen), looks, strict=True):
            for index in indices:
                store[index] = _vector(run, _cut(look, boxes[index]))
    return tuple(  # type: ignore[return-value]  # two of them
        np.stack([store[index] for index in range(len(boxes))]) for store in (clear, seen)
    )


def _cut(picture: Image, box: TrackedBox) -> Image:
    left, top, width, height = box.box_xywh
    rows = slice(max(top, 0), max(top + height, 1))
    columns = slice(max(left, 0), max(left + width, 1))
    return picture[rows, columns]


def _vector(run: Run, crop: Image) -> Vectors:
    rgb = resized(crop, *SIZE_WH)[:, :, ::-1].astype(np.float32) / 255
    batch = ((rgb - _MEAN) / _SPREAD).transpose(2, 0, 1)[None]
    vector = run(np.ascontiguousarray(batch, np.float32))[0]
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-9), np.float32)
