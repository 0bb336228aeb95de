from __future__ import annotations

from pathlib import Path

import av
import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import veilcam.assets
from base.frames import ClearFrame
from evaluation.pictures import from_video_frame
from models import Background, load_protector
from models.object_finder import NO_OBJECTS, FoundObjects
from models.session import Array, Input, Outputs
from models.vehicles import (
    MOST_PIXELS,
    PLATED_SCORE,
    SHORTEST_PX,
    STILL_PX,
    TILE_SIDES,
    VEHICLE_CELLS,
    VehicleLook,
    have_moved,
)

SAMPLE = Path(veilcam.assets.__file__).with_name("sample.mp4")
WIDTH, HEIGHT, BANDS = 640, 480, 6
OPEN = np.full((1, BANDS, HEIGHT // 8, WIDTH // 8), 128, np.uint8)
VAN_XYXY = np.array((652, 44, 721, 99))  # by hand, in the sample's first picture


class SeesWhite:
    """Stands for the gate network: shuts as many bands as told where a tile is white, opens all else."""

    name = "stand-in"

    def __init__(self, num_shut: int = 2) -> None:
        self.num_shut = num_shut
        self.tiles: list[npt.NDArray[np.uint8]] = []

    def run(self, *inputs: Input) -> Outputs:
        luma, chroma = inputs
        side = luma.shape[2]
        assert luma.shape == (1, 1, side, side)
        assert chroma.shape == (1, 2, side // 2, side // 2)
        self.tiles.append(np.asarray(luma[0, 0], np.uint8))
        white = luma[0, 0].reshape(side // 8, 8, side // 8, 8).max((1, 3)) > 200
        gates = np.full((1, BANDS, side // 8, side // 8), 128, np.uint8)
        gates[0, : self.num_shut, white] = 0
        return [gates, np.zeros_like(gates)]


def _vehicles(*boxes_xyxy: tuple[float, float, float, float], plated: float = 0.9) -> FoundObjects:
    scores = np.full((2, len(boxes_xyxy)), 0.9, np.float32)
    scores[1] = plated
    return FoundObjects(np.array(boxes_xyxy, np.float32).reshape(-1, 4), *scores)


def _grey(*white_xyxy: tuple[int, int, int, int]) -> tuple[Array, Array]:
    """Luma with white rectangles, and chroma."""
    luma = np.full((HEIGHT, WIDTH), 90, np.uint8)
    for left, top, right, bottom in white_xyxy:
        luma[top:bottom, left:right] = 235
    return luma, np.full((2, HEIGHT // 2, WIDTH // 2), 128, np.uint8)


def _shut(
    net: SeesWhite,
    planes: tuple[Array, Array],
    found: FoundObjects,
    gates: Array = OPEN,
    size_hw: tuple[int, int] = (HEIGHT, WIDTH),
) -> Array:
    look = VehicleLook(net, *size_hw)
    return look(*planes, gates, look.boxes(found))


def _octaves(gates: Array) -> npt.NDArray[np.int64]:
    """How many of the finest bands are shut, one after the other: [H/8, W/8]."""
    return np.asarray(np.cumprod(gates[0] == 0, axis=0).sum(0), np.int64)


@pytest.mark.parametrize(
    ("box", "scale", "octaves"),
    [
        ((200, 160, 320, 240), 2.0, 2),
        ((130, 100, 410, 340), 640 / 352, 2),  # 28 + 8 pixels around it are sharp, too
        ((70, 20, 470, 420), 640 / 496, 2),
        ((0, 0, 640, 480), 1.0, 2),
    ],
)
def test_what_the_network_sees_in_a_vehicle_of_any_size_is_shut_there(
    box: tuple[int, int, int, int], scale: float, octaves: int
) -> None:
    net = SeesWhite()
    plate = (250, 200, 290, 216)
    lost = _octaves(_shut(net, _grey(plate), _vehicles(box)))
    assert (lost[200 // 8 : 216 // 8, 248 // 8 : 288 // 8] == octaves).all()
    lost[200 // 8 - 2 : 216 // 8 + 2, 248 // 8 - 2 : 296 // 8 + 2] = 0
    assert (lost == 0).all()
    (tile,) = net.tiles
    columns = np.flatnonzero((tile > 200).any(0))
    assert columns[-1] + 1 - columns[0] == pytest.approx(40 * scale, abs=3)


@pytest.mark.parametrize(("width", "octaves"), [(640 * 2**0.2, 2), (640 * 2**0.3, 3), (1280, 3)])
def test_in_a_reduced_tile_a_band_counts_for_as_many_octaves_as_it_was_reduced_by(
    width: float, octaves: int
) -> None:
    """By a quarter of an octave less at most."""
    height, columns = 480, 2 * round(width / 2)
    luma, chroma = (
        np.full((height, columns), 235, np.uint8),
        np.full((2, height // 2, columns // 2), 128, np.uint8),
    )
    gates = np.full((1, BANDS, height // 8, columns // 8 + 1), 128, np.uint8)
    shut = _shut(SeesWhite(2), (luma, chroma), _vehicles((0, 0, columns, height)), gates, (height, columns))
    assert _octaves(shut)[20, 20] == octaves


@pytest.mark.parametrize(("right", "down"), [(40, 0), (-40, 0), (0, 40), (24, -16)])
def test_a_vehicle_that_moves_is_hidden_where_it_comes_until_the_next_look(right: int, down: int) -> None:
    look = VehicleLook(SeesWhite(), HEIGHT, WIDTH)
    plate, now = (300, 240, 340, 256), np.array([[200.0, 160, 440, 300]])
    stands, drives = (
        _octaves(look(*_grey(plate), OPEN, now, now - share * np.array([[right, down, right, down]])))
        for share in (0, 1)
    )
    assert (drives >= stands).all()
    for share in (0.5, 1):
        ahead = np.roll(stands, (round(share * down / 8), round(share * right / 8)), (0, 1))
        assert (drives >= ahead).all()
    behind = np.roll(stands, (-down // 8, -right // 8), (0, 1))
    assert (drives < behind).any()


def test_a_vehicle_that_there_is_no_time_for_is_hidden_along_its_way_too() -> None:
    large = [(0.0, 0.0, 300.0, 200.0), (340.0, 0.0, 639.0, 200.0), (0.0, 240.0, 290.0, 460.0)]
    left_over = (340.0, 260.0, 500.0, 380.0)
    look = VehicleLook(SeesWhite(), HEIGHT, WIDTH)
    now = look.boxes(_vehicles(*large, left_over))
    before = now.copy()
    before[-1] -= [80, 0, 80, 0]
    lost = _octaves(look(*_grey(), OPEN, now, before))
    assert (lost[36, 41:74] == 2).all()  # 160 pixels in 58 cells, from 340 - 8 to 500 + 8 + 80
    assert lost[36, 40] == lost[36, 75] == 0


def test_what_leaves_the_picture_is_cut_at_its_border() -> None:
    look = VehicleLook(SeesWhite(), HEIGHT, WIDTH)
    for right, down in ((-150, 0), (150, 0), (0, -150), (0, 150)):
        moved = np.array([right, down, right, down], np.float64)
        now = np.array([[200.0, 160, 440, 300]]) + 2 * moved
        assert (look(*_grey((0, 0, 640, 480)), OPEN, now, now - moved) <= OPEN).all()


def test_vehicles_that_are_new_or_elsewhere_have_moved() -> None:
    one, other, none = np.array([[0.0, 0, 100, 50]]), np.array([[300.0, 0, 400, 50]]), np.zeros((0, 4))
    assert not have_moved(none, none)
    assert not have_moved(one, none)
    assert not have_moved(np.vstack([one, other]), one + STILL_PX)
    assert have_moved(none, one)
    assert have_moved(one, one + STILL_PX + 1)
    assert have_moved(one, np.vstack([one, other]))


def test_the_plate_of_a_fast_vehicle_is_hidden_between_looks_too() -> None:
    """28 pixels a picture; what it comes in with is known from the second look on."""
    frame, plate = _van_with_a_number(letter_px=11)
    protector = load_protector(threads=1, refresh=2, hold=True)
    for index in range(10):
        moved = np.array([28 * index - 112, 0] * 2)
        luma, cb, cr = (np.roll(plane, int(moved[0]) // share, 1) for plane, share in _planes(frame))
        _, gates = protector.protect_with_map(ClearFrame(luma, cb, cr, 40_000 * index))
        left, top, right, bottom = ((plate + moved) // 8).tolist()
        if index >= 2:
            assert gates.cell_size()[top : bottom + 1, left : right + 1].min() >= 4, index


def _planes(frame: ClearFrame) -> list[tuple[Array, int]]:
    return [(frame.luma_hw, 1), (frame.cb_hw, 2), (frame.cr_hw, 2)]


def test_of_a_vehicle_that_was_reduced_to_a_half_the_second_band_is_the_tiles_first() -> None:
    height, width = 960, 1280
    luma, chroma = (np.repeat(np.repeat(plane, 2, -1), 2, -2) for plane in _grey((200, 160, 320, 240)))
    gates = np.full((1, BANDS, height // 8, width // 8), 128, np.uint8)
    shut = _shut(SeesWhite(2), (luma, chroma), _vehicles((160, 0, 1120, 960)), gates, (height, width))
    assert _octaves(shut)[400 // 8, 500 // 8] == 3


@pytest.mark.parametrize(
    ("size_hw", "box", "spot"),
    [
        ((904, 294), (263.3, -165.1, 531.4, 843.8), (282, 819, 291, 828)),
        ((724, 912), (19.1, 426.0, 681.0, 731.0), (142, 584, 166, 607)),
        ((564, 418), (197.3, -86.4, 617.6, 524.7), (341, 288, 359, 306)),
        ((948, 1118), (383.9, 654.3, 1039.1, 1677.2), (831, 740, 854, 763)),
    ],
)
def test_every_block_that_holds_a_border_of_what_was_seen_is_shut(
    size_hw: tuple[int, int], box: tuple[float, float, float, float], spot: tuple[int, int, int, int]
) -> None:
    """Cells of a reduced tile are not those of the picture; sampled at blocks' middles these were missed."""
    height, width = (-(-side // 64) * 64 for side in size_hw)
    luma = np.full((height, width), 90, np.uint8)
    left, top, right, bottom = spot
    luma[top:bottom, left:right] = 235
    chroma = np.full((2, height // 2, width // 2), 128, np.uint8)
    gates = np.full((1, BANDS, height // 8, width // 8), 128, np.uint8)
    lost = _octaves(_shut(SeesWhite(), (luma, chroma), _vehicles(box), gates, size_hw))
    assert lost[top // 8 : -(-bottom // 8), left // 8 : -(-right // 8)].min() >= 2


def test_no_gate_opens_and_only_vehicles_change() -> None:
    gates = np.random.default_rng(1).integers(0, 129, OPEN.shape).astype(np.uint8)
    shut = _shut(SeesWhite(), _grey((0, 0, 640, 480)), _vehicles((80, 80, 240, 160)), gates)
    inside = np.zeros(OPEN.shape[2:], bool)
    inside[9:21, 9:31] = True  # with 8 pixels around it
    assert (shut[0, :2][:, inside] == 0).all()
    np.testing.assert_array_equal(shut[0][:, ~inside], gates[0][:, ~inside])
    np.testing.assert_array_equal(shut[0, 2:], gates[0, 2:])


@pytest.mark.parametrize(
    "found",
    [
        NO_OBJECTS,
        _vehicles((0, 0, 400, 300), plated=0.9 * PLATED_SCORE),
        _vehicles((10, 10, 10 + SHORTEST_PX - 1, 60)),
        _vehicles((-500, 10, -20, 300), (700, 10, 900, 300)),
    ],
)
def test_people_and_small_and_absent_vehicles_get_no_look(found: FoundObjects) -> None:
    net = SeesWhite()
    np.testing.assert_array_equal(_shut(net, _grey(), found), OPEN)
    assert net.tiles == []


def test_a_vehicle_found_twice_is_looked_at_once_and_whole() -> None:
    """The surer box may be the smaller one, with the plate below it."""
    net = SeesWhite()
    found = _vehicles((100, 100, 400, 225), (100, 100, 400, 300))
    found.plated[1] = 0.85
    lost = _octaves(_shut(net, _grey((240, 264, 280, 280)), found))
    assert len(net.tiles) == 1
    assert (lost[264 // 8 : 280 // 8, 240 // 8 : 280 // 8] == 2).all()


def test_vehicles_that_there_is_no_time_for_keep_few_cells_the_smaller_ones_first() -> None:
    boxes = [(10.0, 70.0 * i, 150.0 + 20 * i, 70.0 * i + 60) for i in range(6)]
    net = SeesWhite()
    lost = _octaves(_shut(net, _grey(), _vehicles(*boxes)))
    num_seen = MOST_PIXELS // TILE_SIDES[-1] ** 2
    assert len(net.tiles) == num_seen < len(boxes)
    for left, top, right, _ in boxes[: len(boxes) - num_seen]:
        remaining = (right - left) / 2 ** lost[int(top) // 8 + 2, int(left) // 8 + 4]
        assert VEHICLE_CELLS / 2 < remaining <= VEHICLE_CELLS
    for _, top, _, _ in boxes[len(boxes) - num_seen :]:
        assert lost[int(top) // 8 + 3, 10] == 0


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.floats(-1e6, 1e6, width=32)] * 4), max_size=5))
def test_boxes_may_lie_anywhere(boxes: list[tuple[float, float, float, float]]) -> None:
    shut = _shut(SeesWhite(), _grey((0, 0, 640, 480)), _vehicles(*boxes))
    assert (shut <= OPEN).all()


def _van_with_a_number(letter_px: int) -> tuple[ClearFrame, npt.NDArray[np.int64]]:
    """The sample's van, four times as large, with a plate of such letters; and the plate's box."""
    with av.open(str(SAMPLE)) as container:
        frame = from_video_frame(next(container.decode(container.streams.video[0])))
    rows, columns, half = slice(16, 144), slice(560, 752), (slice(8, 72), slice(280, 376))
    luma, cb, cr = (
        np.asarray(cv2.resize(plane, None, fx=4, fy=4, interpolation=cv2.INTER_CUBIC), np.uint8)
        for plane in (frame.luma_hw[rows, columns], frame.cb_hw[half], frame.cr_hw[half])
    )
    left, top = (4 * ((VAN_XYXY[:2] + VAN_XYXY[2:]) // 2 - (560, 16)) + (-40, 20)).tolist()
    scale = letter_px / 22
    (width, height), _ = cv2.getTextSize("RK 884 AL", cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    luma[top - height - 4 : top + 5, left - 4 : left + width + 4] = 225
    cv2.putText(luma, "RK 884 AL", (left, top), cv2.FONT_HERSHEY_SIMPLEX, scale, (30,), 1, cv2.LINE_AA)
    return ClearFrame(luma, cb, cr, 0), np.array((left, top - height, left + width, top))


@pytest.mark.parametrize("background", list(Background))
def test_a_plate_with_thin_strokes_on_a_real_van_is_hidden(background: Background) -> None:
    frame, plate = _van_with_a_number(letter_px=11)
    _, gates = load_protector(threads=1, background=background).protect_with_map(frame)
    left, top, right, bottom = (plate // 8).tolist()
    letters = gates.cell_size()[top : bottom + 1, left : right + 1]
    assert np.median(letters) >= 8
