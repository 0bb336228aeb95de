"""The shipped networks on a picture with a face that is nobody's: the shipped mean, with marks of its own."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from base.frames import ClearFrame
from models import Background, Protector, load_protector
from models.drawn_face import MIDDLE, face_mask, read_drawn_face
from models.face_finder import FaceFinder
from models.places import FacePlace
from models.pyramid import GATE_ONE
from models.session import Input, Outputs

HEIGHT, WIDTH, SIDE, LEFT, TOP = 360, 640, 160, 240, 100
CORE = np.s_[TOP + 45 : TOP + 125, LEFT + 45 : LEFT + 115]


def _frame(marks: int, time_us: int = 0, left: int = LEFT) -> ClearFrame:
    """A smooth room with one face; ``marks`` seeds what tells it from others."""
    room = np.random.default_rng(0).integers(60, 120, (9, 16), dtype=np.uint8)
    luma = cv2.resize(room, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC).astype(np.float32)
    picture = cv2.imdecode(np.frombuffer(read_drawn_face().picture, np.uint8), cv2.IMREAD_UNCHANGED)
    face = cv2.resize(np.asarray(picture, np.float32) - MIDDLE, (SIDE, SIDE)) * 1.5 + 150
    spots = np.random.default_rng(marks).uniform(-25, 25, (20, 20)).astype(np.float32)
    face += cv2.resize(spots, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
    mask = cv2.resize(face_mask(), (SIDE, SIDE))
    window = luma[TOP : TOP + SIDE, left : left + SIDE]
    window += mask * (face - window)
    cb, cr = np.full((2, HEIGHT // 2, WIDTH // 2), 128, np.uint8)
    half = np.s_[TOP // 2 : (TOP + SIDE) // 2, left // 2 : (left + SIDE) // 2]
    skin = cv2.resize(mask, (SIDE // 2, SIDE // 2)) > 0.5
    cb[half][skin], cr[half][skin] = 112, 148
    return ClearFrame(np.clip(luma, 16, 235).astype(np.uint8), cb, cr, time_us)


@pytest.fixture(scope="module")
def protector() -> Protector:
    return load_protector(threads=1)


def test_the_finder_finds_the_face() -> None:
    frame = _frame(1)
    finder = FaceFinder(read_drawn_face().finder, HEIGHT, WIDTH, threads=1)
    (place,) = finder(frame.luma_hw, frame.cb_hw, frame.cr_hw)
    assert (place.x, place.y) == pytest.approx((LEFT + SIDE / 2, TOP + SIDE / 2), abs=0.1 * SIDE)
    assert place.side == pytest.approx(SIDE, rel=0.2)
    assert place.tilt == pytest.approx(0, abs=0.2)


def test_two_people_get_the_same_face(protector: Protector) -> None:
    clear = [_frame(marks) for marks in (1, 2)]
    drawn = [protector.protect(frame).luma_hw[CORE].astype(np.float32) for frame in clear]
    before = clear[0].luma_hw[CORE].astype(np.float32) - clear[1].luma_hw[CORE]
    # Places differ by a few pixels, so the pictures do; what told the two apart must not be in it.
    alike = np.corrcoef((drawn[0] - drawn[1]).ravel(), before.ravel())[0, 1]
    assert abs(alike) < 0.2
    for one in drawn:
        eyes, cheeks = one[18:38].min(), np.median(one[40:60])
        assert eyes < cheeks - 15  # a face is drawn, not a smear


class _Blind:
    """A gate network that finds nothing."""

    name = "blind"

    def run(self, *inputs: Input) -> Outputs:
        maps = (1, 6, inputs[0].shape[2] // 8, inputs[0].shape[3] // 8)
        return [np.full(maps, GATE_ONE, np.uint8), np.zeros(maps, np.uint8)]


def test_a_face_that_the_gate_network_misses_is_hidden_all_the_same() -> None:
    protector = load_protector(threads=1, background=Background.FINE)
    frame = _frame(1)
    canvas = protector._sized(HEIGHT, WIDTH)
    canvas.gate_net = _Blind()
    _, gates = protector.protect_with_map(frame)
    assert gates.cell_size()[(TOP + SIDE // 2) // 8, (LEFT + SIDE // 2) // 8] >= SIDE // 4
    assert gates.cell_size()[2, 2] == 1


def test_a_key_picture_is_looked_at_for_faces_even_where_no_look_is_due() -> None:
    protector = load_protector(threads=1, refresh=10)
    protector.protect(_frame(1, left=20))
    _, gates = protector.protect_with_map(_frame(1, time_us=40_000, left=440), renew=True)
    assert gates.cell_size()[(TOP + SIDE // 2) // 8, (440 + SIDE // 2) // 8] >= SIDE // 4


def test_dark_or_light_skin_gets_the_same_face(protector: Protector) -> None:
    tones = []
    for lighter in (-60, 40):
        frame = _frame(1)
        place = FacePlace(LEFT + SIDE / 2, TOP + SIDE / 2, SIDE, 0)
        face = cv2.warpAffine(face_mask(), place.matrix(), (WIDTH, HEIGHT)) * lighter
        luma = np.clip(frame.luma_hw + face, 16, 235).astype(np.uint8)
        tight = np.s_[60:300, 200:440]  # the face fills much of this one
        half = np.s_[30:150, 100:220]
        shown = protector.protect(ClearFrame(luma[tight], frame.cb_hw[half], frame.cr_hw[half], 0)).luma_hw
        tones.append(float(np.median(shown[130:150, 100:140])))
    assert abs(tones[0] - tones[1]) <= 2


def test_a_fast_face_that_the_gate_network_misses_is_hidden_all_the_way() -> None:
    protector = load_protector(threads=1, refresh=2, hold=True)
    protector._sized(HEIGHT, WIDTH).gate_net = _Blind()
    mask = cv2.resize(face_mask(), (SIDE, SIDE)) > 0.99
    for index in range(18):
        left = 20 + 24 * index
        _, gates = protector.protect_with_map(_frame(1, 40_000 * index, left))
        open_hw = (gates.gates[0] > 0).repeat(8, 0).repeat(8, 1)
        assert not open_hw[TOP : TOP + SIDE, left : left + SIDE][mask].any()


def test_a_still_face_is_drawn_once_however_long_it_is_held() -> None:
    protector = load_protector(threads=1, refresh=2, hold=True)
    pictures = [protector.protect(_frame(1, time_us=40_000 * index)).luma_hw.copy() for index in range(12)]
    for picture in pictures[5:]:
        np.testing.assert_array_equal(picture, pictures[4])


def test_a_face_that_walks_away_leaves_none_behind() -> None:
    protector = load_protector(threads=1, refresh=2, hold=True)
    for index in range(30):
        protector.protect(_frame(1, time_us=40_000 * index, left=LEFT if index < 10 else 20))
    # Blocks that stood still since they were hidden stay coarse until the next key picture draws all anew.
    renewed = protector.protect(_frame(1, time_us=1_200_000, left=20), renew=True).luma_hw
    fresh = load_protector(threads=1).protect(_frame(1, left=20)).luma_hw
    assert np.abs(renewed[CORE].astype(np.int16) - fresh[CORE]).max() < 12
