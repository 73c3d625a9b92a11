"""What every reader is told and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from halfwave.data.arrays import ArrayPair, LazyArray, PairSource, guess_channels
from halfwave.data.trajectories import Trajectories
from halfwave.domains import Domain, read_name
from halfwave.errors import InputError

PAIR_NAMES = (("x", "y"), ("a", "u"), ("coeff", "sol"))
"""Names of inputs and outputs in files that hold arrays: neuraloperator's, and Li et al.'s two."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read a dataset.

    test: a separate file with the test samples. Without one, and where the file has no splits of its own, a file beside
        it with `test` for `train` in its name, or else the last `n_test` samples (a fifth by default).
    n_train, n_test: limits of the splits.
    stride: keep every n-th point of each axis, or of a cloud.
    resolution: resample the grid to that many points a side (of a sphere: latitudes), as the domain interpolates.
    steps: the time steps that are input and output of a time-dependent file, counted from either end.
    domain: name of the domain (`halfwave.domains.domain_named`) of a file that declares none, or a wrong one.
    """

    test: Path | None = None
    n_train: int | None = None
    n_test: int | None = None
    stride: int = 1
    resolution: int | None = None
    steps: tuple[int, int] = (0, -1)
    domain: str | None = None

    def __post_init__(self) -> None:
        for name in ("n_train", "n_test", "stride"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; at least 1 is needed")
        if self.resolution is not None and self.resolution < 2:
            raise InputError(f"resolution is {self.resolution}; at least 2 is needed")
        if self.domain is not None:
            read_name(self.domain)


@dataclass(frozen=True)
class Found:
    """The pairs of a file: as `train` and `test`, or all in one as `samples`; and where they live."""

    splits: dict[str, PairSource]
    metadata: dict[str, Any] = field(default_factory=dict)
    domain: Domain | None = None
    """What the file or its format says of the fields' domain."""
    trajectories: dict[str, Trajectories] = field(default_factory=dict)
    """Of a file that depends on time: all its states, by the same splits."""


def side_length(coordinates: np.ndarray, points: int) -> float | None:
    """The side of an axis with `points` equal cells around these coordinates; None where they are not that."""
    if coordinates.shape != (points,) or points < 2:
        return None
    steps = np.diff(coordinates.astype(np.float64))
    if not steps[0] or np.ptp(steps) > 1e-3 * abs(steps[0]):
        return None
    return float(f"{points * abs(float(steps.mean())):.6g}")  # the files' coordinates are float32


def choose_pair(names: list[str], path: Path) -> tuple[str, str]:
    """The names of inputs and outputs among `names`."""
    for pair in PAIR_NAMES:
        if set(pair) <= set(names):
            return pair
    accepted = ", ".join(f"'{x}' and '{y}'" for x, y in PAIR_NAMES)
    raise InputError(f"{path} holds {', '.join(sorted(names)) or 'nothing'}; accepted: {accepted}")


def pair(x: LazyArray, y: LazyArray) -> ArrayPair:
    """Inputs and outputs with a channel axis each, whether or not the file has one."""
    return ArrayPair(guess_channels(x), guess_channels(y))
