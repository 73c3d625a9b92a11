"""What every reader is told and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from halfwave.data.arrays import PairSource
from halfwave.data.channels import ChannelAxis, ChannelRule
from halfwave.data.trajectories import Trajectories
from halfwave.data.windows import Window
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
    x_key, y_key: names of inputs and outputs in a file of named arrays.
    channel_axis: 1 (after the samples), -1 (last) or none, where the shapes of plain arrays leave it open.
    grid_axes: how many axes the fields have, where a model is there to say so.
    window: all such spans of trajectories as samples, in place of two steps of each; counts are of trajectories.
    inputs_only: nothing but inputs is needed, such as for a prediction; the file may have no outputs.
    """

    test: Path | None = None
    n_train: int | None = None
    n_test: int | None = None
    stride: int = 1
    resolution: int | None = None
    steps: tuple[int, int] = (0, -1)
    domain: str | None = None
    x_key: str | None = None
    y_key: str | None = None
    channel_axis: ChannelAxis | None = None
    grid_axes: int | None = None
    inputs_only: bool = False
    window: Window | None = None

    def __post_init__(self) -> None:
        for name in ("n_train", "n_test", "stride"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; at least 1 is needed")
        if self.resolution is not None and self.resolution < 2:
            raise InputError(f"resolution is {self.resolution}; at least 2 is needed")
        if self.domain is not None:
            read_name(self.domain)
        self.channel_rule  # noqa: B018  its own checks

    @property
    def channel_rule(self) -> ChannelRule:
        return ChannelRule(self.channel_axis, self.grid_axes)

    def choose_pair(self, names: Sequence[str], path: Path) -> tuple[str, str]:
        """The names of inputs and outputs among `names`: those given, or the one usual pair that is there."""
        x, y = self.x_key, self.y_key
        for key in (x, y):
            if key is not None and key not in names:
                raise InputError(f"{path} has no array {key!r}; it holds {', '.join(sorted(names)) or 'nothing'}")
        pairs = [(a, b) for a, b in PAIR_NAMES if x in (None, a) and y in (None, b) and {a, b} <= set(names)]
        if x is not None and y is None and (self.inputs_only or not pairs):
            y = x if self.inputs_only else None
        if x is not None and y is not None:
            return x, y
        if len(pairs) == 1:
            return pairs[0]
        if self.inputs_only and not pairs:
            found = [a for a, _ in PAIR_NAMES if a in names] or (list(names) if len(names) == 1 else [])
            if len(found) == 1:
                return found[0], found[0]
        accepted = ", ".join(f"'{a}' and '{b}'" for a, b in PAIR_NAMES)
        raise InputError(
            f"{path} holds {', '.join(sorted(names)) or 'nothing'}; accepted: {'one of ' if pairs else ''}{accepted}, "
            f"or others by --x-key and --y-key"
        )


@dataclass(frozen=True)
class Found:
    """The pairs of a file: as `train` and `test`, or all in one as `samples`; and where they live."""

    splits: dict[str, PairSource]
    metadata: dict[str, Any] = field(default_factory=dict)
    domain: Domain | None = None
    """What the file or its format says of the fields' domain."""
    trajectories: dict[str, Trajectories] = field(default_factory=dict)
    """Of a file that depends on time: all its states, by the same splits."""


def side_length(coordinates: h5py.Dataset, points: int) -> float | None:
    """The side of an axis with `points` equal cells around these coordinates; None where they are not that.

    They are read only where they are as many as the points, which are there: a longer claim costs nothing.
    """
    if coordinates.shape != (points,) or points < 2 or coordinates.dtype.kind not in "fiu":
        return None
    steps = np.diff(coordinates[()].astype(np.float64))
    if not np.isfinite(steps).all() or not steps[0] or np.ptp(steps) > 1e-3 * abs(steps[0]):
        return None
    return float(f"{points * abs(float(steps.mean())):.6g}")  # the files' coordinates are float32
