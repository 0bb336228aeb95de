"""Figures of an identification attack: rank-1 and verification, from a matrix of distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.results import Row
from evaluation.statistics import Estimate, proportion

FALSE_ACCEPTS = 1e-3
Distances = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attack on one set of probes.

    Attributes:
        distances: [probes, gallery].
        owners: [probes], which gallery entry is the right one.
    """

    distances: Distances
    owners: npt.NDArray[np.int64]

    @property
    def hits(self) -> npt.NDArray[np.bool_]:
        """[probes], whether the nearest gallery entry is the right one."""
        return np.asarray(self.distances.argmin(1) == self.owners, np.bool_)

    def rank1(self) -> Estimate:
        """Share of probes whose nearest gallery entry is the right one."""
        hits = self.hits
        return proportion(int(hits.sum()), len(hits))

    def true_accepts(self, false_accepts: float = FALSE_ACCEPTS) -> Estimate:
        """Share of right pairs below the distance that lets ``false_accepts`` of the wrong pairs through.

        The threshold comes from the attacked pictures themselves, which is the best an attacker can do.
        """
        is_right = np.zeros(self.distances.shape, np.bool_)
        is_right[np.arange(len(self.owners)), self.owners] = True
        wrong = np.sort(self.distances[~is_right])
        allowed = int(false_accepts * len(wrong))
        right = self.distances[is_right]
        # Ties with the first one that is not allowed do not pass.
        accepted = int((right < wrong[allowed]).sum()) if len(wrong) else 0
        return proportion(accepted, len(right))

    def repeated(self) -> int:
        """People of whom more than one probe was identified."""
        return int((np.bincount(self.owners[self.hits]) > 1).sum()) if len(self.owners) else 0


def identification_row(name: str, attack: Attempt, clear: Attempt) -> Row:
    """Rank-1 beside the clear bound and chance."""
    chance = 1 / attack.distances.shape[1]
    estimate = attack.rank1()
    times = f"{estimate.value / chance:.1f} times chance"
    return Row.of(
        name,
        estimate,
        clear=clear.rank1().value,
        chance=chance,
        floor=3 * chance,
        aim=chance,
        note=f"{times}; {attack.repeated()} people more than once",
    )


def control_row(name: str, attack: Attempt, clear: Attempt) -> Row:
    """Rank-1 where there is nothing of the kind to be found: no bar applies."""
    chance = 1 / attack.distances.shape[1]
    return Row.of(name, attack.rank1(), clear=clear.rank1().value, chance=chance)


def verification_row(name: str, attack: Attempt, clear: Attempt) -> Row:
    """True accepts at a false accept rate of 1e-3, which is also what guessing reaches."""
    wrong_pairs = attack.distances.size - len(attack.owners)
    return Row.of(
        name,
        attack.true_accepts(),
        clear=clear.true_accepts().value,
        chance=FALSE_ACCEPTS,
        floor=0.01,
        aim=0.002,
        note=f"{wrong_pairs} wrong pairs",
    )


def attempt(distances: Distances, owners: Sequence[int]) -> Attempt:
    """An Attempt of plain lists."""
    return Attempt(np.asarray(distances, np.float64), np.asarray(owners, np.int64))
