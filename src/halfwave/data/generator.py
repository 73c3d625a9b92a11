"""What a dataset generator is, and how sample i gets its random numbers."""

from __future__ import annotations

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
        """The named arrays of each sample: `x` and `y` (C x grid, float32), or those of a point cloud."""
        ...


def sample_shapes(generator: Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes (C, *grid) of one sample's `x` and `y`, known without solving; InputError for point clouds."""
    if not generator.domain.has_grid:
        raise InputError(f"{generator.name} has point clouds, whose shapes are known only when they are made")
    grid = generator.domain.grid(generator.resolution)  # type: ignore[attr-defined]
    return (generator.channels[0], *grid), (generator.channels[1], *grid)


def sample_rng(seed: int, split: str, index: int) -> np.random.Generator:
    """The random numbers of one sample: they depend on (seed, split, index) alone."""
    if split not in SPLITS:
        raise InputError(f"split is {split!r}; accepted: {', '.join(SPLITS)}")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(SPLITS.index(split), index)))
