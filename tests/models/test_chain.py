"""The derivatives of a chain's steps, against autograd's of the same chain run in one piece."""

from itertools import product

import pytest
import torch

from halfwave.models import pointwise
from halfwave.models.block import SKIPS, block_network
from halfwave.models.chain import Activate, Mix, Run, Workspace, recomputed
from halfwave.models.pointwise import apply_pointwise, apply_whole
from halfwave.numerics import Arithmetic, arithmetic_of, get_format

CHANNELS, HIDDEN = 6, 5
BLOCKS = [
    (skips, mlp, activate)
    for skips, mlp, activate in product(product(SKIPS, SKIPS), (True, False), (True, False))
    if block_network(skips, mlp, activate).steps
]


def parameters_of(skips, mlp, dtype=torch.float64):
    shapes = {"linear": [(CHANNELS, CHANNELS)], "soft-gating": [(CHANNELS,)]}
    first, second = (shapes.get(skip, []) for skip in skips)
    hidden = [(HIDDEN, CHANNELS), (HIDDEN,), (CHANNELS, HIDDEN), (CHANNELS,), *second] if mlp else []
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in (*first, *hidden)]


def fields_of(network, shape=(3, CHANNELS, 50), dtype=torch.float64):
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for _ in network.fields]


def gradients(out, tensors):
    wanted = [t for t in tensors if t.requires_grad]
    torch.manual_seed(1)
    # Numbers of every format: a gradient comes rounded.
    return torch.autograd.grad(out, wanted, torch.randint(-2, 3, out.shape).to(out.dtype))


def close(ours, theirs, tolerance=1e-12):
    return all(
        (a.double() - b.double()).norm() <= tolerance * b.double().norm() for a, b in zip(ours, theirs, strict=True)
    )


@pytest.mark.parametrize(("skips", "mlp", "activate"), BLOCKS)
def test_every_block_has_autograd_s_value_and_gradients(skips, mlp, activate, monkeypatch):
    # 50 points in slices of 16 (and 2 left over): the workspace changes its shape on the way.
    monkeypatch.setattr(pointwise, "SLICE_ELEMENTS", 16 * 16)
    torch.manual_seed(0)
    network, arith = block_network(skips, mlp, activate), arithmetic_of("fp64", "cpu")
    fields, parameters = fields_of(network), parameters_of(skips, mlp)
    ours = apply_pointwise(network, fields, parameters, arith)
    whole = apply_whole(network, arith, *fields, *parameters)
    assert close([ours], [whole])
    assert close(gradients(ours, [*fields, *parameters]), gradients(whole, [*fields, *parameters]))


def test_a_block_s_gradients_are_the_numerical_ones():
    torch.manual_seed(0)
    network, arith = block_network(("linear", "soft-gating"), True, True), arithmetic_of("fp64", "cpu")
    inputs = [*fields_of(network, (2, CHANNELS, 3)), *parameters_of(("linear", "soft-gating"), True)]
    assert torch.autograd.gradcheck(lambda x, y, *p: apply_pointwise(network, [x, y], list(p), arith), inputs)


@pytest.mark.parametrize("frozen", [[0], [1], [2, 4], [0, 1], [3, 5]])
@pytest.mark.parametrize("skips", [("soft-gating", "linear"), ("identity", "identity")])
def test_what_asks_for_no_gradient_gets_none_and_changes_no_other(skips, frozen):
    torch.manual_seed(0)
    network, arith = block_network(skips, True, True), arithmetic_of("fp64", "cpu")
    tensors = [*fields_of(network), *parameters_of(skips, True)]
    for i in frozen:
        tensors[i].requires_grad_(False)
    ours = apply_pointwise(network, tensors[:2], tensors[2:], arith)
    assert close(gradients(ours, tensors), gradients(apply_whole(network, arith, *tensors), tensors))


@pytest.mark.parametrize(
    "arith",
    [Arithmetic(get_format("bf16"), torch.bfloat16), arithmetic_of("bf16", "meta"), arithmetic_of("fp8_e5m2", "cpu")],
)
def test_native_and_emulated_arithmetic_agree_with_autograd_to_their_rounding(arith):
    torch.manual_seed(0)
    skips = ("linear", "soft-gating")
    network = block_network(skips, True, True)
    # Fields come in the format's dtype, weights in fp32, as in training.
    fields = [torch.randn(3, CHANNELS, 50).to(arith.storage).requires_grad_() for _ in network.fields]
    tensors = [*fields, *parameters_of(skips, True, torch.float32)]
    ours = apply_pointwise(network, fields, tensors[2:], arith)
    assert ours.dtype is arith.storage
    whole = apply_whole(network, arith, *tensors)
    assert close([ours], [whole], 1e-2)
    assert close(gradients(ours, tensors), gradients(whole, tensors), 2e-2)


def test_saved_fields_and_the_incoming_gradient_are_left_alone():
    torch.manual_seed(0)
    skips = ("identity", "identity")
    network, arith = block_network(skips, True, True), arithmetic_of("fp32", "cpu")
    fields, parameters = fields_of(network, dtype=torch.float32), parameters_of(skips, True, torch.float32)
    grad = torch.randn(fields[0].shape)
    before = [t.detach().clone() for t in (*fields, grad)]
    torch.autograd.grad(apply_pointwise(network, fields, parameters, arith), fields, grad)
    assert all(torch.equal(a, b) for a, b in zip(before, (*fields, grad), strict=True))


def test_a_workspace_makes_a_tensor_once_for_each_shape():
    space = Workspace(torch.float32, torch.device("cpu"))
    first = space.tensor("v", (2, 3))
    assert space.tensor("v", (2, 3)) is first
    assert space.tensor("w", (2, 3)) is not first
    assert space.tensor("v", (1, 3)).shape == (1, 3)


def test_slices_of_one_shape_take_no_new_memory():
    run = Run(
        (Mix("h", "x", 0), Activate("y", "h")),
        arithmetic_of("fp32", "cpu"),
        [torch.randn(4, 4)],
        Workspace(torch.float32, torch.device("cpu")),
    )
    first = run.forward({"x": torch.randn(2, 4, 8)}).data_ptr()
    assert run.forward({"x": torch.randn(2, 4, 8)}).data_ptr() == first


def test_a_block_without_skips_does_not_ask_for_its_input():
    assert block_network((None, None), True, True).fields == ("y",)


@pytest.mark.parametrize(
    ("activate", "left_out"),
    # Nobody's derivative needs the result; without the last GELU nor does any need the sum and product before it.
    [(True, ["out"]), (False, ["mlp", "skipped"])],
)
def test_the_backward_pass_makes_no_value_again_that_it_does_not_need(activate, left_out):
    steps = block_network(("linear", "soft-gating"), True, activate).steps
    again = recomputed(steps)
    assert [step.into for step in steps if step not in again] == left_out
