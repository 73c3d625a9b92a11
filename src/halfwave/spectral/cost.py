"""Which backend is cheaper for a transform: a cost model, fitted to measurements, that can be printed.

Milliseconds of one transform of one field, linear in what the backend does:
    gemm: a operations along the last axis + b operations along the others + c points of the grid + d kept modes
    fft:  a N log2 N + b N (log2 N again where an axis has a prime factor above 13: those take a detour) + c kept modes
`benchmarks/transform_cost.py` measures the backends, fits the coefficients and says how often the model is right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from halfwave.numerics import FORMATS, Arithmetic, Format, arithmetic_of, get_format, kind_of
from halfwave.spectral.modes import AxisModes, check_modes, kept_modes

# Features of either backend, in this order.
Work = tuple[float, ...]
# The fft must be modelled this much cheaper. The model errs by some 20%, and near a tie gemm is the better guest: its
# spectra stay in range, and it compiles.
MARGIN = 1.5
# Largest prime that FFT libraries have a kernel of their own for.
_SMOOTH = 13


@dataclass(frozen=True)
class Rates:
    """Coefficients of the model for one device and one kind of arithmetic: nanoseconds per unit of work."""

    gemm: Work
    fft: Work

    def nanoseconds(self, backend: str, modes: tuple[AxisModes, ...]) -> float:
        """Modelled time of one field's transform."""
        rates, work = (self.gemm, gemm_work(modes)) if backend == "gemm" else (self.fft, fft_work(modes))
        return sum(rate * amount for rate, amount in zip(rates, work, strict=True))


# CPU full and wide: one thread of a loaded AVX2 machine, by benchmarks/transform_cost.py; emulated from an earlier,
# smaller run of it. Not fitted: native (bf16 product rate of an AVX512-BF16 machine, else as wide), CUDA (assumed).
RATES: dict[str, dict[str, Rates]] = {
    "cpu": {
        "full": Rates(gemm=(0.0108, 0.0238, 2.22, 6.7), fft=(0.265, 0.947, 6.34)),
        "wide": Rates(gemm=(0.0129, 0.0267, 2.2, 3.54), fft=(0.251, 1.12, 11.0)),
        "native": Rates(gemm=(0.0098, 0.0098, 2.2, 3.54), fft=(0.251, 1.12, 11.0)),
        "emulated": Rates(gemm=(0.0434, 0.0434, 47.4, 65.9), fft=(3.16, 1.35, 217.0)),
    },
    "cuda": {
        "full": Rates(gemm=(6.7e-5, 6.7e-5, 0.01, 0.02), fft=(1.7e-3, 0.02, 0.02)),
        "wide": Rates(gemm=(6.7e-5, 6.7e-5, 0.01, 0.02), fft=(1.7e-3, 0.02, 0.02)),
        "native": Rates(gemm=(1.7e-5, 1.7e-5, 0.005, 0.01), fft=(1.7e-3, 0.02, 0.02)),
        "emulated": Rates(gemm=(6.7e-5, 6.7e-5, 0.05, 0.1), fft=(1.7e-3, 0.06, 0.1)),
    },
}


@dataclass(frozen=True)
class TransformCost:
    """Modelled milliseconds of both backends for `fields` transforms (batch times channels); print it to see."""

    grid: tuple[int, ...]
    counts: tuple[int, ...]
    fields: int
    arith: Arithmetic
    device: str
    gemm: float
    fft: float

    @property
    def cheaper(self) -> str:
        """What ``backend="auto"`` takes."""
        if narrow_range(self.arith.format):
            return "gemm"
        return choose(self.gemm, self.fft)

    def __str__(self) -> str:
        grid, kept = ("x".join(map(str, shape)) for shape in (self.grid, self.counts))
        reason = ", the only one that cannot overflow" if narrow_range(self.arith.format) else ""
        return (
            f"{self.fields} fields of {grid} points, {kept} modes, {self.arith} on {self.device}: "
            f"gemm {self.gemm:.3g} ms, fft {self.fft:.3g} ms; auto takes {self.cheaper}{reason}"
        )


def estimate_transform(
    grid: tuple[int, ...],
    n_modes: int | tuple[int, ...],
    *,
    fields: int = 1,
    format: str = "fp32",
    device: str = "cpu",
) -> TransformCost:
    """What a forward or inverse transform between this grid and these modes should take in each backend."""
    modes = kept_modes(tuple(grid), check_modes(n_modes))
    return _estimate(modes, fields, arithmetic_of(get_format(format).name, torch.device(device).type), device)


def _estimate(modes: tuple[AxisModes, ...], fields: int, arith: Arithmetic, device: str) -> TransformCost:
    rates = RATES.get(kind_of(torch.device(device)), RATES["cuda"])[arithmetic_kind(arith)]
    # Double precision halves the rate of products and doubles every byte.
    scale = fields * 1e-6 * (2 if arith.compute is torch.float64 else 1)
    return TransformCost(
        grid=tuple(axis.size for axis in modes),
        counts=tuple(axis.count for axis in modes),
        fields=fields,
        arith=arith,
        device=device,
        gemm=scale * rates.nanoseconds("gemm", modes),
        fft=scale * rates.nanoseconds("fft", modes),
    )


def choose(gemm: float, fft: float) -> str:
    """The backend to take, from the modelled times."""
    return "fft" if MARGIN * fft < gemm else "gemm"


def arithmetic_kind(arith: Arithmetic) -> str:
    """full (fp32, fp64), wide, native or emulated: what the rates depend on."""
    if arith.how == "split":  # three to six products, where the emulated rates have one at four times the time
        return "emulated"
    return arith.how if arith.format.half or arith.format.emulated else "full"


def gemm_work(modes: tuple[AxisModes, ...]) -> Work:
    """Operations of the tall product along the last axis and of the batched ones, points, kept modes of one field."""
    points = math.prod(axis.size for axis in modes)
    rows, kept, inner = points // modes[-1].size, modes[-1].count, 0.0
    for axis in reversed(modes[:-1]):
        rows //= axis.size
        inner += 2.0 * rows * (2 * axis.count) * (2 * axis.size) * kept
        kept *= axis.count
    return 2.0 * points * 2 * modes[-1].count, inner, float(points), float(kept)


def fft_work(modes: tuple[AxisModes, ...]) -> Work:
    """N log2 N, N (times log2 N for sizes that no kernel fits), and kept modes of one field."""
    points = math.prod(axis.size for axis in modes)
    log = math.log2(max(2, points))
    rough = any(_largest_prime(axis.size) > _SMOOTH for axis in modes)
    return points * log, points * (log if rough else 1.0), float(math.prod(axis.count for axis in modes))


def _largest_prime(n: int) -> int:
    largest, factor = 1, 2
    while factor * factor <= n:
        while n % factor == 0:
            largest, n = factor, n // factor
        factor += 1
    return max(largest, n)


def cheaper_backend(modes: tuple[AxisModes, ...], arith: Arithmetic, device: torch.device) -> str:
    """The backend with the lower modelled time (by `MARGIN`), among those that cannot overflow.

    A format of narrow range (fp16, fp8) always takes gemm: its unnormalised FFT would need a stabilizer, and a model
    must not change its function because another grid made another backend cheaper.
    """
    return _estimate(modes, 1, arith, str(device)).cheaper


def narrow_range(format: Format) -> bool:
    """True for formats in which the sum of a large field can overflow."""
    return format.largest < FORMATS["bf16"].largest / 2
