"""Networks, their training and their run-time sessions. Knows nothing of keys."""

from __future__ import annotations

from models.background import Background, background_named
from models.card import ModelCard, read_card
from models.protector import GateMap, Protector, load_protector
from models.strength import Strength, strength_named

__all__ = [
    "Background",
    "GateMap",
    "ModelCard",
    "Protector",
    "Strength",
    "background_named",
    "load_protector",
    "read_card",
    "strength_named",
]
