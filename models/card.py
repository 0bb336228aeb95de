"""The card that lies beside every weights file: what it is, what it was trained on, what it reached."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.errors import AuthenticationFailed, LimitExceeded, Malformed, UnknownVersion
from base.files import read_bounded

WEIGHTS = Path(__file__).parent / "weights"
MAX_CARD_BYTES = 256 * 1024
MAX_WEIGHTS_BYTES = 64 * 1024 * 1024
CARD_VERSION = 1


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A parsed card. ``files`` maps file names to their SHA-256 in hex; ``bands`` may be 0."""

    name: str
    files: dict[str, str]
    bands: int
    size_multiple: int
    described: dict[str, Any]  # the whole card, for people and reports

    @property
    def model_id(self) -> bytes:
        """8 bytes that name these very weights: SHA-256 over the sorted file hashes, cut."""
        digest = hashlib.sha256()
        for name in sorted(self.files):
            digest.update(name.encode() + b"\0" + bytes.fromhex(self.files[name]))
        return digest.digest()[:8]


def read_card(path: Path) -> ModelCard:
    """Parse a card.

    Raises:
        FormatError: it is no card of a version that this release knows.
    """
    try:
        described = json.loads(read_bounded(path, MAX_CARD_BYTES))
        if described["card"] != CARD_VERSION:
            raise UnknownVersion(f"{path.name}: card version {described['card']}, expected {CARD_VERSION}")
        return ModelCard(
            name=str(described["name"]),
            files={
                str(name): bytes.fromhex(entry["sha256"]).hex() for name, entry in described["files"].items()
            },
            bands=int(described["network"].get("bands", 0)),
            size_multiple=int(described["network"]["size_multiple"]),
            described=described,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, LimitExceeded):
            raise
        raise Malformed(f"{path.name}: not a model card ({type(error).__name__})") from error


def read_weights(card: ModelCard, name: str, folder: Path = WEIGHTS) -> bytes:
    """A weights file whose hash is the one on the card.

    Raises:
        AuthenticationFailed: the file is not the one the card describes.
        Malformed: the card does not name it.
    """
    if name not in card.files:
        raise Malformed(f"card of {card.name}: {name} is missing, it names {sorted(card.files)}")
    data = read_bounded(folder / name, MAX_WEIGHTS_BYTES)
    digest = hashlib.sha256(data).hexdigest()
    if digest != card.files[name]:
        raise AuthenticationFailed(
            f"{name}: expected SHA-256 {card.files[name][:16]}..., got {digest[:16]}..."
        )
    return data
