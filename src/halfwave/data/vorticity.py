"""A pseudo-spectral solver of the 2-D Navier-Stokes equations in vorticity form on the torus [0, 2 pi)^2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from halfwave.errors import InputError


@dataclass(frozen=True)
class VorticitySolver:
    """w_t + u . grad w = Lap w / Re + f,  u = (phi_y, -phi_x),  -Lap phi = w,  mean of w = 0.

    Space: Fourier modes |k| < n/3 in each direction, so that products are free of aliasing (the 2/3 rule). The
    nonlinear term is curl div (u u) = (d_xx - d_yy)(u v) + d_xy (v^2 - u^2): four real FFTs (Basdevant 1983).
    Time: classical Runge-Kutta of order 4 with the viscous term integrated exactly, so viscosity never limits the step.
    The step is courant * dx / max(|u| + |v|), at most `max_step`, chosen for each sample of the batch by itself; the
    stability limit is a Courant number of 4/3. What a sample becomes does not depend on its neighbours in the batch.
    """

    resolution: int
    reynolds: float = 500.0
    dtype: torch.dtype = torch.float64
    courant: float = 0.4
    max_step: float = 0.05

    def __post_init__(self) -> None:
        if self.resolution < 8 or self.resolution % 2:
            raise InputError(f"resolution is {self.resolution}; Navier-Stokes needs an even number of at least 8")
        if self.reynolds <= 0:
            raise InputError(f"reynolds is {self.reynolds}; it must be positive")
        if self.dtype not in (torch.float32, torch.float64):
            raise InputError(f"dtype is {self.dtype}; accepted: float32, float64")

    def solve(self, forcing: Tensor, time: float, initial: Tensor | None = None) -> Tensor:
        """w(time) from w(0) = `initial` (zero by default); all B x n x n, the first axis of the grid being x."""
        f_hat = self.to_modes(forcing.to(self.dtype))
        w_hat = torch.zeros_like(f_hat) if initial is None else self.to_modes(initial.to(self.dtype))
        left = torch.full((len(forcing), 1, 1), time, dtype=torch.float64)
        while bool((left > 0).any()):
            w_hat, left = self._step(w_hat, f_hat, left)
        result = self.to_grid(w_hat)
        if not bool(torch.isfinite(result).all()):
            raise ArithmeticError(
                f"Navier-Stokes at Re = {self.reynolds:g} on {self.resolution}^2 points became infinite"
            )
        return result

    def _step(self, w: Tensor, f: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
        """One step of each sample; `left` is the time that remains to it. A finished sample takes steps of length 0."""
        k1, speed = self.tendency(w, f)
        limit = (self.courant * self._spacing / speed.clamp_min(1e-30)).clamp_max(self.max_step)
        # Equal steps to the end: no last sliver, and the end is met exactly.
        steps = torch.ceil(left / limit.double()).clamp_min(1.0)
        dt64 = left / steps
        dt = dt64.to(self.dtype)
        half = torch.exp(-self._viscosity * (dt / 2))
        full = half * half
        half_w = half * w
        k2, _ = self.tendency(half_w + (dt / 2) * (half * k1), f)
        k3, _ = self.tendency(half_w + (dt / 2) * k2, f)
        k4, _ = self.tendency(full * w + dt * (half * k3), f)
        w = full * w + (dt / 6) * (full * k1 + 2 * half * (k2 + k3) + k4)
        return w, torch.where(steps == 1, torch.zeros_like(left), left - dt64)

    def tendency(self, w: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
        """f - u . grad w in modes, and max(|u| + |v|) of each sample (B x 1 x 1)."""
        u, v = self.to_grid(self._u_from_w * w), self.to_grid(self._v_from_w * w)
        cross, difference = self.to_modes(u * v), self.to_modes((v - u) * (v + u))
        speed = (u.abs() + v.abs()).amax(dim=(-2, -1), keepdim=True)
        return torch.addcmul(self._cross_factor * cross, self._difference_factor, difference) + f, speed

    @property
    def _spacing(self) -> float:
        return 2 * math.pi / self.resolution

    @property
    def _columns(self) -> int:
        """Kept frequencies 0 .. ceil(n/3) - 1 of the last axis; the state holds no others."""
        return -(-self.resolution // 3)

    def to_modes(self, values: Tensor) -> Tensor:
        rows = torch.fft.rfft(values, dim=-1, norm="forward")[..., : self._columns]
        return torch.fft.fft(rows, dim=-2, norm="forward") * self._kept

    def to_grid(self, modes: Tensor) -> Tensor:
        rows = torch.fft.ifft(modes, dim=-2, norm="forward")
        return torch.fft.irfft(rows, n=self.resolution, dim=-1, norm="forward")

    @cached_property
    def _wavenumbers(self) -> tuple[Tensor, Tensor]:
        kx = torch.fft.fftfreq(self.resolution, 1 / self.resolution, dtype=torch.float64)[:, None]
        ky = torch.arange(self._columns, dtype=torch.float64)[None, :]
        return kx, ky

    @cached_property
    def _squared(self) -> Tensor:
        kx, ky = self._wavenumbers
        return kx**2 + ky**2

    @cached_property
    def _kept(self) -> Tensor:
        """1 on the kept modes, 0 on aliased rows and on the mean."""
        kept = (self._wavenumbers[0].abs() < self.resolution / 3).expand_as(self._squared).to(self.dtype).clone()
        kept[0, 0] = 0
        return kept

    @cached_property
    def _viscosity(self) -> Tensor:
        return (self._squared / self.reynolds).to(self.dtype)

    @cached_property
    def _u_from_w(self) -> Tensor:
        return self._complex(1j * self._wavenumbers[1] / self._squared.clamp_min(1.0))

    @cached_property
    def _v_from_w(self) -> Tensor:
        return self._complex(-1j * self._wavenumbers[0] / self._squared.clamp_min(1.0))

    @cached_property
    def _cross_factor(self) -> Tensor:
        kx, ky = self._wavenumbers
        return self._complex(kx**2 - ky**2)

    @cached_property
    def _difference_factor(self) -> Tensor:
        kx, ky = self._wavenumbers
        return self._complex(kx * ky)

    def _complex(self, factor: Tensor) -> Tensor:
        return factor.to(torch.complex64 if self.dtype == torch.float32 else torch.complex128)
