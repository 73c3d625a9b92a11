"""The spherical harmonic transform as matrix products.

Analysis: longitudes first, [cos | -sin]^T (2M, W) times the fields (F H, W)^T, which leaves (2, M, F, H): for every
order the operand of its Legendre product (L, H) x (H, F), with the latitudes innermost and nothing transposed. The
permutation into degree-major order moves rows of F numbers of the truncated block. Synthesis runs the same steps
backwards with the transposes, so each is exactly the adjoint of the other.

Backend ``"fft"`` takes the longitudes by an FFT of the loaded values in `arith.compute`, normalised, so nothing
overflows; the latitudes are products in both backends.

Harmonics have m <= l: a slice of orders that starts at m skips the degrees below m, up to half of the products.
They are even or odd about the equator, P_lm(-z) = (-1)^(l+m) P_lm(z), and both grids are symmetric: sums and
differences of the hemispheres meet half of the degrees each on half of the latitudes, half of the products again.
Operands that a format has to hold itself (native half, emulated) would have to round those sums; they are not folded.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic
from halfwave.spectral.matrices import Weighting
from halfwave.spectral.slicing import slices


@dataclass(frozen=True)
class SphericalPlan:
    """Everything that one spherical transform of one grid needs.

    Attributes:
        grid: (H latitudes, W longitudes).
        degrees, orders: kept L and M.
        backend: of the longitudes, ``"gemm"`` or ``"fft"``.
        arith: the arithmetic.
        longitude: [cos | -sin], (W, 2M), see `matrices`; for fft how often each order counts, (M,).
        weighting: ``"mean"`` or ``"hermitian"``, see `matrices`.
        legendre: (M, L, H), see `legendre_matrix`.
        kind: name of the grid of latitudes.
    """

    grid: tuple[int, int]
    degrees: int
    orders: int
    backend: str
    weighting: Weighting
    arith: Arithmetic
    longitude: Tensor
    legendre: Tensor
    kind: str

    def __str__(self) -> str:
        grid = "x".join(map(str, self.grid))
        kept = f"{self.degrees} degrees, {self.orders} orders"
        return f"{self.backend} transform of {grid} {self.kind} points, {kept} in {self.arith}"


def analyse(x: Tensor, plan: SphericalPlan) -> Tensor:
    """(B, C, H, W) to (L, 2, M B, C)."""
    batch, channels = x.shape[:2]
    fields, arith = batch * channels, plan.arith
    zonal = _analyse_longitudes(x.reshape(fields, *plan.grid), plan)
    spectrum = x.new_zeros((plan.degrees, 2, plan.orders, fields), dtype=arith.storage)
    latitudes_to_degrees = _fold_and_multiply if _folds(plan) else _multiply
    for part in _order_slices(plan, fields, x.device):
        for pair in range(2):
            latitudes_to_degrees(arith.load(zonal[pair, part]), spectrum[:, pair, part], part, plan)
    return spectrum.view(plan.degrees, 2, plan.orders * batch, channels)


def synthesise(s: Tensor, plan: SphericalPlan) -> Tensor:
    """(L, 2, M B, C) to (B, C, H, W)."""
    batch, channels = s.shape[-2] // plan.orders, s.shape[-1]
    fields, arith = batch * channels, plan.arith
    spectrum = s.reshape(plan.degrees, 2, plan.orders, fields)
    zonal = s.new_empty((2, plan.orders, fields, plan.grid[0]), dtype=arith.storage)
    degrees_to_latitudes = _multiply_and_unfold if _folds(plan) else _multiply_back
    for part in _order_slices(plan, fields, s.device):
        for pair in range(2):
            degrees_to_latitudes(spectrum[:, pair, part], zonal[pair, part], part, plan)
    return _synthesise_longitudes(zonal, plan).view(batch, channels, *plan.grid)


def _folds(plan: SphericalPlan) -> bool:
    """Whether products are taken in a format that holds sums of two stored numbers."""
    native_half = plan.arith.format.half and plan.arith.how == "native"
    return not (native_half or plan.arith.format.emulated)


def _multiply(zonal: Tensor, spectrum: Tensor, part: slice, plan: SphericalPlan) -> None:
    """(m, F, H) into (L, m, F): the Legendre products of the orders in `part`."""
    product = torch.bmm(plan.legendre[part, part.start :], zonal.transpose(1, 2))
    spectrum[part.start :] = plan.arith.store(product).transpose(0, 1)


def _multiply_back(spectrum: Tensor, zonal: Tensor, part: slice, plan: SphericalPlan) -> None:
    """(L, m, F) into (m, F, H)."""
    operand = _operand(spectrum[part.start :], plan)
    plan.arith.store_into(zonal, torch.bmm(operand, plan.legendre[part, part.start :]))


def _fold_and_multiply(zonal: Tensor, spectrum: Tensor, part: slice, plan: SphericalPlan) -> None:
    """`_multiply` by hemispheres."""
    half = plan.grid[0] // 2
    south = zonal[..., -half:].flip(-1) if half else zonal[..., :0]
    difference = zonal[..., :half] - south
    total = zonal[..., : plan.grid[0] - half].clone()  # with the equator, where a latitude lies on it
    total[..., :half] += south
    legendre = plan.legendre[part]
    for orders, even, odd in _parities(part.start):
        for degrees, side in ((even, total), (odd, difference)):
            matrix = legendre[orders, degrees, : side.shape[-1]]
            product = torch.bmm(matrix, side[orders].transpose(1, 2))
            spectrum[degrees, orders] = plan.arith.store(product).transpose(0, 1)


def _multiply_and_unfold(spectrum: Tensor, zonal: Tensor, part: slice, plan: SphericalPlan) -> None:
    """`_multiply_back` by hemispheres."""
    half, arith = plan.grid[0] // 2, plan.arith
    legendre = plan.legendre[part]
    for orders, even, odd in _parities(part.start):
        total = torch.bmm(_operand(spectrum[even, orders], plan), legendre[orders, even, : plan.grid[0] - half])
        difference = torch.bmm(_operand(spectrum[odd, orders], plan), legendre[orders, odd, :half])
        zonal[orders, :, plan.grid[0] - half :] = arith.store((total[..., :half] - difference).flip(-1))
        total[..., :half] += difference
        arith.store_into(zonal[orders, :, : plan.grid[0] - half], total)


def _operand(spectrum: Tensor, plan: SphericalPlan) -> Tensor:
    """(l, m, F) to (m, F, l), ready for products."""
    return plan.arith.load(spectrum.transpose(0, 1).contiguous()).transpose(1, 2)


def _parities(start: int) -> tuple[tuple[slice, slice, slice], ...]:
    """Every second order, counted from `start`, with the degrees that are even and odd about the equator."""
    near, next_one = slice(start, None, 2), slice(start + 1, None, 2)
    return (slice(0, None, 2), near, next_one), (slice(1, None, 2), next_one, near)


def _analyse_longitudes(x: Tensor, plan: SphericalPlan) -> Tensor:
    """(F, H, W) to (2, M, F, H)."""
    latitudes, longitudes = plan.grid
    zonal = x.new_empty((2, plan.orders, len(x), latitudes), dtype=plan.arith.storage)
    for part in slices(len(x), 4 * latitudes * longitudes, x.device):
        rows = plan.arith.load(x[part]).reshape(-1, longitudes)
        columns = _rfft(rows, plan) if plan.backend == "fft" else plan.longitude.t() @ rows.t()
        zonal[:, :, part] = plan.arith.settle(columns).view(2, plan.orders, -1, latitudes)
    if plan.backend == "fft" and plan.weighting == "hermitian":
        # By 1 or 2: exact in every format, so it may as well follow the rounding, on the smaller block.
        zonal *= plan.longitude.to(zonal.dtype)[:, None, None]
    return zonal


def _synthesise_longitudes(zonal: Tensor, plan: SphericalPlan) -> Tensor:
    """(2, M, F, H) to (F, H, W)."""
    fields, (latitudes, longitudes) = zonal.shape[2], plan.grid
    out = zonal.new_empty((fields, latitudes, longitudes), dtype=plan.arith.storage)
    for part in slices(fields, 4 * latitudes * longitudes, zonal.device):
        if plan.backend == "fft":
            rows = _irfft(zonal[:, :, part], plan)
        else:
            rows = plan.arith.load(zonal[:, :, part]).reshape(2 * plan.orders, -1).t() @ plan.longitude.t()
        out[part] = plan.arith.settle(rows).view(-1, latitudes, longitudes)
    return out


def _rfft(rows: Tensor, plan: SphericalPlan) -> Tensor:
    """(n, W) to (2, M, n), a view: the means, or for the hermitian weighting the sums, not yet counted twice."""
    coefficients = torch.fft.rfft(rows, norm="forward" if plan.weighting == "mean" else "backward")
    return torch.view_as_real(coefficients[:, : plan.orders]).permute(2, 1, 0)


def _irfft(zonal: Tensor, plan: SphericalPlan) -> Tensor:
    """(2, M, f, H) to (f, H, W); irfft counts twice by itself, which the weighting of means does not."""
    fields, latitudes = zonal.shape[2:]
    # Contiguous rows (M, 2), then the transposition of a matrix in one dtype, for which torch has a kernel: a third of
    # the time of one permuting copy. The values are numbers of the format already.
    pairs = zonal.transpose(0, 1).to(plan.arith.compute, copy=True, memory_format=torch.contiguous_format)
    if plan.weighting == "mean":
        pairs /= plan.longitude[:, None, None, None]
    rows = pairs.view(2 * plan.orders, -1).t().contiguous()
    del pairs
    coefficients = torch.view_as_complex(rows.view(fields, latitudes, plan.orders, 2))
    norm = "backward" if plan.weighting == "mean" else "forward"
    return torch.fft.irfft(coefficients, plan.grid[1], norm=norm)


def counted(orders: int, longitudes: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """How many orders m stands for in a real field, shape (M,): 2 (m and -m), but 1 for m = 0 and m = W/2."""
    m = torch.arange(orders, device=device)
    return torch.where((m == 0) | (2 * m == longitudes), 1.0, 2.0).to(dtype)


def _order_slices(plan: SphericalPlan, fields: int, device: torch.device) -> list[slice]:
    return list(slices(plan.orders, 4 * fields * (plan.degrees + plan.grid[0]), device))
