"""Integers of a few bits with a power of two for each row: exact to read back, as close as the bits allow."""

import numpy as np
import pytest
import torch

from halfwave.errors import InputError
from halfwave.numerics import WIDTHS, RowIntegers, pack_rows, rounding_errors


def _matrix(seed=0, rows=7, columns=33):
    generator = torch.Generator().manual_seed(seed)
    scales = 10.0 ** torch.linspace(-6, 6, rows)
    return torch.randn(rows, columns, generator=generator) * scales[:, None]


@pytest.mark.parametrize("width", WIDTHS)
def test_reads_back_what_rounding_by_hand_gives(width):
    matrix = _matrix()
    packed = pack_rows(matrix, torch.full((7,), width))
    found = packed.unpack()
    assert found.dtype is torch.float32
    assert torch.equal(found.double(), matrix.double() + rounding_errors(matrix, 7, width))
    if width == 32:
        assert torch.equal(found, matrix)
        return
    top = 2 ** (width - 1) - 1
    for row, values, exponent in zip(found.numpy(), matrix.numpy(), packed.exponents.tolist(), strict=True):
        # Multiples of a power of two, at most 2^(b-1) - 1 times it, and the nearest of them.
        multiples = row / 2.0**exponent
        assert np.array_equal(multiples, multiples.round())
        assert abs(multiples).max() <= top
        nearest = np.clip((values / 2.0**exponent).round(), -top, top)
        assert np.array_equal(multiples, nearest)
        spacing = abs(values).max() / top
        assert 0.49 * spacing <= 2.0**exponent < 2 * spacing


def test_errors_fall_by_the_bits():
    matrix = _matrix(columns=4000)
    errors = [float((rounding_errors(matrix, 7, w).norm(dim=1) / matrix.double().norm(dim=1)).max()) for w in WIDTHS]
    assert errors[0] < 0.25
    for wide, narrow, bits in zip(errors[1:-1], errors[:-2], np.diff(WIDTHS[:-1]), strict=True):
        assert wide < 1.5 * narrow / 2**bits
    assert errors[-1] == 0


def test_bytes_are_those_of_the_bits():
    matrix = _matrix(rows=8, columns=1001)
    widths = torch.tensor([4, 6, 8, 10, 12, 16, 32, 4])
    packed = pack_rows(matrix.reshape(2, 4, 7, 143), widths)
    numbers = sum(-(-1001 * int((widths == w).sum()) * w // 8) for w in WIDTHS)
    assert packed.nbytes == numbers + 8 + 8
    again = RowIntegers.from_tensors(packed.shape, packed.tensors())
    assert torch.equal(again.unpack(), packed.unpack())
    assert again.unpack().shape == (2, 4, 7, 143)


def test_parts_of_a_long_row_meet():
    """Longer than what is packed at once, with bits that end inside a byte."""
    matrix = _matrix(rows=1, columns=(1 << 20) + 13)
    for width in (6, 10):
        assert torch.equal(
            pack_rows(matrix, torch.tensor([width])).unpack().double(),
            matrix.double() + rounding_errors(matrix, 1, width),
        )


def test_zeros_powers_of_two_and_the_ends_of_fp32():
    matrix = torch.tensor([[0.0, 0.0], [7.0, -7.0], [3e38, -1e38], [1e-38, -1e-39], [1e-44, 0.0]])
    found = pack_rows(matrix, torch.full((5,), 4)).unpack()
    assert torch.equal(found[:2], matrix[:2])
    assert bool(found.isfinite().all())
    assert float((found[2] - matrix[2]).abs().max()) < 0.1 * 3e38
    assert float((found[3] - matrix[3]).abs().max()) < 2e-39


@pytest.mark.parametrize("change", ["no widths", "other width", "short"])
def test_what_is_not_packed_is_refused(change):
    tensors = pack_rows(_matrix(), torch.full((7,), 6)).tensors()
    if change == "no widths":
        tensors.pop("widths")
    elif change == "other width":
        tensors["widths"] = torch.full((7,), 5, dtype=torch.uint8)
    else:
        tensors["bits6"] = tensors["bits6"][:-1]
    with pytest.raises(InputError, match="packed weights"):
        RowIntegers.from_tensors((7, 33), tensors)
