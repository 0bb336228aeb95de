from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the train extra")
pytest.importorskip("onnx", reason="needs the train extra")

from base.errors import UsageError  # noqa: E402
from models.changes import Mask  # noqa: E402
from models.object_finder import NO_OBJECTS, FoundObjects  # noqa: E402
from models.train.augment import Crop, Cropper  # noqa: E402
from models.train.export import export_protector  # noqa: E402
from models.train.networks import BANDS, Generator  # noqa: E402
from models.train.protector import ProtectorTrainer, ProtectorTraining, start_from  # noqa: E402
from models.train.samples import Sample, prepare  # noqa: E402
from models.train.targets import Kind, Region, flat_cartoon  # noqa: E402
from models.train.teacher import Opinion, anchor_weights, disagreement  # noqa: E402
from models.yolox_head import STRIDES  # noqa: E402

if TYPE_CHECKING:
    from torch import Tensor

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("default")]


def brightness_judge(rgb: Tensor) -> Opinion:
    """A detector of bright blobs: one object per bright cell, differentiable like the real one."""
    maps = [torch.nn.functional.avg_pool2d(rgb.mean(1, keepdim=True), s).flatten(1) for s in STRIDES]
    bright = torch.sigmoid(20 * (torch.cat(maps, 1) - 0.6)).clamp(1e-4, 1 - 1e-4)
    boxes = torch.zeros(*bright.shape, 4)
    return Opinion(boxes, bright, bright[..., None].expand(-1, -1, 3))


def _pictures(folder: Path, count: int = 3) -> Path:
    folder.mkdir()
    for index in range(count):
        noise = np.random.default_rng(index).integers(0, 255, (10, 12, 3), dtype=np.uint8)
        cv2.imwrite(
            str(folder / f"{index}.png"), cv2.resize(noise, (240, 200), interpolation=cv2.INTER_CUBIC)
        )
        (folder / f"{index}.txt").write_text(f"{index}.png\t60\t60\t80\t30\tAB123\n")
    return folder


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProtectorTraining:
    # The face finder's weights are not shipped; the plates beside the pictures are regions enough.
    monkeypatch.setattr("models.train.samples.FaceFinder", lambda _: lambda _: [])
    faces = tmp_path / "faces"
    faces.mkdir()
    _pictures(faces / "somebody", 1)
    return ProtectorTraining(
        pictures=(_pictures(tmp_path / "pictures"),),
        faces=faces,
        cartoons=_pictures(tmp_path / "cartoons"),
        teacher=tmp_path / "unused.onnx",
        face_finder=tmp_path / "unused.onnx",
        out=tmp_path / "out",
        minutes=0.05,
        crop_size=64,
        batch=2,
    )


def test_a_run_writes_a_checkpoint_that_the_next_run_continues(settings: ProtectorTraining) -> None:
    shares: list[float] = []
    ProtectorTrainer(settings, brightness_judge).run(lambda share, _: shares.append(share))
    first = torch.load(settings.out / "checkpoint.pt", weights_only=True)
    assert first["state"]["step"] > 0
    assert (settings.out / "settings.json").exists()
    again = ProtectorTrainer(settings, brightness_judge)
    assert again.resume()
    for name, value in again.generator.state_dict().items():
        assert torch.equal(value, first["generator"][name])


def test_the_same_seed_draws_the_same_crops(settings: ProtectorTraining) -> None:
    one, two = (ProtectorTrainer(settings, brightness_judge) for _ in range(2))
    for _ in range(5):
        np.testing.assert_array_equal(one._cropper.draw().clear, two._cropper.draw().clear)


def test_an_odd_crop_size_is_refused(settings: ProtectorTraining) -> None:
    import dataclasses  # noqa: PLC0415

    with pytest.raises(UsageError, match="multiple of 64, got 100"):
        ProtectorTrainer(dataclasses.replace(settings, crop_size=100), brightness_judge)


def test_plates_listed_beside_a_picture_become_regions(settings: ProtectorTraining) -> None:
    samples = list(prepare(list(settings.pictures), settings.face_finder, settings.out / "cache"))
    assert [s.regions for s in samples] == [[Region(Kind.PLATE, 60, 60, 80, 30)]] * 3
    cached = list(prepare(list(settings.pictures), settings.face_finder, settings.out / "cache"))
    np.testing.assert_array_equal(cached[0].cartoon, samples[0].cartoon)


def _crops_with_red(regions: list[Region], found: FoundObjects) -> Iterator[tuple[Crop, Mask]]:
    """Crops of a grey picture with a red square at 200, 100 of 60 pixels, and where they are red."""
    clear = np.full((300, 400, 3), 90, np.uint8)
    clear[100:160, 200:260] = [255, 0, 0]
    sample = Sample("x", clear, flat_cartoon(clear), regions, found)
    cropper = Cropper([sample], [], size=192, bands=BANDS, rng=random.Random(4))
    for _ in range(40):
        crop = cropper.draw()
        if not crop.pasted.any():  # text may cover it
            yield crop, np.asarray(crop.clear[..., 0].astype(int) - crop.clear[..., 1] > 90)


def test_crops_carry_their_regions_through_scaling_and_flipping() -> None:
    seen = 0
    for crop, red in _crops_with_red([Region(Kind.PLATE, 200, 100, 60, 60)], NO_OBJECTS):
        if red.sum() > 400:
            seen += 1
            assert crop.sensitive[red].mean() > 0.9
    assert seen > 5


def test_crops_carry_their_objects_through_scaling_and_flipping() -> None:
    found = FoundObjects(np.array([[200, 100, 260, 160]], np.float32), *np.array([[0.9], [0]], np.float32))
    seen = 0
    for crop, red in _crops_with_red([], found):
        blocks = red.reshape(24, 8, 24, 8).mean((1, 3)) > 0.5
        if blocks.any():
            seen += 1
            assert (crop.floor[0][blocks] == 0).all()
            around = cv2.dilate(blocks.astype(np.uint8), np.ones((11, 11), np.uint8)) > 0
            assert (crop.floor[0][~around] == 3).all()
    assert seen > 5


def test_a_training_may_start_from_weights_that_were_exported(tmp_path: Path) -> None:
    torch.manual_seed(5)
    before, after = Generator(), Generator()
    export_protector(before, tmp_path, {"training": {}, "metrics": {}, "licence": "none"})
    start_from(after, tmp_path / "protector-v3.safetensors")
    for name, value in before.named_parameters():
        assert torch.equal(dict(after.named_parameters())[name], value.half().float())


@pytest.mark.parametrize("content", [b"", b"not safetensors at all", None])
def test_a_start_that_is_no_protector_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "start.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"start\.safetensors: expected a protector"):
        start_from(Generator(), path)


def test_equal_opinions_disagree_by_nothing_and_hidden_objects_cost() -> None:
    picture = torch.full((1, 3, 64, 64), 0.2)
    picture[..., 16:40, 16:40] = 0.9
    weights = anchor_weights(torch.zeros(1, 1, 64, 64))
    clear = brightness_judge(picture)
    assert float(disagreement(clear, clear, weights)) == pytest.approx(0, abs=1e-5)
    hidden = brightness_judge(torch.full((1, 3, 64, 64), 0.2))
    assert float(disagreement(clear, hidden, weights)) > 0.5
    assert float(disagreement(clear, hidden, anchor_weights(torch.ones(1, 1, 64, 64)))) == pytest.approx(
        0, abs=1e-5
    )
