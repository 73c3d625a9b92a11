"""Kept modes: which frequencies of a grid a layer works on, and which of its weights belong to them.

A layer with n modes along an axis owns weights for the frequencies -floor(n/2) .. ceil(n/2)-1, and along the last
axis (real fields have a symmetric spectrum) for 0 .. floor(n/2). A grid of N points has N frequencies; where N < n
only the weights of the grid's own frequencies are used, so a model runs on any grid. A layer that owns weights for more
modes than it keeps now (`max_n_modes`: incremental training raises n) uses those of the low frequencies.

`layout="neuralop"` repeats three slips of neuraloperator 2.0, for models that were trained with them: on an axis (not
the last) of odd length its inverse transform lands one frequency too low, because it undoes `fftshift` by `fftshift`;
on a grid smaller than an even number of modes, of odd length, the weights are shifted by one frequency; and an answer
on another grid has its negative frequencies of those axes at wrong ones (see `placed_modes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from halfwave.numerics import portable

Layout = Literal["exact", "neuralop"]


@dataclass(frozen=True)
class AxisModes:
    """The kept frequencies first .. first+count-1 of one axis.

    Attributes:
        size: grid points N.
        first: lowest kept frequency.
        count: how many are kept.
        weight_start: index of the weight that belongs to `first`.
        shift: added to each frequency by the inverse transform (0, or -1 in the neuralop layout).
    """

    size: int
    first: int
    count: int
    weight_start: int
    shift: int = 0

    @property
    def weight_slice(self) -> slice:
        return slice(self.weight_start, self.weight_start + self.count)


def last_axis_modes(size: int, n_modes: int) -> AxisModes:
    """0 .. floor(n/2) of a real transform, as far as the grid has them."""
    return AxisModes(size, 0, _resolved(size // 2 + 1, n_modes // 2 + 1), 0)


def inner_axis_modes(size: int, n_modes: int, layout: Layout = "exact", owned: int | None = None) -> AxisModes:
    """The min(N, n) frequencies around 0 of a complex transform; `owned` is how many have weights, if not n."""
    count, weights = _resolved(size, n_modes), n_modes if owned is None else owned
    if layout == "neuralop":
        return AxisModes(size, -(count // 2), count, (weights - count) // 2, shift=-(size % 2))
    return AxisModes(size, -(count // 2), count, weights // 2 - count // 2)


def _resolved(available: int, wanted: int) -> int:
    """As many modes as the grid has; a program for free grids is made for those that have all."""
    mode = portable()
    return wanted if mode is not None and mode.free_grid else min(available, wanted)


def placed_modes(axis: AxisModes, size: int) -> list[tuple[slice, AxisModes]]:
    """Where neuraloperator's inverse transform to `size` points puts the kept modes of an inner axis, in pieces.

    It cuts or pads the N coefficients at their end, where the negative frequencies are: k < 0 becomes N + k, and what
    does not fit is lost. Each piece is (its slice of the kept modes, the frequencies that it becomes).
    """
    first = axis.first + axis.shift
    negative = min(axis.count, max(0, -first))
    runs = [(0, axis.size + first, negative), (negative, first + negative, axis.count - negative)]
    fitting = [(start, lands, min(count, size - lands)) for start, lands, count in runs]
    return [(slice(s, s + n), AxisModes(size, lands, n, 0)) for s, lands, n in fitting if n > 0]


def kept_modes(
    grid: tuple[int, ...], n_modes: tuple[int, ...], layout: Layout = "exact", owned: tuple[int, ...] | None = None
) -> tuple[AxisModes, ...]:
    """The kept modes of every axis of a grid; `owned` are the modes that have weights, if not `n_modes`."""
    if len(grid) != len(n_modes):
        raise ValueError(f"a transform with n_modes {n_modes} needs {len(n_modes)} grid axes, got grid {grid}")
    axes = zip(grid[:-1], n_modes[:-1], (owned or n_modes)[:-1], strict=True)
    inner = tuple(inner_axis_modes(size, n, layout, weights) for size, n, weights in axes)
    return (*inner, last_axis_modes(grid[-1], n_modes[-1]))


def weight_modes(n_modes: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of the mode axes of a weight tensor: n along every axis, floor(n/2)+1 along the last."""
    return (*n_modes[:-1], n_modes[-1] // 2 + 1)


def check_modes(n_modes: int | tuple[int, ...] | list[int]) -> tuple[int, ...]:
    """`n_modes` as a tuple of one to three positive integers."""
    modes = (n_modes,) if isinstance(n_modes, int) else tuple(n_modes)
    if not 1 <= len(modes) <= 3 or any(not isinstance(n, int) or isinstance(n, bool) or n < 1 for n in modes):
        raise ValueError(f"n_modes must be one to three positive integers, got {n_modes!r}")
    return modes


def check_owned(n_modes: tuple[int, ...], max_n_modes: tuple[int, ...] | None) -> None:
    """ValueError unless `max_n_modes` (None: as many as are kept) has the axes of `n_modes` and no fewer modes."""
    if max_n_modes is None:
        return
    # Along the last axis 2k and 2k + 1 modes are the same frequencies.
    kept, most = ((*modes[:-1], modes[-1] // 2) for modes in (n_modes, max_n_modes))
    if len(most) != len(kept) or any(n > m for n, m in zip(kept, most, strict=True)):
        raise ValueError(f"n_modes {n_modes} must not pass max_n_modes {max_n_modes}, along any of as many axes")
