"""The truncated spherical harmonic transform of real fields on the sphere, in any format.

Forward: v_hat(l, m) = mean of v over the sphere against Y_lm, by quadrature, for l < L and 0 <= m < M. Inverse:
v(θ, φ) = Re sum_lm c_m v_hat(l, m) P_lm(cos θ) e^{imφ} with c_0 = 1 and c_m = 2, as m stands for -m as well.
Y_lm has mean square 1 (see `legendre`), so coefficients are bounded by max|v| and no format overflows;
torch-harmonics' orthonormal coefficients are these times sqrt(4π).

Shapes: fields (B, C, H latitudes, W longitudes); spectra (L, 2, M B, C), with the orders in the batch axis: a rotation-
equivariant convolution has weights per degree alone, (L, C, 2, O), so orders are to it what samples are, and the
contraction of the Fourier layers serves the sphere as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic, Format, portable
from halfwave.spectral import spherical_gemm
from halfwave.spectral.bias import add_at
from halfwave.spectral.legendre import SPHERE_GRIDS, SphereGrid
from halfwave.spectral.matrices import Weighting
from halfwave.spectral.modes import Layout, check_owned
from halfwave.spectral.spherical_gemm import SphericalPlan
from halfwave.spectral.transform import analyse, synthesise
from halfwave.spectral.transform_plan import Backend

BACKENDS = ("auto", "gemm", "fft")
# From how many orders an FFT of the longitudes is cheaper than a product, whose work grows with them.
_FFT_FROM = 24


@dataclass(frozen=True)
class SphericalTransform:
    """A transform to the degrees l < n_modes[0] and the orders m < n_modes[1] // 2, counted as neuraloperator does.

    Works on every grid of the kind `grid`; one with fewer than n_modes[0] latitudes keeps as many degrees as it has
    latitudes, and as many orders as its longitudes resolve. The quadrature of band-limited fields is exact for
    L <= H on Legendre-Gauss and for L <= (H+1)/2 on equiangular grids.

    `backend` is that of the longitudes: ``"gemm"``, ``"fft"``, or ``"auto"``: products where the device multiplies a
    half format natively, and where orders are few; else the FFT.

    `max_n_modes` are the modes that have weights, where they are more than those that are kept. `layout="neuralop"`
    keeps all degrees on every grid, as neuraloperator does: those that a grid's latitudes do not resolve are aliases.
    """

    n_modes: tuple[int, int]
    grid: SphereGrid = "equiangular"
    backend: Backend = "auto"
    layout: Layout = "exact"
    max_n_modes: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        modes = tuple(self.n_modes)
        if len(modes) != 2 or any(type(n) is not int for n in modes) or modes[0] < 1 or modes[1] < 2:
            raise ValueError(
                f"n_modes of the sphere must be (degrees >= 1, twice the orders >= 2), got {self.n_modes!r}"
            )
        if self.grid not in SPHERE_GRIDS:
            raise ValueError(f"unknown grid {self.grid!r} of the sphere: expected one of {', '.join(SPHERE_GRIDS)}")
        if self.backend not in BACKENDS:
            raise ValueError(f"unknown backend {self.backend!r}: expected one of {', '.join(BACKENDS)}")
        check_owned(modes, self.max_n_modes)

    @property
    def dim(self) -> int:
        return 2

    @property
    def weight_modes(self) -> tuple[int, ...]:
        """Shape of the mode axes of the weights: one for each degree."""
        return ((self.max_n_modes or self.n_modes)[0],)

    def kept(self, grid: tuple[int, ...]) -> tuple[int, int]:
        """Degrees and orders kept on a grid; orders past the highest degree have no harmonics."""
        if len(grid) != 2:
            raise ValueError(f"a spherical transform needs a grid (latitudes, longitudes), got {grid}")
        degrees = self.n_modes[0] if self.layout == "neuralop" else min(self.n_modes[0], grid[0])
        return degrees, min(self.n_modes[1] // 2, grid[1] // 2 + 1, degrees)

    def weight_slices(self, grid: tuple[int, ...]) -> tuple[slice, ...]:
        """Which weights the degrees of this grid use."""
        return (slice(0, self.kept(grid)[0]),)

    def forward(self, x: Tensor, arith: Arithmetic) -> Tensor:
        """(B, C, H, W) to (L, 2, M B, C): means of the field against each kept harmonic."""
        return analyse(x, spherical_gemm, self.plan(tuple(x.shape[2:]), arith, x.device))

    def inverse(self, x_hat: Tensor, grid: tuple[int, ...], source: tuple[int, ...], arith: Arithmetic) -> Tensor:
        """(L, 2, M B, C), as kept on the grid `source`, to the field (B, C, *grid)."""
        kept, given = self.kept(grid), self.kept(source)
        if kept != given:
            kept = (min(kept[0], given[0]), min(kept[1], given[1]))
            x_hat = x_hat.unflatten(2, (given[1], -1))[: kept[0], :, : kept[1]].flatten(2, 3)
        return synthesise(x_hat, spherical_gemm, self._plan(grid, kept, "hermitian", arith, x_hat.device))

    def plan(self, grid: tuple[int, ...], arith: Arithmetic, device: torch.device) -> SphericalPlan:
        """What the forward transform of a grid does; print it to see."""
        return self._plan(grid, self.kept(grid), "mean", arith, device)

    def _plan(
        self,
        grid: tuple[int, ...],
        kept: tuple[int, int],
        weighting: Weighting,
        arith: Arithmetic,
        device: torch.device,
    ) -> SphericalPlan:
        degrees, orders = kept
        backend = self._backend(orders, arith)
        return SphericalPlan((grid[0], grid[1]), degrees, orders, backend, weighting, arith, self.grid, device)

    def _backend(self, orders: int, arith: Arithmetic) -> Literal["gemm", "fft"]:
        native_half = arith.format.half and arith.how == "native"
        if portable() or self.backend == "gemm" or (self.backend == "auto" and (native_half or orders < _FFT_FROM)):
            return "gemm"
        if native_half:
            raise ValueError(f"the fft backend of the sphere does not run in {arith}: expected 'gemm' or 'auto'")
        return "fft"

    def half_fft(self, format: Format) -> bool:
        """False: coefficients are means in both backends, which cannot leave a format's range."""
        return False

    def add_constant(self, x_hat: Tensor, constant: Tensor, grid: tuple[int, ...]) -> Tensor | None:
        """Add a constant per channel (C,) to the field by adding it to its mean."""
        batch = x_hat.shape[2] // self.kept(grid)[1]
        return add_at(x_hat, (0, 0, slice(batch)), constant)
