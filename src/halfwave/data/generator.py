"""What a dataset generator is, and how sample i gets its random numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from halfwave.domains import Domain
from halfwave.errors import InputError

SPLITS = ("train", "test")

Arrays = dict[str, np.ndarray]


class Generator(Protocol):
    """A law of samples: a frozen dataclass whose fields are its parameters.

    `samples` must return for each index what it returns for that index alone, bit for bit: then the file does not
    depend on the number of workers, ranks or interruptions.
    """

    name: ClassVar[str]
    """The name on the command line and in the metadata."""

    chunk: ClassVar[int]
    """Samples that are made and saved together: about a second of work, the most that an interruption loses."""

    channels: ClassVar[tuple[int, int]]
    """Channels of `x` and `y`; of a cloud none and one, as its points are no field."""

    @property
    def domain(self) -> Domain:
        """Where the fields or points of its samples live."""
        ...

    def describe(self) -> dict[str, Any]:
        """Equation, parameters, solver and resolution, as JSON values for the file's metadata."""
        ...

    def samples(self, seed: int, split: str, indices: Sequence[int]) -> list[Arrays]:
        """The named arrays of each sample, float32: `x` and `y` (C x grid); or those of a point cloud; or `trajectory`
        (steps x C x grid), with which `static` (C x grid) and `parameters` (Q) may ride."""
        ...


class OneByOne(ABC):
    """A generator that makes x and y of each sample alone."""

    @abstractmethod
    def sample(self, seed: int, split: str, index: int) -> tuple[np.ndarray, np.ndarray]:
        """(x, y) of one sample."""

    def samples(self, seed: int, split: str, indices: Sequence[int]) -> list[Arrays]:
        return [dict(zip(("x", "y"), self.sample(seed, split, index), strict=True)) for index in indices]


class InTime(ABC):
    """A generator whose samples are trajectories, each made alone."""

    @abstractmethod
    def trajectory(self, seed: int, split: str, index: int) -> np.ndarray:
        """States (steps + 1, C, *grid) of one sample."""

    def samples(self, seed: int, split: str, indices: Sequence[int]) -> list[Arrays]:
        return [{"trajectory": self.trajectory(seed, split, index)} for index in indices]


def sample_shapes(generator: Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes (C, *grid) of one sample's `x` and `y`, known without solving; InputError for point clouds."""
    if not generator.domain.has_grid:
        raise InputError(f"{generator.name} has point clouds, whose shapes are known only when they are made")
    grid = generator.domain.grid(generator.resolution)  # type: ignore[attr-defined]
    return (generator.channels[0], *grid), (generator.channels[1], *grid)


def pair_of(sample: Arrays, steps: tuple[int, int] = (0, -1)) -> tuple[np.ndarray, np.ndarray]:
    """x and y of a sample on a grid; of a trajectory two of its states."""
    if "trajectory" not in sample:
        return sample["x"], sample["y"]
    first, second = steps
    return sample["trajectory"][first], sample["trajectory"][second]


def check_times(time: float, steps: int) -> None:
    """InputError unless a generator's time is positive and there is a state after the first."""
    if time <= 0 or steps < 1:
        raise InputError(f"a time of {time} in {steps} steps; accepted: a positive time, at least 1 step")


def sample_rng(seed: int, split: str, index: int) -> np.random.Generator:
    """The random numbers of one sample: they depend on (seed, split, index) alone."""
    if split not in SPLITS:
        raise InputError(f"split is {split!r}; accepted: {', '.join(SPLITS)}")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(SPLITS.index(split), index)))
