"""Energy and enstrophy by wavenumber, of truth and of rollouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from halfwave.domains import Domain

SHARES = (0.25, 0.5, 1.0)
"""Of a rollout: when its spectra are taken."""


@dataclass
class Spectrum:
    """Means over trajectories of E(κ) = 1/2 sum |û|^2 and of Z(κ) = κ^2 E(κ) over the shell |k| = κ, at some steps.

    Of a vorticity (`is_vorticity`) the fields themselves give Z, and E = Z / κ^2. Wavenumbers are 2 pi k / L; shells
    are those of the longest side. On a domain without Fourier waves (`lengths` empty) there are none.
    """

    lengths: Sequence[float] = ()
    is_vorticity: bool = False
    _sums: dict[str, dict[int, Tensor]] = field(default_factory=lambda: {"truth": {}, "prediction": {}})
    _count: int = 0

    def add(self, truth: Tensor, prediction: Tensor) -> None:
        """States of some trajectories, B x steps x C x grid."""
        if not self.lengths or not truth.shape[1]:
            return
        self._count += len(truth)
        for step in sorted({max(1, math.ceil(share * truth.shape[1])) for share in SHARES}):
            for name, states in (("truth", truth), ("prediction", prediction)):
                found = self.shells(states[:, step - 1]).sum(dim=0)
                known = self._sums[name]
                known[step] = known.get(step, torch.zeros_like(found)) + found

    def shells(self, fields: Tensor) -> Tensor:
        """1/2 sum |û|^2 over channels and shells, B x shells, from B x C x grid; the mean is left out."""
        axes = tuple(range(2, fields.ndim))
        power = torch.fft.fftn(fields.double(), dim=axes, norm="forward").abs().square().sum(dim=1).flatten(1) / 2
        numbers = self._numbers(tuple(fields.shape[2:])).flatten()
        size = min(n // 2 for n in fields.shape[2:])
        kept = (numbers >= 1) & (numbers <= size)
        return torch.zeros(len(fields), size, dtype=torch.float64).index_add(1, numbers[kept] - 1, power[:, kept])

    def _numbers(self, grid: tuple[int, ...]) -> Tensor:
        """The shell of every wave: its wavenumber in those of the longest side."""
        longest = max(self.lengths)
        squares = torch.zeros(grid, dtype=torch.float64)
        for axis, (n, length) in enumerate(zip(grid, self.lengths, strict=True)):
            k = torch.fft.fftfreq(n, 1 / n, dtype=torch.float64) * (longest / length)
            squares = squares + k.reshape([-1 if i == axis else 1 for i in range(len(grid))]) ** 2
        return squares.sqrt().round().long()

    def to_dict(self) -> dict[str, Any]:
        """{"wavenumbers", "steps": {step: {"truth" | "prediction": {"energy", "enstrophy"}}}}; empty without waves."""
        if not self._count:
            return {}
        first = next(iter(self._sums["truth"].values()))
        wavenumbers = 2 * math.pi / max(self.lengths) * torch.arange(1, len(first) + 1, dtype=torch.float64)
        steps = {
            str(step): {name: self._both(self._sums[name][step] / self._count, wavenumbers) for name in self._sums}
            for step in self._sums["truth"]
        }
        return {"wavenumbers": wavenumbers.tolist(), "steps": steps}

    def _both(self, shells: Tensor, wavenumbers: Tensor) -> dict[str, list[float]]:
        squared = wavenumbers**2
        energy, enstrophy = (shells / squared, shells) if self.is_vorticity else (shells, shells * squared)
        return {"energy": energy.tolist(), "enstrophy": enstrophy.tolist()}


def wave_spectrum(fields: Tensor, domain: Domain) -> Tensor:
    """1/2 mean |û|^2 by wavenumber 1, 2, ... in waves a side, of fields B x C x grid; the mean is left out.

    Waves run along the periodic axes, and are averaged over the others: on a sphere along the circles of latitude.
    Where no axis is periodic they run along all of them, under a Hann window, so that the jump between opposite sides
    is not taken for fine scales.
    """
    axes = [axis for axis, wraps in enumerate(domain.periodic, 2) if wraps]
    windowed = not axes
    axes = axes or list(range(2, fields.ndim))
    centred = fields.double() - fields.double().mean(dim=axes, keepdim=True)
    if windowed:
        for axis in axes:
            window = torch.hann_window(fields.shape[axis], periodic=False, dtype=torch.float64)
            centred = centred * window.reshape([-1 if i == axis else 1 for i in range(fields.ndim)])
    others = [axis for axis in range(1, fields.ndim) if axis not in axes]
    moved = centred.permute(0, *others, *axes).flatten(1, len(others))
    return Spectrum([1.0] * len(axes)).shells(moved).mean(dim=0) / moved.shape[1]
