"""The discretization error of data: what their grid costs the Fourier coefficients that a model keeps, estimated.

With c_m(w) the grid coefficient on m points a side, e_2 = ||c_m - c_{m/2}|| and e_4 = ||c_{m/2} - c_{m/4}|| are seen.
If the error goes on falling at the rate r = e_2/e_4 from one grid to the next finer one, then what the grid m itself
costs is e_2 (r + r^2 + ...) = e_2 r/(1-r). Rough data (jumps: Darcy's coefficient) have r near 1/2 or above and lose
nearly e_2; smooth ones (Navier-Stokes forcing) have r near 0, and a grid that is almost exact (docs/theory.md).
"""

from __future__ import annotations

import torch
from torch import Tensor

from halfwave.errors import InputError
from halfwave.theory import Estimate

SMALLEST = 16
"""Points a side below which a quarter of them says nothing."""
FLOOR = 2.0**-24
"""Data are fp32 numbers: an error below the roundoff of their own values cannot be told."""


def estimate_data_error(x: Tensor, n_modes: tuple[int, ...] | None = None) -> Estimate:
    """The relative discretization error of fields (B, C, *grid): l2 over samples, channels and low frequencies.

    Frequencies are those that the quarter grid has, and that `n_modes` keeps where it is given. Sides must be multiples
    of 4, or one more (both ends of the interval are nodes then, and the last is left out); InputError otherwise.
    """
    fields = _trimmed(x.double())
    reach = [side // 8 - 1 for side in fields.shape[2:]]
    if n_modes is not None:
        reach = [max(0, min(r, k // 2)) for r, k in zip(reach, n_modes, strict=True)]
    fine, half, quarter = (_coefficients(_every(fields, step), reach) for step in (1, 2, 4))
    size, e2, e4 = float(fine.norm()), float((fine - half).norm()), float((half - quarter).norm())
    if size == 0 or e2 <= FLOOR * size:
        return Estimate(FLOOR, "below the roundoff of fp32 data")
    rate = min(e2 / e4, 1.0) if e4 > 0 else 1.0
    # Never more than the difference that was seen: a rate of 1/2 is first order, and above it nothing converges yet.
    error = e2 * min(1.0, rate / (1.0 - rate)) if rate < 1.0 else e2
    method = f"halving the grid changes {e2 / size:.1e}, halving it again {1 / rate:.3g} times as much"
    return Estimate(max(FLOOR, error / size), method)


def _trimmed(x: Tensor) -> Tensor:
    sides = tuple(x.shape[2:])
    if min(sides) < SMALLEST or any(side % 4 > 1 for side in sides):
        raise InputError(
            f"the discretization error of data on {' x '.join(map(str, sides))} cannot be estimated: give a tolerance, "
            f"or sides of 4k or 4k + 1 points, {SMALLEST} at least"
        )
    return x[(slice(None), slice(None), *[slice(0, side - side % 4) for side in sides])]


def _every(x: Tensor, step: int) -> Tensor:
    return x[(slice(None), slice(None), *[slice(None, None, step)] * (x.ndim - 2))]


def _coefficients(x: Tensor, reach: list[int]) -> Tensor:
    """c(w) = (1/n) sum v e^{-2 pi i <w,x>} for |w_k| <= reach_k."""
    axes = tuple(range(2, x.ndim))
    spectrum = torch.fft.fftn(x, dim=axes, norm="forward")
    for axis, r in zip(axes, reach, strict=True):
        kept = torch.arange(-r, r + 1, device=x.device) % x.shape[axis]
        spectrum = spectrum.index_select(axis, kept)
    return spectrum
