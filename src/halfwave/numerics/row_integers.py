"""Matrices as integers of a few bits with a power of two for each row: w_ij ≈ q_ij 2^(e_i), |q_ij| < 2^(b_i - 1).

Each row has a width of its own. Scales are powers of two, so reading back multiplies exactly: the error is that of
rounding to a multiple of 2^e, and known number by number. 32 bits are the fp32 numbers themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halfwave.errors import InputError

WIDTHS = (4, 6, 8, 10, 12, 16, 32)
"""Bits of a number; those below 32 are signed integers."""
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class RowIntegers:
    """A packed matrix (R, n).

    Attributes:
        shape: of the tensor whose rows these are.
        widths: (R,) uint8, bits of each row.
        exponents: (R,) int8, e of each row.
        data: for each width the numbers of its rows in order: bytes, or fp32 for 32.
    """

    shape: tuple[int, ...]
    widths: Tensor
    exponents: Tensor
    data: Mapping[int, Tensor]

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in (self.widths, self.exponents, *self.data.values()))

    def unpack(self) -> Tensor:
        """The fp32 tensor that is stored."""
        rows = len(self.widths)
        matrix = torch.zeros(rows, math.prod(self.shape) // rows)
        for width, data in self.data.items():
            chosen = (self.widths == width).nonzero().flatten()
            shape = (len(chosen), matrix.shape[1])
            if width == 32:
                matrix[chosen] = data.reshape(shape)
            else:
                integers = torch.from_numpy(_unpack_bits(data.numpy(), width, shape[0] * shape[1])).reshape(shape)
                matrix[chosen] = torch.ldexp(integers.double(), self.exponents[chosen, None].double()).float()
        return matrix.reshape(self.shape)

    def tensors(self) -> dict[str, Tensor]:
        """To be kept in a file, by names without dots."""
        return {"widths": self.widths, "exponents": self.exponents, **{f"bits{w}": d for w, d in self.data.items()}}

    @classmethod
    def from_tensors(cls, shape: tuple[int, ...], tensors: Mapping[str, Tensor]) -> RowIntegers:
        """What `tensors` gave; InputError for what cannot be it."""
        data = {int(name.removeprefix("bits")): t for name, t in tensors.items() if name.startswith("bits")}
        try:
            widths, exponents = tensors["widths"], tensors["exponents"]
        except KeyError as error:
            raise InputError(f"packed weights without {error.args[0]!r}") from None
        columns = math.prod(shape) // max(1, len(widths))
        for width in set(widths.tolist()) | set(data):
            numbers = int((widths == width).sum()) * columns
            expected = numbers if width == 32 else -(-numbers * width // 8)
            if width not in WIDTHS or width not in data or data[width].numel() != expected:
                raise InputError(f"packed weights with {width} bits do not fit their shape {shape}")
        return cls(tuple(shape), widths, exponents, data)


def pack_rows(tensor: Tensor, widths: Tensor) -> RowIntegers:
    """An fp32 tensor whose first axes make len(widths) rows, each in its own width."""
    matrix = tensor.detach().reshape(len(widths), -1).cpu()
    exponents = torch.zeros(len(widths), dtype=torch.int8)
    data: dict[int, Tensor] = {}
    for width in sorted(set(widths.tolist())):
        chosen = (widths == width).nonzero().flatten()
        if width == 32:
            data[width] = matrix[chosen].float().flatten()
            continue
        integers, scales = quantize(matrix[chosen], width)
        exponents[chosen] = scales
        data[width] = torch.from_numpy(_pack_bits(integers.flatten().numpy(), width))
    return RowIntegers(tuple(tensor.shape), widths.to(torch.uint8).cpu(), exponents, data)


def quantize(matrix: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """(q, e) of a matrix (R, n): of the two smallest scales that lose no or few large numbers the one closer to it."""
    wide = matrix.double()
    top = 2 ** (width - 1) - 1
    mantissa, exponent = torch.frexp(wide.abs().amax(1) / top)
    # ceil(log2): exactly a power of two needs no larger scale.
    holds = (exponent - (mantissa == 0.5).int()).clamp(-126, 127)
    best, scale = _rounded(wide, holds, top), holds
    tighter = (holds - 1).clamp(min=-126)
    clipped = _rounded(wide, tighter, top)
    errors = [
        (torch.ldexp(q, e[:, None].double()) - wide).square().sum(1) for q, e in ((best, scale), (clipped, tighter))
    ]
    closer = errors[1] < errors[0]
    integers = torch.where(closer[:, None], clipped, best)
    return integers.to(torch.int32), torch.where(closer, tighter, scale).to(torch.int8)


def rounding_errors(tensor: Tensor, rows: int, width: int) -> Tensor:
    """What packing changes, number by number: (rows, n) in float64."""
    matrix = tensor.detach().reshape(rows, -1).double()
    if width == 32:
        return torch.zeros_like(matrix)
    integers, exponents = quantize(matrix, width)
    return torch.ldexp(integers.double(), exponents[:, None].double()) - matrix


def _rounded(wide: Tensor, exponents: Tensor, top: int) -> Tensor:
    return torch.ldexp(wide, -exponents[:, None].double()).round().clamp(-top, top)


def _pack_bits(integers: NDArray[np.int32], width: int) -> NDArray[np.uint8]:
    """Each number plus 2^(b-1) as b bits, highest first."""
    pieces = [np.packbits(_bits(part, width)) for part in _parts(integers)]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.uint8)


def _bits(integers: NDArray[np.int32], width: int) -> NDArray[np.uint8]:
    shifted = (integers + 2 ** (width - 1)).astype(np.uint32)
    places = np.arange(width - 1, -1, -1, dtype=np.uint32)
    return ((shifted[:, None] >> places) & 1).astype(np.uint8)


def _unpack_bits(data: NDArray[np.uint8], width: int, count: int) -> NDArray[np.int32]:
    found = np.empty(count, dtype=np.int32)
    weights = (1 << np.arange(width - 1, -1, -1)).astype(np.int32)
    for start in range(0, count, _AT_ONCE):
        end = min(start + _AT_ONCE, count)
        # Every part but the last begins and ends with a byte, as their length is a multiple of 8.
        bits = np.unpackbits(data[start * width // 8 : -(-end * width // 8)], count=(end - start) * width)
        found[start:end] = bits.reshape(-1, width).astype(np.int32) @ weights - 2 ** (width - 1)
    return found


def _parts(integers: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    for start in range(0, len(integers), _AT_ONCE):
        yield integers[start : start + _AT_ONCE]
