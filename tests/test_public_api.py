"""The promised names. A new one needs a line in CHANGELOG.md, a removed one a record in docs/adr/."""

from __future__ import annotations

import importlib
import inspect

import pytest

PROMISED: dict[str, set[str]] = {
    "veilcam": {"__version__"},
    "keys": {
        "CameraKey",
        "CameraPublic",
        "Epoch",
        "EpochKey",
        "EpochRing",
        "Grant",
        "GrantRequest",
        "Identity",
        "IdentityKeys",
        "KeySource",
        "OpenedGrant",
        "Recipient",
        "RegionKeys",
        "SecretBytes",
        "SegmentKeys",
        "Stanza",
        "open_identity",
        "unwrap_epoch_key",
        "wrap_epoch_key",
    },
    "models": {
        "Background",
        "GateMap",
        "ModelCard",
        "Protector",
        "Strength",
        "background_named",
        "load_protector",
        "read_card",
        "strength_named",
    },
    "codec": {
        "AccessUnit",
        "Limits",
        "SealedPacket",
        "SealedStream",
        "SealedUnit",
        "SegmentSealer",
        "SegmentView",
        "check_segment",
        "open_segment",
        "read_segments",
    },
    "evaluation": {"EvaluationSettings", "Part", "PixelPath", "Row", "Table", "evaluate"},
    "analytics.pool": {
        "EdgeWorkers",
        "Pool",
        "PoolOptions",
        "PoolResult",
        "Prepared",
        "TileOutcome",
        "WorkerAddress",
        "WorkerState",
    },
    "analytics": {
        "Detections",
        "Detector",
        "DetectorConfig",
        "EncodedUnit",
        "SubscribeOptions",
        "Subscription",
        "load_detector",
        "subscribe",
    },
}


@pytest.mark.parametrize("package", PROMISED)
def test_a_package_exports_what_it_promises_and_nothing_else(package: str) -> None:
    module = importlib.import_module(package)
    assert set(module.__all__) == PROMISED[package]
    assert list(module.__all__) == sorted(module.__all__)


@pytest.mark.parametrize("package", PROMISED)
def test_every_promised_name_exists_and_is_documented(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{package}.{name}"


@pytest.mark.parametrize("package", ["base", *PROMISED, "camera", "forensics"])
def test_every_package_says_what_it_is_for(package: str) -> None:
    documentation = importlib.import_module(package).__doc__
    assert documentation
    assert documentation != "TODO"
