"""What unmodified detectors still find: mAP50 on labelled pictures, agreement with clear video on clips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analytics import Detections, Detector
from analytics.classes import COCO_NAMES
from analytics.interface import Image
from evaluation.average_precision import ClassMatches, Truth, match_class, mean_ap
from evaluation.camera import bgr_frames, read_clip
from evaluation.context import Context
from evaluation.data import Labelled
from evaluation.detectors import open_detectors
from evaluation.drawing import GREEN, sheet, with_boxes
from evaluation.results import Part, Row, Sheet, Table
from evaluation.statistics import Estimate, Floats, resampled

LABELS = ("person", "bicycle", "car", "motorcycle", "bus", "truck")
REFERENCE_SCORE = 0.5
"""Nobody labelled the clips: what the detector finds in the source at this score is taken as there."""
CLIP_STRIDE = 5

Mean = Callable[[Sequence[ClassMatches], Floats], float]


@dataclass(frozen=True, slots=True)
class Scored:
    """One detector on one set of pictures: matches per class and the group of every picture."""

    matches: tuple[ClassMatches, ...]
    groups: tuple[int, ...]

    @property
    def num_groups(self) -> int:
        """How many groups are resampled for an interval."""
        return len(set(self.groups))

    def map50(self, group_weights: Floats, *, by_objects: bool = False) -> float:
        """Mean average precision with each group counted so many times."""
        return mean_ap(self.matches, group_weights[list(self.groups)], by_objects=by_objects)


def score(
    found: Sequence[Detections], truth: Sequence[Truth], groups: Sequence[str], labels: Sequence[str] = LABELS
) -> Scored:
    """Match detections to labels, class by class."""
    order = {name: index for index, name in enumerate(dict.fromkeys(groups))}
    matches = tuple(match_class(found, truth, label, COCO_NAMES.index(label)) for label in labels)
    return Scored(matches, tuple(order[group] for group in groups))


def rows(name: str, protected: Scored, clear: Scored, num_pictures: int) -> list[Row]:
    """Protected and relative mAP50, every class alike and by objects."""
    found = []
    for suffix, by_objects in (("", False), (", weighted by objects", True)):
        one = _absolute(protected, num_pictures, by_objects=by_objects)
        bound = clear.map50(np.ones(clear.num_groups), by_objects=by_objects)
        found.append(Row.of(f"{name}: mAP50{suffix}", one, clear=bound, chance=0.0))
        ratio = _relative(protected, clear, num_pictures, by_objects=by_objects)
        found.append(
            Row.of(
                f"{name}: relative to clear{suffix}",
                ratio,
                clear=1.0,
                chance=0.0,
                floor=0.96,
                aim=0.99,
            )
        )
    return found


def _absolute(scored: Scored, n: int, *, by_objects: bool) -> Estimate:
    return resampled(lambda weights: scored.map50(weights, by_objects=by_objects), scored.num_groups, n=n)


def _relative(protected: Scored, clear: Scored, n: int, *, by_objects: bool) -> Estimate:
    """Both from the same resample: pictures that are hard for one are hard for the other."""

    def ratio(weights: Floats) -> float:
        below = clear.map50(weights, by_objects=by_objects)
        return protected.map50(weights, by_objects=by_objects) / below if below else float("nan")

    return resampled(ratio, clear.num_groups, n=n)


def utility(context: Context) -> Part:
    """The part: COCO val, MOT, and agreement on clips, for each detector at hand."""
    data = context.data
    detectors = open_detectors(data.model("yolov5n_fp16.onnx"), data.model("yolov8n_int8_openvino_model"))
    detectors += context.extra_detectors
    if not detectors:
        return Part(
            "utility", skipped="no detector in models/ (yolov5n_fp16.onnx, yolov8n_int8_openvino_model)"
        )
    tables, sheets = [], []
    for title, pictures, labels, counts in (
        ("COCO val2017, persons and vehicles", data.coco(context.limit(86)), LABELS, "pictures"),
        (
            "MOT17 frames, pedestrians",
            data.mot(context.limit(8)),
            ("person",),
            "frames, resampled by sequence",
        ),
    ):
        if pictures:
            table, pages = _labelled(context, title, pictures, labels, counts=counts, detectors=detectors)
            tables.append(table)
            sheets += pages
    clips = data.clips(context.limit(13))
    if clips:
        tables.append(_clips(context, detectors))
    if not tables:
        return Part("utility", skipped="no labelled pictures and no clips in the data folder")
    return Part("utility", tuple(tables), sheets=tuple(sheets))


def _labelled(
    context: Context,
    title: str,
    pictures: list[Labelled],
    labels: Sequence[str],
    *,
    counts: str,
    detectors: list[Detector],
) -> tuple[Table, list[Sheet]]:
    clear: list[list[Detections]] = [[] for _ in detectors]
    seen: list[list[Detections]] = [[] for _ in detectors]
    bits = [0, 0]
    lost: list[tuple[int, Image]] = []
    for index, one in enumerate(context.track(f"utility: {title}", pictures)):
        plain, drawn = context.camera.clear_still(one.image), context.camera.still(one.image)
        bits[0], bits[1] = bits[0] + plain.bits, bits[1] + drawn.bits
        for place, detector in enumerate(detectors):
            clear[place].append(detector.detect(plain.image))
            seen[place].append(detector.detect(drawn.image))
        loss = _confident(clear[0][index], labels) - _confident(seen[0][index], labels)
        if loss > 0:
            drawn_in = with_boxes(with_boxes(drawn.image, clear[0][index], colour=GREEN), seen[0][index])
            lost = sorted([*lost, (loss, drawn_in)], key=lambda entry: -entry[0])[:6]
    truth, groups = [one.truth for one in pictures], [one.group for one in pictures]
    found: list[Row] = []
    for place, detector in enumerate(detectors):
        scored = [score(one[place], truth, groups, labels) for one in (seen, clear)]
        found += rows(detector.name, scored[0], scored[1], len(pictures))
    note = (
        f"Clear and protected both after x264 CRF {context.camera.crf:g} veryfast, intra. Protected takes "
        f"{bits[1] / max(bits[0], 1):.0%} of the bits of clear. Objects: {_objects(truth, labels)}."
    )
    page = context.save_sheet(
        f"utility-{title[:4].strip().lower()}",
        sheet([picture for _, picture in lost], columns=2, width=560),
        f"{title}: failures. Protected pictures where {detectors[0].name} lost most (green: found in clear, "
        "yellow: found in protected)",
    )
    return Table(title, "ratio", counts, True, tuple(found), note), [page]


def _confident(found: Detections, labels: Sequence[str]) -> int:
    return int((found.with_labels(labels).scores >= 0.4).sum())


def _objects(truth: Sequence[Truth], labels: Sequence[str]) -> str:
    ids = np.concatenate([one.class_ids for one in truth])
    return ", ".join(f"{label} {int((ids == COCO_NAMES.index(label)).sum())}" for label in labels)


def _clips(context: Context, detectors: list[Detector]) -> Table:
    """Against the detector's own opinion of the source pictures before any codec."""
    reference: list[list[Truth]] = [[] for _ in detectors]
    clear: list[list[Detections]] = [[] for _ in detectors]
    seen: list[list[Detections]] = [[] for _ in detectors]
    groups: list[str] = []
    for path in context.track("utility: clips", context.data.clips(context.limit(13))):
        frames, rate = read_clip(path, count=context.clip_frames)
        versions = (
            frames,
            context.camera.clear_video(frames, rate).frames,
            context.camera.video(frames, rate).frames,
        )
        for shown in zip(*(bgr_frames(one[::CLIP_STRIDE]) for one in versions), strict=True):
            groups.append(path.stem)
            for place, detector in enumerate(detectors):
                source, plain, drawn = (detector.detect(one) for one in shown)
                reference[place].append(_as_truth(source))
                clear[place].append(plain)
                seen[place].append(drawn)
    found: list[Row] = []
    for place, detector in enumerate(detectors):
        scored = [score(one[place], reference[place], groups) for one in (seen, clear)]
        found += rows(detector.name, scored[0], scored[1], len(groups))
    note = (
        f"{context.clip_frames} consecutive frames of each clip, protected as a video, every {CLIP_STRIDE}th "
        "looked "
        "at. Nobody labelled the clips: what the same detector finds in the source at score "
        f"{REFERENCE_SCORE} "
        "counts as there, weaker finds count neither way. Intervals resample clips."
    )
    return Table(
        "Clips: agreement with clear detections",
        "ratio",
        "frames, resampled by clip",
        True,
        tuple(found),
        note,
    )


def _as_truth(source: Detections) -> Truth:
    sure = source.scores >= REFERENCE_SCORE
    return Truth(
        source.boxes_xyxy[sure],
        source.class_ids[sure],
        source.boxes_xyxy[~sure & (source.scores >= REFERENCE_SCORE / 2)],
    )
