from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the train extra")

from analytics.elf.attention_lstm import AttentionLstm, AttentionLstmPredictor, load_network  # noqa: E402
from models.train import regions  # noqa: E402
from models.train.region_tracks import cut_samples, read_tracks  # noqa: E402
from models.train.regions_command import main  # noqa: E402

pytestmark = pytest.mark.train


def boxes_file(path: Path, pictures: int = 40) -> Path:
    """Three people: one walks right, one down, one stands; the second is missed twice."""
    lines = []
    for frame in range(pictures):
        places = [(10 + 4 * frame, 20), (300, 10 + 3 * frame), (200, 200)]
        rows = [
            {"label": "person", "score": 0.9, "box_xyxy": [x, y, x + 30, y + 80]}
            for index, (x, y) in enumerate(places)
            if index != 1 or frame not in {10, 11}
        ]
        lines.append({"frame": frame, "time_s": frame / 10, "width": 640, "height": 480, "detections": rows})
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    return path


def test_boxes_become_one_track_for_every_object(tmp_path: Path) -> None:
    tracks = read_tracks([boxes_file(tmp_path / "a.jsonl")], 0.3, 4)
    assert sorted(len(track.frames) for track in tracks) == [38, 40, 40]
    assert read_tracks([tmp_path / "a.jsonl"], 0.95, 4) == []


def test_samples_have_the_history_the_ages_and_the_target(tmp_path: Path) -> None:
    tracks = read_tracks([boxes_file(tmp_path / "a.jsonl", 8)], 0.3, 4)[:1]
    samples = cut_samples(tracks, 3, (1,), (1,))
    assert samples.history.shape == (7, 3, 4)
    assert samples.age[0].tolist() == [1, 1, 1]  # the first box fills what is missing
    assert samples.age[-1].tolist() == [3, 2, 1]
    np.testing.assert_array_equal(samples.target[-1], tracks[0].boxes_xyxy[-1])


def test_training_writes_weights_that_predict_as_the_network_does(tmp_path: Path) -> None:
    boxes_file(tmp_path / "a.jsonl")
    arguments = [
        "--boxes",
        str(tmp_path / "a.jsonl"),
        "--out",
        str(tmp_path / "out"),
        "--steps",
        "60",
        "--json",
    ]
    assert main(arguments) == 0
    card = json.loads((tmp_path / "out/weights/regions-v1.json").read_text(encoding="utf-8"))
    assert card["training"]["tracks"] == 3
    with np.load(tmp_path / "out/weights/regions-v1.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    network = regions.AttentionLstm(card["network"]["hidden"])
    network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    features = np.random.default_rng(1).normal(size=(9, 5, regions.FEATURES)).astype(np.float32)
    with torch.no_grad():
        expected = network(torch.from_numpy(features)).numpy()
    got = AttentionLstm(arrays, card["network"]["hidden"])(features)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert np.abs(expected).max() > 0.01  # trained: not the zeros it began with


def test_the_run_time_prepares_boxes_as_the_training_does() -> None:
    numpy_network, window = load_network()
    seen: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []

    class Recorder(AttentionLstm):
        def __init__(self) -> None:
            pass

        def __call__(
            self, features: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
        ) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
            seen.append(features)
            return numpy_network(features)

    predictor, slots = AttentionLstmPredictor(Recorder(), window), np.arange(1)
    path = np.array([[[100 + 5 * t, 60 + t, 150 + 6 * t, 190 + 2 * t]] for t in range(window)], np.float64)
    predictor.start(0, slots, path[0])
    for frame in range(1, window):
        predictor.observe(frame, slots, path[frame], path[frame])
    predictor.predict(window + 1, slots, (640, 480))
    age = torch.tensor([[float(window + 1 - frame) for frame in range(window)]])
    wanted = regions.features_of(torch.from_numpy(path[:, 0][None].astype(np.float32)), age)
    np.testing.assert_allclose(seen[-1], wanted.numpy(), rtol=1e-4, atol=1e-5)
