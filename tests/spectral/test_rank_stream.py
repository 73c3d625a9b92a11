"""Sums over ranks in tiles: values and derivatives of complex einsum, formats, what is kept, when dense weights pay."""

import pytest
import torch

from halfwave.measure.step import LiveBytes
from halfwave.numerics import FORMATS, Arithmetic, arithmetic
from halfwave.spectral.execution import execute
from halfwave.spectral.plan import plan_contraction

# One, two and three axes of modes; a batch that is cut; weights of the ranks that the data meet first.
CASES = {
    "1d": ("kbc,r,cr,or,kr->kbo", [(5, 2, 6), (9,), (6, 9), (5, 9), (5, 9)], 1200),
    "2d": ("klbc,cr,or,kr,lr->klbo", [(4, 3, 2, 5), (5, 7), (6, 7), (4, 7), (3, 7)], 1200),
    "3d": ("klmbc,r,cr,or,kr,lr,mr->klmbo", [(3, 2, 2, 2, 4), (8,), (4, 8), (3, 8), (3, 8), (2, 8), (2, 8)], 1200),
    "batch": ("kbc,cr,or,kr->kbo", [(2, 3, 8), (8, 9), (7, 9), (2, 9)], 600),
    "whole": ("klbc,r,cr,or,kr,lr->klbo", [(4, 3, 2, 5), (7,), (5, 7), (6, 7), (4, 7), (3, 7)], 1 << 20),
}


def _plan(case, format="fp64"):
    equation, shapes, slice_bytes = CASES[case]
    return plan_contraction(equation, shapes, "flops", format=format, slice_bytes=slice_bytes)


def _complex(case, dtype=torch.complex128):
    torch.manual_seed(0)
    return [torch.randn(*shape, dtype=dtype) for shape in CASES[case][1]]


def _pairs(tensor):
    return torch.view_as_real(tensor).movedim(-1, -2)


def _relative(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def _both(case, arith, wanted, dtype=torch.complex128):
    """(result, gradients of the wanted operands) of the tiles, and of complex einsum."""
    equation, tensors, plan = CASES[case][0], _complex(case, dtype), _plan(case, arith.format.name)
    assert plan.rank_sum is not None
    ours = [_pairs(t).clone().requires_grad_(n in wanted) for n, t in enumerate(tensors)]
    theirs = [t.clone().requires_grad_(n in wanted) for n, t in enumerate(tensors)]
    y, reference = execute(plan, ours, arith), _pairs(torch.einsum(equation, *theirs))
    weight = torch.randn(reference.shape, dtype=reference.dtype)
    found = torch.autograd.grad((y * weight).sum(), [ours[n] for n in wanted])
    expected = torch.autograd.grad((reference * weight).sum(), [theirs[n] for n in wanted])
    return (y, *found), (reference, *map(_pairs, expected))


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_those_of_complex_einsum(case):
    everything = list(range(len(CASES[case][1])))
    for wanted in (everything, [0], everything[1:], everything[-1:]):
        found, expected = _both(case, arithmetic(FORMATS["fp64"], "cpu"), wanted)
        assert max(map(_relative, found, expected)) < 1e-12


def test_tiles_cut_modes_ranks_and_batch():
    assert _plan("2d").slices == (("k", 1), ("l", 1), ("r", 7))
    assert _plan("batch").slices == (("k", 1), ("b", 1), ("r", 9))
    assert _plan("whole").slices == (("r", 7),)


@pytest.mark.parametrize("case", ["1d", "2d"])
def test_first_and_second_derivatives_by_differences(case):
    tensors = [_pairs(t).clone().requires_grad_() for t in _complex(case)]
    arith = arithmetic(FORMATS["fp64"], "cpu")
    assert torch.autograd.gradcheck(lambda *t: execute(_plan(case), t, arith), tensors, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda *t: execute(_plan(case), t, arith), tensors, fast_mode=True)


@pytest.mark.parametrize(
    "arith",
    [
        Arithmetic(FORMATS["bf16"], torch.bfloat16),
        Arithmetic(FORMATS["bf16"], torch.float32),
        Arithmetic(FORMATS["fp16"], torch.float32),
        Arithmetic(FORMATS["tf32"], torch.float32),
    ],
    ids=str,
)
def test_native_wide_and_emulated_formats(arith):
    """A few roundings of the format in the result, in its storage, and in every gradient."""
    found, expected = _both("2d", arith, list(range(5)), torch.complex64)
    assert found[0].dtype is arith.storage
    errors = list(map(_relative, found, expected))
    assert 0.1 * arith.format.unit_roundoff < errors[0]
    assert max(errors) < 8 * arith.format.unit_roundoff


def test_the_largest_intermediate_never_exists():
    equation = "klbc,r,cr,or,kr,lr->klbo"
    shapes = [(32, 17, 8, 24), (512,), (24, 512), (24, 512), (32, 512), (17, 512)]
    plan = plan_contraction(equation, shapes, "flops", slice_bytes=4 << 20)
    assert plan.rank_sum is not None
    tensors = [torch.randn(*s[:-1], 2, s[-1]).requires_grad_() for s in shapes]
    with LiveBytes() as live:
        held = live.hold(tensors)
        execute(plan, tensors, arithmetic(FORMATS["fp32"], "cpu")).sum().backward()
    assert live.peak(without=held) < plan.largest_bytes / 3


@pytest.mark.parametrize("batch", [2, 8, 20, 40])
def test_dense_weights_are_made_where_they_take_fewer_operations(batch):
    """C O multiply-adds for every mode and rank, or C + O for each sample: as many at a batch of C/2 where C = O."""
    channels, ranks, modes = 24, 300, (16, 9)
    shapes = [(*modes, batch, channels), (channels, ranks), (channels, ranks), *((n, ranks) for n in modes)]
    plan = plan_contraction("klbc,cr,or,kr,lr->klbo", shapes, "flops", slice_bytes=16 << 20)
    assert (plan.rank_sum is not None) == (batch < channels / 2)
    least = 8 * 16 * 9 * ranks * channels * min(channels, 2 * batch)
    assert least < plan.flops < 1.2 * least
