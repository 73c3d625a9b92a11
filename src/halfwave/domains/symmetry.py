"""Symmetries: motions of a domain that take a solution of a problem to another solution, for training on more data.

A domain says which motions map its grids to themselves; that the *equation* keeps its form under them, and that every
channel is a scalar (vorticity changes its sign in a mirror), is what the one who asks for them vouches for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from halfwave.domains.box import Box
from halfwave.domains.domain import Domain
from halfwave.domains.torus import Torus
from halfwave.errors import InputError

SYMMETRIES = ("translations", "reflections")
"""translations: along periodic axes, by whole points. reflections: axes reversed, and swapped where they are alike."""


def check_symmetries(names: Sequence[str], domain: Domain) -> None:
    """InputError for a motion that does not exist, or that a domain has not got."""
    for name in names:
        if name not in SYMMETRIES:
            raise InputError(f"unknown symmetry {name!r}: expected one of {', '.join(SYMMETRIES)}")
        if not domain.has_grid:
            raise InputError(f"{name} are of fields on a grid: {domain} has none")
        if name == "translations" and not any(domain.periodic):
            raise InputError(f"translations need an axis that is periodic: {domain} has none")
        if name == "reflections" and not isinstance(domain, Box | Torus):
            raise InputError(f"reflections are of boxes and tori: {domain} is neither")


def move(names: Sequence[str], domain: Domain, fields: Sequence[Tensor], rng: np.random.Generator) -> list[Tensor]:
    """One random motion applied to several fields (C, *grid) of one sample alike."""
    grid = tuple(fields[0].shape[1:])
    if "translations" in names:
        shifts = [int(rng.integers(n)) if wraps else 0 for n, wraps in zip(grid, domain.periodic, strict=True)]
        fields = [field.roll(shifts, tuple(range(1, 1 + len(grid)))) for field in fields]
    if "reflections" in names:
        turned = [axis + 1 for axis in range(len(grid)) if rng.random() < 0.5]
        assert isinstance(domain, Box | Torus), "check_symmetries asks for one"
        order = (0, *(1 + axis for axis in _swapped(list(zip(grid, domain.lengths, strict=True)), rng)))
        # A torus is turned about its first point, which stays: reversed, and moved by one.
        steps = [int(domain.periodic[axis - 1]) for axis in turned]
        fields = [_turn(field, turned, steps).permute(order) for field in fields]
    return list(fields)


def moved(
    names: Sequence[str], domain: Domain, x: Tensor, y: Tensor, seeds: Sequence[Sequence[int]]
) -> tuple[Tensor, Tensor]:
    """Each sample of a batch (B, C, *grid) moved by a motion of its own, drawn from its seed alone."""
    pairs = [move(names, domain, pair, np.random.default_rng(seed)) for *pair, seed in zip(x, y, seeds, strict=True)]
    return torch.stack([pair[0] for pair in pairs]), torch.stack([pair[1] for pair in pairs])


def _turn(field: Tensor, axes: list[int], steps: list[int]) -> Tensor:
    return field.flip(axes).roll(steps, axes) if axes else field


def _swapped(axes: list[tuple[int, float]], rng: np.random.Generator) -> list[int]:
    """A random order of axes (points, length); only those that are alike change places."""
    order = list(range(len(axes)))
    for kind in sorted(set(axes)):
        alike = [axis for axis, other in enumerate(axes) if other == kind]
        for axis, taken in zip(alike, rng.permutation(alike).tolist(), strict=True):
            order[axis] = taken
    return order
