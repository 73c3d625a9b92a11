"""Errors of matrix products and of a spectral convolution by format, fp32 beside bf16 parts, against float64.

    python benchmarks/split_errors.py        # the table of docs/precision.md

Relative, in the Frobenius and the L2 norm. Times are left out: products by parts are meant for CPUs that multiply bf16
by tiles.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from halfwave import Policy, SpectralConv
from halfwave.numerics import arithmetic_of
from halfwave.theory import bound_precision

FORMATS = ("fp32", "bf16x3", "bf16x2", "tf32", "bf16")


def _relative(found: Tensor, exact: Tensor) -> float:
    return float((found.double() - exact).norm() / exact.norm())


def product_error(name: str, side: int = 512) -> float:
    """Of random matrices; the result is left in fp32 in every format."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(side, side, generator=generator) for _ in range(2))
    arith = arithmetic_of(name, "cpu")
    found = arith.multiply(torch.mm, arith.load(a).float(), arith.load(b).float())
    return _relative(found, a.double() @ b.double())


def convolution_error(name: str) -> float:
    """16 channels, 32x32 modes, 64x64 points, as matrix products."""
    torch.manual_seed(0)
    conv = SpectralConv(16, 16, (32, 32), backend="gemm", precision=Policy.uniform(name, "none"))
    exact = copy.deepcopy(conv).double()
    exact.set_precision(Policy.uniform("fp64", "none"))
    x = torch.randn(1, 16, 64, 64)
    with torch.no_grad():
        return _relative(conv(x), exact(x.double()))


def main() -> None:
    print(
        "| format | matrix product | spectral convolution | one coefficient at most, 64x64 |\n| --- | --- | --- | --- |"
    )
    for name in FORMATS:
        bound = float(bound_precision(name, (64, 64), sup=1.0, algorithm="gemm"))
        print(f"| {name} | {product_error(name):.1e} | {convolution_error(name):.1e} | {bound:.1e} |")


if __name__ == "__main__":
    main()
