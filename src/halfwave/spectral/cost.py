"""Which backend is cheaper for a transform: a cost model in seconds.

gemm: 2 x multiply-adds of its products over the rate of products in its arithmetic, plus a pass over the field.
fft: 2.5 N log2 N operations of a real FFT over the rate of the FFT, plus its passes over the whole spectrum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from halfwave.numerics import FORMATS, Arithmetic, Format, arithmetic_of, kind_of
from halfwave.spectral.modes import AxisModes


@dataclass(frozen=True)
class Rates:
    """Rates of a device: products per arithmetic kind (GFLOP/s), FFT (GFLOP/s), memory (GB/s)."""

    native: float
    wide: float
    fft: float
    memory: float


# Fitted on 2 cores: products of the shapes that transforms have, rfft2 and irfft2 of 64 fields of 128x128.
RATES = {
    "cpu": Rates(native=200.0, wide=100.0, fft=9.0, memory=15.0),
    "cuda": Rates(native=60_000.0, wide=15_000.0, fft=1_500.0, memory=800.0),
}


def gemm_flops(modes: tuple[AxisModes, ...]) -> float:
    """Operations of the matrix products for one field."""
    rows = math.prod(axis.size for axis in modes[:-1])
    flops = 2.0 * rows * modes[-1].size * 2 * modes[-1].count
    kept = modes[-1].count
    for axis in reversed(modes[:-1]):
        rows //= axis.size
        flops += 2.0 * rows * (2 * axis.count) * (2 * axis.size) * kept
        kept *= axis.count
    return flops


def fft_flops(modes: tuple[AxisModes, ...]) -> float:
    """Operations of a real FFT of one field."""
    n = math.prod(axis.size for axis in modes)
    return 2.5 * n * math.log2(max(2, n))


def seconds(modes: tuple[AxisModes, ...], arith: Arithmetic, device: torch.device) -> dict[str, float]:
    """Modelled seconds per field of each backend."""
    rates = RATES.get(kind_of(device), RATES["cuda"])
    n = math.prod(axis.size for axis in modes)
    width = arith.storage.itemsize
    product_rate = rates.native if arith.how == "native" and arith.format.half else rates.wide
    if arith.compute is torch.float64:
        product_rate /= 2
    return {
        "gemm": gemm_flops(modes) / (product_rate * 1e9) + n * width / (rates.memory * 1e9),
        "fft": fft_flops(modes) / (rates.fft * 1e9) + 4 * n * 4 / (rates.memory * 1e9),
    }


# Plain constants in and out: a decision that torch.compile takes as given.
@torch.compiler.assume_constant_result
def cheaper_backend(grid: tuple[int, ...], counts: tuple[int, ...], format: str, device: str) -> str:
    """The backend with the lower modelled time, among those that cannot overflow.

    A format of narrow range (fp16, fp8) always takes gemm: its unnormalised FFT would need a stabilizer, and a model
    must not change its function because another grid made another backend cheaper.
    """
    place = torch.device(device)
    arith = arithmetic_of(format, place.type)
    if narrow_range(arith.format):
        return "gemm"
    modes = tuple(AxisModes(size, 0, count, 0) for size, count in zip(grid, counts, strict=True))
    cost = seconds(modes, arith, place)
    return "gemm" if cost["gemm"] <= cost["fft"] else "fft"


def narrow_range(format: Format) -> bool:
    """True for formats in which the sum of a large field can overflow."""
    return format.largest < FORMATS["bf16"].largest / 2
