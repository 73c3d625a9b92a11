"""A constant added to one coefficient of each channel: value, gradients and memory."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from halfwave.spectral.bias import add_at


@pytest.mark.parametrize("where", [(0, 0), (2, 1, slice(3))])
@pytest.mark.parametrize("view", [False, True])
def test_value_and_gradients_are_those_of_an_addition(where, view):
    torch.manual_seed(0)
    x = torch.randn(4, 2, 5, 3, dtype=torch.float64, requires_grad=True)
    constant = torch.randn(3, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(4, 2, 5, 3, dtype=torch.float64)

    def run(add):
        y_hat = x * 2
        out = add((y_hat.flatten(0, 1).view_as(x) if view else y_hat), constant)
        return out, torch.autograd.grad((out * weights).sum(), (x, constant))

    def plainly(y_hat, c):
        placed = torch.zeros_like(y_hat)
        placed[where] = 1
        return y_hat + placed * c

    ours, gradients = run(lambda y_hat, c: add_at(y_hat, where, c))
    theirs, expected = run(plainly)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(gradients, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_neither_pass_copies_the_spectrum():
    x, constant = torch.randn(64, 2, 4, 8, requires_grad=True), torch.randn(8, requires_grad=True)
    y_hat = x * 2
    out = add_at(y_hat.view(8, 8, 2, 4, 8), (0, 0, 0), constant)
    assert out.data_ptr() == y_hat.data_ptr()
    loss = out.sum()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as record:
        loss.backward()
    copies = [event for event in record.events() if event.name in ("aten::copy_", "aten::clone")]
    assert not [
        event for event in copies if event.input_shapes and x.numel() == torch.Size(event.input_shapes[0]).numel()
    ]


def test_a_half_precision_spectrum_gives_the_constant_a_gradient_summed_in_its_own_dtype():
    x, constant = torch.ones(1, 2, 1000, 1, dtype=torch.bfloat16), torch.zeros(1, requires_grad=True)
    out = add_at(x.requires_grad_() * 1, (0, 0), constant)
    # 1000 ones: a running sum in bf16 stops at 256.
    assert torch.autograd.grad(out.float().sum(), constant)[0].item() == 1000
