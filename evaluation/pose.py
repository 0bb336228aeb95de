"""Whether people still move as before: keypoints on protected pictures against those on clear ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analytics.interface import Image
from evaluation.average_precision import ClassMatches
from evaluation.camera import bgr_frames, read_clip
from evaluation.context import Context
from evaluation.detectors import PoseNetwork, Poses
from evaluation.results import Part, Row, Table
from evaluation.statistics import Floats, resampled

# Standard deviation of annotators per keypoint, relative to the object's size (COCO keypoint evaluation).
# fmt: off
SIGMAS = np.array([
    .026, .025, .025, .035, .035, .079, .079, .072, .072, .062, .062, .107, .107, .087, .087, .089, .089,
])
# fmt: on
AREA_OF_BOX = 0.53  # COCO measures segments; a person fills about this share of its box
OKS_LEVELS = np.arange(0.5, 0.96, 0.05)
REFERENCE_SCORE, REFERENCE_SEEN = 0.6, 0.5
STRIDE = 5


@dataclass(frozen=True, slots=True)
class Reference:
    """People of one picture as the network sees them in the source: keypoints [n, 17, 3], areas [n]."""

    keypoints: npt.NDArray[np.float32]
    areas: npt.NDArray[np.float64]

    @classmethod
    def of(cls, poses: Poses) -> Reference:
        """The sure ones, with at least five sure keypoints."""
        sure = poses.scores >= REFERENCE_SCORE
        sure &= (poses.keypoints[..., 2] >= REFERENCE_SEEN).sum(1) >= 5
        sides = poses.boxes_xyxy[sure, 2:] - poses.boxes_xyxy[sure, :2]
        return cls(poses.keypoints[sure], AREA_OF_BOX * sides.astype(np.float64).prod(1))


def oks(found: npt.NDArray[np.float32], reference: Reference) -> Floats:
    """Object keypoint similarity of every found pose [n, 17, 3] with every reference pose: [n, m]."""
    if not len(found) or not len(reference.areas):
        return np.zeros((len(found), len(reference.areas)))
    gap = found[:, None, :, :2].astype(np.float64) - reference.keypoints[None, :, :, :2]
    squares = (gap**2).sum(3)
    scale = 2 * reference.areas[None, :, None] * (2 * SIGMAS) ** 2
    seen = reference.keypoints[None, :, :, 2] >= REFERENCE_SEEN
    near = np.exp(-squares / np.maximum(scale, 1e-9)) * seen
    result: Floats = near.sum(2) / np.maximum(seen.sum(2), 1)
    return result


def match_poses(found: Sequence[Poses], references: Sequence[Reference], level: float) -> ClassMatches:
    """Greedy, the surest pose first, at one similarity level."""
    image_index, scores, is_true = [], [], []
    for index, (poses, reference) in enumerate(zip(found, references, strict=True)):
        similar = oks(poses.keypoints, reference)
        free = np.ones(len(reference.areas), np.bool_)
        true = np.zeros(len(poses.scores), np.bool_)
        for row in np.argsort(-poses.scores, kind="stable"):
            candidates = np.where(free, similar[row], 0.0)
            if len(candidates) and candidates.max() >= level:
                free[candidates.argmax()] = False
                true[row] = True
        image_index.append(np.full(len(poses.scores), index))
        scores.append(poses.scores)
        is_true.append(true)
    order = np.argsort(-np.concatenate(scores), kind="stable")
    counts = np.array([len(reference.areas) for reference in references], np.int64)
    return ClassMatches(np.concatenate(image_index)[order], np.concatenate(is_true)[order], counts)


def keypoint_ap(matches: Sequence[ClassMatches], weights: Floats) -> float:
    """Mean over the similarity levels; nan without people."""
    return float(np.mean([one.average_precision(weights) for one in matches]))


def pose(context: Context) -> Part:
    """The part: labelled pictures (their own labels are not used) and clips of one person each."""
    model = context.data.model("yolov8n-pose_int8_openvino_model")
    if model is None:
        return Part("pose", skipped="no yolov8n-pose_int8_openvino_model in models/")
    network = PoseNetwork(model)
    sources, groups = _pictures(context)
    if not sources:
        return Part("pose", skipped="no pictures and no clips in the data folder")
    references, clear, seen = [], [], []
    for source, plain, drawn in context.track("pose: keypoints", sources):
        references.append(Reference.of(network(source)))
        clear.append(network(plain))
        seen.append(network(drawn))
    kinds = {"all": np.ones(len(groups), np.bool_)}
    kinds |= {kind: np.array([group[0] == kind for group in groups]) for kind in ("stills", "webcam clips")}
    rows = [
        row
        for kind, chosen in kinds.items()
        if chosen.any()
        for row in _rows(kind, chosen, references=references, clear=clear, seen=seen, groups=groups)
    ]
    people = sum(len(one.areas) for one in references)
    note = (
        f"{network.name}, {people} people. No keypoint labels: what the same network sees in the source "
        "before any codec, "
        f"at score {REFERENCE_SCORE} with five sure keypoints, is the truth. AP over OKS {OKS_LEVELS[0]:.2f} "
        "to "
        f"{OKS_LEVELS[-1]:.2f} as in COCO. Intervals resample pictures, and webcam clips as a whole."
    )
    return Part(
        "pose", (Table("Keypoints (OKS) against clear video", "ratio", "pictures", True, tuple(rows), note),)
    )


def _pictures(context: Context) -> tuple[list[tuple[Image, Image, Image]], list[tuple[str, str]]]:
    """Source, clear after the codec, protected after the codec; kind and group of each."""
    found: list[tuple[Image, Image, Image]] = []
    groups: list[tuple[str, str]] = []
    stills = context.data.coco(context.limit(86)) + context.data.mot(context.limit(4, 1))
    for one in context.track("pose: protecting pictures", stills):
        found.append(
            (one.image, context.camera.clear_still(one.image).image, context.camera.still(one.image).image)
        )
        groups.append(("stills", one.name + one.group))
    clips = context.data.action_clips(context.limit(15, 1))
    for path in context.track("pose: protecting clips", clips):
        frames, rate = read_clip(path, count=context.clip_frames)
        versions = (
            frames,
            context.camera.clear_video(frames, rate).frames,
            context.camera.video(frames, rate).frames,
        )
        for source, plain, drawn in zip(*(bgr_frames(one[::STRIDE]) for one in versions), strict=True):
            found.append((source, plain, drawn))
            groups.append(("webcam clips", path.stem))
    return found, groups


def _rows(
    kind: str,
    chosen: npt.NDArray[np.bool_],
    *,
    references: list[Reference],
    clear: list[Poses],
    seen: list[Poses],
    groups: list[tuple[str, str]],
) -> list[Row]:
    index = np.flatnonzero(chosen).tolist()
    truth = [references[i] for i in index]
    matched = {
        name: [match_poses([poses[i] for i in index], truth, level) for level in OKS_LEVELS.tolist()]
        for name, poses in (("clear", clear), ("seen", seen))
    }
    order = {group: place for place, group in enumerate(dict.fromkeys(groups[i] for i in index))}
    places = [order[groups[i]] for i in index]

    def ap(name: str, weights: Floats) -> float:
        return keypoint_ap(matched[name], weights[places])

    def ratio(weights: Floats) -> float:
        bound = ap("clear", weights)
        return ap("seen", weights) / bound if bound else float("nan")

    once = np.ones(len(order))
    absolute = resampled(lambda weights: ap("seen", weights), len(order), n=len(index))
    relative = resampled(ratio, len(order), n=len(index))
    return [
        Row.of(f"{kind}: AP", absolute, clear=ap("clear", once), chance=0.0),
        Row.of(f"{kind}: relative to clear", relative, clear=1.0, chance=0.0, floor=0.90, aim=0.96),
    ]
