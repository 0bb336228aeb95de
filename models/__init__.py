"""Networks, their training and their run-time sessions. Knows nothing of keys."""

from __future__ import annotations

from models.card import ModelCard, read_card
from models.protector import GateMap, Protector, load_protector
from models.strength import Strength, strength_named

__all__ = [
    "GateMap",
    "ModelCard",
    "Protector",
    "Strength",
    "load_protector",
    "read_card",
    "strength_named",
]
