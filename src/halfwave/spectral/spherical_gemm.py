"""The spherical harmonic transform as matrix products.

Analysis: longitudes first, [cos | -sin]^T (2M, W) times the fields (F H, W)^T, which leaves (M, 2, F, H): for every
order the operand of its Legendre product (L, H) x (H, 2F), with the latitudes innermost and nothing transposed. The
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
from halfwave.spectral.legendre import SphereGrid
from halfwave.spectral.legendre_matrix import legendre_matrix
from halfwave.spectral.matrices import Weighting, scale_of, transform_matrix
from halfwave.spectral.modes import AxisModes
from halfwave.spectral.slicing import slices


@dataclass(frozen=True)
class SphericalPlan:
    """Everything that one spherical transform of one grid needs.

    Attributes:
        grid: (H latitudes, W longitudes).
        degrees, orders: kept L and M.
        backend: of the longitudes, ``"gemm"`` or ``"fft"``.
        arith: the arithmetic.
        weighting: ``"mean"`` or ``"hermitian"``, see `matrices`.
        kind: the grid of latitudes.
        device: where it runs.
        piece: where `grid` has some of the latitudes only, the first of them and how many there are in all.
    """

    grid: tuple[int, int]
    degrees: int
    orders: int
    backend: str
    weighting: Weighting
    arith: Arithmetic
    kind: SphereGrid
    device: torch.device
    piece: tuple[int, int] | None = None

    @property
    def longitude(self) -> Tensor:
        """[cos | -sin], (W, 2M), see `matrices`; for fft how often each order counts, (M,)."""
        if self.backend == "gemm":
            modes = AxisModes(self.grid[1], 0, self.orders, 0)
            matrix = transform_matrix(modes, True, self.weighting, self.arith, self.device)
            return self.arith.matrix(matrix, scale_of(self.grid[1], self.weighting))
        return counted(self.orders, self.grid[1], self.arith.compute, self.device)

    @property
    def interleaved(self) -> Tensor:
        """`longitude` of gemm with both parts of an order side by side, as `zonal` has them: (W, 2M)."""
        return self.longitude.unflatten(1, (2, self.orders)).transpose(1, 2).flatten(1)

    @property
    def in_place(self) -> bool:
        """Whether fields are multiplied where they lie: nothing is widened, so slices would save nothing."""
        return self.backend == "gemm" and self.arith.how == "native" and self.arith.format.half

    @property
    def legendre(self) -> Tensor:
        """(M, L, H), see `legendre_matrix`: from its cache, which is bounded by bytes as this plan is not."""
        shape = (self.orders, self.degrees, self.grid[0])
        matrix = legendre_matrix(shape, self.kind, self.weighting, self.arith, self.device, self.piece)
        latitudes = self.grid[0] if self.piece is None else self.piece[1]
        return self.arith.matrix(matrix, scale_of(latitudes, self.weighting))

    def __str__(self) -> str:
        grid = "x".join(map(str, self.grid))
        kept = f"{self.degrees} degrees, {self.orders} orders"
        return f"{self.backend} transform of {grid} {self.kind} points, {kept} in {self.arith}"


def analyse(x: Tensor, plan: SphericalPlan) -> Tensor:
    """(B, C, H, W) to (L, 2, M B, C)."""
    batch, channels = x.shape[:2]
    fields, arith = batch * channels, plan.arith
    zonal = _analyse_longitudes(x.reshape(fields, *plan.grid), plan).flatten(1, 2)
    spectrum = x.new_empty((plan.degrees, 2, plan.orders, fields), dtype=arith.storage)
    latitudes_to_degrees = _fold_and_multiply if _folds(plan) else _multiply
    for part in _order_slices(plan, fields, x.device):
        spectrum[: part.start, :, part] = 0
        latitudes_to_degrees(arith.load(zonal[part]), spectrum[:, :, part], part, plan)
    return spectrum.view(plan.degrees, 2, plan.orders * batch, channels)


def synthesise(s: Tensor, plan: SphericalPlan) -> Tensor:
    """(L, 2, M B, C) to (B, C, H, W)."""
    batch, channels = s.shape[-2] // plan.orders, s.shape[-1]
    fields, arith = batch * channels, plan.arith
    spectrum = s.reshape(plan.degrees, 2, plan.orders, fields)
    zonal = s.new_empty((plan.orders, 2 * fields, plan.grid[0]), dtype=arith.storage)
    degrees_to_latitudes = _multiply_and_unfold if _folds(plan) else _multiply_back
    for part in _order_slices(plan, fields, s.device):
        degrees_to_latitudes(spectrum[:, :, part], zonal[part], part, plan)
    return _synthesise_longitudes(zonal.unflatten(1, (2, fields)), plan).view(batch, channels, *plan.grid)


def plain_analyse(x: Tensor, plan: SphericalPlan) -> Tensor:
    """`analyse` by differentiable operators alone."""
    batch, channels = x.shape[:2]
    fields, arith = batch * channels, plan.arith
    rows = arith.load(x.reshape(fields, *plan.grid)).reshape(-1, plan.grid[1])
    columns = _rfft(rows, plan) if plan.backend == "fft" else _product_of_longitudes(rows, plan)
    zonal = arith.store(arith.settle(columns))
    if plan.backend == "fft" and plan.weighting == "hermitian":
        zonal = zonal * plan.longitude.to(zonal.dtype)[:, None, None]
    operand = arith.load(zonal.reshape(plan.orders, 2 * fields, plan.grid[0]))
    spectrum = arith.store(arith.multiply(torch.bmm, plan.legendre, operand.transpose(1, 2)))
    spectrum = spectrum.reshape(plan.orders, plan.degrees, 2, fields).permute(1, 2, 0, 3)
    return spectrum.reshape(plan.degrees, 2, plan.orders * batch, channels)


def plain_synthesise(s: Tensor, plan: SphericalPlan) -> Tensor:
    """`synthesise` by differentiable operators alone."""
    batch, channels = s.shape[-2] // plan.orders, s.shape[-1]
    fields, arith = batch * channels, plan.arith
    operand = arith.load(s.reshape(plan.degrees, 2, plan.orders, fields).permute(2, 1, 3, 0))
    operand = operand.reshape(plan.orders, 2 * fields, plan.degrees)
    zonal = arith.store(arith.multiply(torch.bmm, operand, plan.legendre))
    columns = arith.load(zonal).reshape(plan.orders, 2, fields * plan.grid[0])
    rows = _plain_irfft(columns, plan) if plan.backend == "fft" else _plain_rows(columns, plan)
    return arith.store(arith.settle(rows)).reshape(batch, channels, *plan.grid)


def _plain_irfft(columns: Tensor, plan: SphericalPlan) -> Tensor:
    """(M, 2, n) to (n, W)."""
    if plan.weighting == "mean":
        columns = columns / plan.longitude[:, None, None]
    coefficients = torch.view_as_complex(columns.permute(2, 0, 1).contiguous())
    return torch.fft.irfft(coefficients, plan.grid[1], norm="backward" if plan.weighting == "mean" else "forward")


def _plain_rows(columns: Tensor, plan: SphericalPlan) -> Tensor:
    """(M, 2, n) to (n, W)."""
    return plan.arith.multiply(torch.mm, columns.transpose(0, 1).reshape(2 * plan.orders, -1).t(), plan.longitude.t())


def _folds(plan: SphericalPlan) -> bool:
    """Whether both hemispheres are here, and products are taken in a format that holds sums of two stored numbers."""
    if plan.piece is not None:
        return False
    native_half = plan.arith.format.half and plan.arith.how == "native"
    return not (native_half or plan.arith.format.emulated)


def _multiply(zonal: Tensor, spectrum: Tensor, part: slice, plan: SphericalPlan) -> None:
    """(m, 2F, H) into (L, 2, m, F): the Legendre products of the orders in `part`."""
    product = plan.arith.multiply(torch.bmm, plan.legendre[part, part.start :], zonal.transpose(1, 2))
    _store_degrees(product, spectrum[part.start :], plan)


def _multiply_back(spectrum: Tensor, zonal: Tensor, part: slice, plan: SphericalPlan) -> None:
    """(L, 2, m, F) into (m, 2F, H)."""
    operand = _operand(spectrum[part.start :], plan)
    plan.arith.store_into(zonal, plan.arith.multiply(torch.bmm, operand, plan.legendre[part, part.start :]))


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
            _store_degrees(product, spectrum[degrees, :, orders], plan)


def _multiply_and_unfold(spectrum: Tensor, zonal: Tensor, part: slice, plan: SphericalPlan) -> None:
    """`_multiply_back` by hemispheres."""
    half, arith = plan.grid[0] // 2, plan.arith
    legendre = plan.legendre[part]
    for orders, even, odd in _parities(part.start):
        total = torch.bmm(_operand(spectrum[even, :, orders], plan), legendre[orders, even, : plan.grid[0] - half])
        difference = torch.bmm(_operand(spectrum[odd, :, orders], plan), legendre[orders, odd, :half])
        arith.store_into(zonal[orders, :, plan.grid[0] - half :], (total[..., :half] - difference).flip(-1))
        total[..., :half] += difference
        arith.store_into(zonal[orders, :, : plan.grid[0] - half], total)


def _store_degrees(product: Tensor, spectrum: Tensor, plan: SphericalPlan) -> None:
    """(m, l, 2F) into (l, 2, m, F)."""
    plan.arith.store_into(spectrum, product.unflatten(2, (2, -1)).permute(1, 2, 0, 3))


def _operand(spectrum: Tensor, plan: SphericalPlan) -> Tensor:
    """(l, 2, m, F) to (m, 2F, l), ready for products."""
    ordered = spectrum.permute(2, 0, 1, 3)
    rows = ordered.new_empty(ordered.shape, dtype=plan.arith.compute)
    return plan.arith.load_into(rows, ordered).flatten(2).transpose(1, 2)


def _parities(start: int) -> tuple[tuple[slice, slice, slice], ...]:
    """Every second order, counted from `start`, with the degrees that are even and odd about the equator."""
    near, next_one = slice(start, None, 2), slice(start + 1, None, 2)
    return (slice(0, None, 2), near, next_one), (slice(1, None, 2), next_one, near)


def _analyse_longitudes(x: Tensor, plan: SphericalPlan) -> Tensor:
    """(F, H, W) to (M, 2, F, H)."""
    latitudes, longitudes = plan.grid
    if plan.in_place:
        rows = plan.arith.load(x).reshape(-1, longitudes)
        return torch.mm(plan.interleaved.t(), rows.t()).view(plan.orders, 2, len(x), latitudes)
    zonal = x.new_empty((plan.orders, 2, len(x), latitudes), dtype=plan.arith.storage)
    for part in _field_slices(len(x), plan, x.device):
        rows = plan.arith.load(x[part]).reshape(-1, longitudes)
        columns = _rfft(rows, plan) if plan.backend == "fft" else _product_of_longitudes(rows, plan)
        zonal[:, :, part] = plan.arith.settle(columns).unflatten(2, (-1, latitudes))
    if plan.backend == "fft" and plan.weighting == "hermitian":
        # By 1 or 2: exact in every format, so it may as well follow the rounding, on the smaller block.
        zonal *= plan.longitude.to(zonal.dtype)[:, None, None, None]
    return zonal


def _synthesise_longitudes(zonal: Tensor, plan: SphericalPlan) -> Tensor:
    """(M, 2, F, H) to (F, H, W)."""
    fields, (latitudes, longitudes) = zonal.shape[2], plan.grid
    if plan.in_place:
        columns = zonal.reshape(2 * plan.orders, -1)
        return torch.mm(columns.t(), plan.interleaved.t()).view(fields, latitudes, longitudes)
    out = zonal.new_empty((fields, latitudes, longitudes), dtype=plan.arith.storage)
    parts = _field_slices(fields, plan, zonal.device)
    fields_at_once = parts[0].stop if parts else 0
    longitudes_of = _Irfft(plan, fields_at_once * latitudes, zonal.device) if plan.backend == "fft" else None
    for part in parts:
        if longitudes_of is not None:
            rows = longitudes_of(zonal[:, :, part])
        else:
            columns = plan.arith.load(zonal[:, :, part].transpose(0, 1)).reshape(2 * plan.orders, -1)
            rows = plan.arith.multiply(torch.mm, columns.t(), plan.longitude.t())
        out[part] = plan.arith.settle(rows).view(-1, latitudes, longitudes)
    return out


def _product_of_longitudes(rows: Tensor, plan: SphericalPlan) -> Tensor:
    """(n, W) to (M, 2, n), a view."""
    columns = plan.arith.multiply(torch.mm, plan.longitude.t(), rows.t())
    return columns.unflatten(0, (2, plan.orders)).transpose(0, 1)


def _rfft(rows: Tensor, plan: SphericalPlan) -> Tensor:
    """(n, W) to (M, 2, n), a view: the means, or for the hermitian weighting the sums, not yet counted twice."""
    coefficients = torch.fft.rfft(rows, norm="forward" if plan.weighting == "mean" else "backward")
    return torch.view_as_real(coefficients[:, : plan.orders]).permute(1, 2, 0)


class _Irfft:
    """(M, 2, f, H) to (f H, W), slice after slice in the same memory.

    The transposition is what costs, and how it is done decides: rows are gathered 16 numbers longer than they are, as
    a stride of a power of two would map a whole column to one line of the cache, and copied from there into
    coefficients that are zero beyond the orders kept. torch's kernel for transposed matrices runs on one thread.
    """

    def __init__(self, plan: SphericalPlan, rows: int, device: torch.device) -> None:
        dtype, self.plan = plan.arith.compute, plan
        self.columns = torch.empty((2 * plan.orders, rows + 16), dtype=dtype, device=device)
        self.padded = torch.zeros((rows, plan.grid[1] // 2 + 1, 2), dtype=dtype, device=device)

    def __call__(self, zonal: Tensor) -> Tensor:
        plan, (orders, _, fields, latitudes) = self.plan, zonal.shape
        rows = fields * latitudes
        columns = self.columns[:, :rows].view(orders, 2, fields, latitudes)
        columns.copy_(zonal)  # numbers of the format already
        if plan.weighting == "mean":
            # irfft counts twice by itself, which the weighting of means does not.
            columns /= plan.longitude[:, None, None, None]
        self.padded[:rows, :orders] = columns.permute(2, 3, 0, 1).flatten(0, 1)
        coefficients = torch.view_as_complex(self.padded[:rows])
        return torch.fft.irfft(coefficients, plan.grid[1], norm="backward" if plan.weighting == "mean" else "forward")


def counted(orders: int, longitudes: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """How many orders m stands for in a real field, shape (M,): 2 (m and -m), but 1 for m = 0 and m = W/2."""
    m = torch.arange(orders, device=device)
    return torch.where((m == 0) | (2 * m == longitudes), 1.0, 2.0).to(dtype)


def _field_slices(fields: int, plan: SphericalPlan, device: torch.device) -> list[slice]:
    """Half of the budget: loaded fields and their coefficients, twice as large, are there at the same time."""
    latitudes, longitudes = plan.grid
    return list(slices(fields, 8 * latitudes * longitudes, device))


def _order_slices(plan: SphericalPlan, fields: int, device: torch.device) -> list[slice]:
    return list(slices(plan.orders, 4 * fields * (plan.degrees + plan.grid[0]), device))
