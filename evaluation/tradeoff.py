"""What each strength of the protector costs and buys: detectors against recognisers and bits."""

from __future__ import annotations

from analytics import Detections
from base.errors import MissingDependency
from evaluation.context import Context
from evaluation.detectors import open_detectors
from evaluation.faces import described, missing_people, open_recogniser, people, through_camera
from evaluation.identify import attempt, identification_row
from evaluation.recogniser import distances
from evaluation.results import Curve, Part, Plot, Row, Table
from evaluation.statistics import Floats, resampled
from evaluation.utility import Scored, score
from models.strength import Strength

SIDES = (48, 80)


def tradeoff(context: Context) -> Part:
    """The part: every strength on the same pictures and faces, untrained attacker."""
    detectors = open_detectors(context.data.model("yolov5n_fp16.onnx"), None) + context.extra_detectors
    folk = people(context.data, first_unseen=context.first_unseen, limit=context.probes, quick=context.quick)
    pictures = context.data.coco(context.limit(86))
    if not detectors or not pictures or folk is None:
        return Part("tradeoff", skipped=f"needs a detector, detection/ and faces: {missing_people(context)}")
    try:
        recogniser = open_recogniser(context)
    except MissingDependency as error:
        return Part("tradeoff", skipped=str(error))
    detector = detectors[0]
    truth, groups = [one.truth for one in pictures], [one.group for one in pictures]
    plain = [context.camera.clear_still(one.image) for one in context.track("tradeoff: clear", pictures)]
    clear = score([detector.detect(one.image) for one in plain], truth, groups)
    gallery = described(context, recogniser, [face.crop for face in folk.gallery], "tradeoff: gallery")
    probes = folk.probes[::2] or folk.probes
    owners = [face.owner for face in probes]
    bounds = {
        side: described(
            context,
            recogniser,
            through_camera(probes, side, folk.backgrounds, context.camera.clear_still),
            f"tradeoff: {side} px, clear",
        )
        for side in SIDES
    }
    utility: list[Row] = []
    privacy: list[Row] = []
    bits: list[Row] = []
    curves: dict[int, list[tuple[float, float]]] = {side: [] for side in SIDES}
    for strength in Strength:
        name = strength.name.lower()
        camera = context.camera.with_strength(strength)
        found: list[Detections] = []
        spent: list[float] = []
        for one, coded in zip(context.track(f"tradeoff: {name}", pictures), plain, strict=True):
            look = camera.still(one.image)
            found.append(detector.detect(look.image))
            spent.append(look.bits / coded.bits)
        row = _relative(name, score(found, truth, groups), clear)
        utility.append(row)
        bits.append(_share(name, spent))
        for side in SIDES:
            looks = through_camera(probes, side, folk.backgrounds, camera.still)
            vectors = described(context, recogniser, looks, f"tradeoff: {name}, {side} px")
            attack = attempt(distances(vectors, gallery), owners)
            bound = attempt(distances(bounds[side], gallery), owners)
            privacy.append(identification_row(f"{name}, {side} px, naive", attack, bound))
            curves[side].append((row.value, attack.rank1().value))
        recogniser.save()
    note = (
        f"x264 CRF {context.camera.crf:g} veryfast, intra; {detector.name}, {recogniser.name}, clear gallery."
    )
    return Part(
        "tradeoff",
        (
            Table(
                "mAP50 relative to clear by strength, weighted by objects",
                "ratio",
                "pictures",
                True,
                tuple(utility),
                note,
            ),
            Table("Face identification, rank-1, by strength", "share", "probes", False, tuple(privacy), note),
            Table(
                "Bits by clear at the same CRF, by strength", "ratio", "pictures", False, tuple(bits), note
            ),
        ),
        (
            Plot(
                "Utility against privacy, one point per strength",
                "mAP50 relative to clear, by objects",
                "face rank-1",
                tuple(Curve(f"{side} px", tuple(points)) for side, points in curves.items()),
            ),
        ),
    )


def _relative(name: str, seen: Scored, clear: Scored) -> Row:
    def ratio(weights: Floats) -> float:
        below = clear.map50(weights, by_objects=True)
        return seen.map50(weights, by_objects=True) / below if below else float("nan")

    return Row.of(name, resampled(ratio, clear.num_groups), clear=1.0, chance=0.0, floor=0.96, aim=0.99)


def _share(name: str, spent: list[float]) -> Row:
    def mean_of(weights: Floats) -> float:
        return float(weights @ spent / weights.sum())

    return Row.of(name, resampled(mean_of, len(spent)), clear=1.0)
