"""Bytes that the allocator hands out in a step, against hand-counted cases and the counter at dispatch."""

import pytest
import torch
from torch import nn

from halfwave.measure import allocated_activations, measure
from halfwave.measure.allocated import largest_sum
from halfwave.models import FNO

FLOAT = 4


def test_an_address_serves_one_block_after_the_other():
    log = [(1, 100), (2, 50), (1, -100), (1, 30), (2, -50), (3, 40), (3, -40)]
    assert largest_sum(log, ()) == 150
    assert largest_sum(log, {1}) == 150, "the block that lay there first is none that lasts"
    assert largest_sum([(1, 10), (2, 100), (2, -100), (3, 7)], {1, 3}) == 100


def test_what_was_allocated_before_counts_nothing_when_it_goes():
    assert largest_sum([(9, -1000), (1, 10)], ()) == 10
    assert largest_sum([], ()) == 0


def trained(model, shape):
    """A step of a model, made once so that nothing but gradients is left over."""
    adamw = torch.optim.AdamW(model.parameters(), fused=True)
    x, y = torch.randn(shape), torch.randn(model(torch.zeros(shape)).shape)

    def step():
        adamw.zero_grad()
        (model(x) * y).sum().backward()
        adamw.step()

    step()
    return step, adamw, (x, y)


def test_a_linear_layer_by_hand():
    """p and p*y are 8x50 each; what the sum and its gradient add are scalars, in blocks of the allocator's own size."""
    model = nn.Linear(100, 50, bias=False)
    step, adamw, _ = trained(model, (8, 100))
    assert 2 * 400 * FLOAT <= allocated_activations(step, model, adamw) < 2 * 400 * FLOAT + 1000


def test_temporaries_of_the_optimizer_are_no_activations():
    model = nn.Linear(1000, 500, bias=False)
    x = torch.randn(2, 1000)
    slow = torch.optim.AdamW(model.parameters(), fused=False, foreach=False)

    def step():
        slow.zero_grad()
        model(x).sum().backward()
        slow.step()

    step()
    assert allocated_activations(step, model, slow) < 500_000 * FLOAT <= allocated_activations(step, model)


@pytest.mark.parametrize("precision", ["full", "mixed"])
def test_an_eager_step_has_what_is_counted_at_dispatch_and_a_little_scratch(precision):
    model = FNO((16, 16), 1, 1, 16, 2, precision=precision)
    step, adamw, batch = trained(model, (4, 1, 64, 64))
    counted = measure(step, model, adamw, batch).activation_bytes
    tables = 0.01 * counted  # transform matrices, which the counter meets and the allocator gave out before
    assert counted - tables <= allocated_activations(step, model, adamw) <= 1.15 * counted + 100_000


def test_a_step_that_fails_leaves_no_profiler_behind():
    model = nn.Linear(3, 3)

    def fail():
        raise RuntimeError("no step")

    with pytest.raises(RuntimeError, match="no step"):
        allocated_activations(fail, model)
    step, adamw, _ = trained(model, (2, 3))
    assert allocated_activations(step, model, adamw) > 0
