"""The byte counter against hand-counted cases, exactly."""

import neuralop.models
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from halfwave.measure import LiveBytes, measure_step, samples_per_second, training_step
from halfwave.models import FNO

FLOAT = 4


def dot(prediction, target):
    return (prediction * target).sum()


def peak_of(function, *held):
    with LiveBytes() as live:
        live.hold(held)
        result = function()
    del result
    return live.peak()


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_linear_layer_by_hand(device):
    """W is 50x100, x 8x100, y 8x50. While the product p*y is taken, forward holds W, x, y, p, p*y; while the gradient
    of W is made, backward holds W, x, y, the loss and its gradient, the gradient of p, the gradient of W."""
    model = nn.Linear(100, 50, bias=False, device=device)
    batch = (torch.empty(8, 100, device=device), torch.empty(8, 50, device=device))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    w, x, y = 5000 * FLOAT, 800 * FLOAT, 400 * FLOAT
    for _ in range(2):  # also when a gradient of the step before is there to be freed
        measured = measure_step(model, dot, sgd, batch)
        assert measured.peak_memory_bytes == w + x + y + FLOAT + FLOAT + y + w
        assert measured.activation_bytes == y + y + FLOAT
        assert measured.parameter_bytes == measured.gradient_bytes == w
        assert measured.optimizer_bytes == 0
        assert measured.batch_bytes == x + y


def test_adamw_state_is_counted_and_left_out_of_activations():
    model = nn.Linear(100, 50, bias=False)
    batch = (torch.randn(8, 100), torch.randn(8, 50))
    adamw = torch.optim.AdamW(model.parameters(), fused=True)
    training_step(model, dot, adamw, batch)
    measured = measure_step(model, dot, adamw, batch)
    assert measured.optimizer_bytes == 2 * 5000 * FLOAT + FLOAT  # two moments and the step counter
    assert measured.activation_bytes == 2 * 400 * FLOAT + FLOAT
    held = measured.parameter_bytes + measured.gradient_bytes + measured.optimizer_bytes + measured.batch_bytes
    # At the peak the gradient of W has just been made: beside what is held, the loss, its gradient, the gradient of p.
    assert measured.peak_memory_bytes == held + 2 * FLOAT + 400 * FLOAT


def test_temporaries_of_the_optimizer_are_memory_but_no_activations():
    model = nn.Linear(100, 50, bias=False)
    batch = (torch.randn(8, 100), torch.randn(8, 50))
    adamw = torch.optim.AdamW(model.parameters(), fused=False, foreach=False)
    training_step(model, dot, adamw, batch)
    measured = measure_step(model, dot, adamw, batch)
    assert measured.activation_bytes == 2 * 400 * FLOAT + FLOAT
    held = measured.parameter_bytes + measured.gradient_bytes + measured.optimizer_bytes + measured.batch_bytes
    assert measured.peak_memory_bytes >= held + 5000 * FLOAT


def test_a_view_and_an_in_place_result_cost_nothing():
    x = torch.randn(1000)
    assert peak_of(lambda: x.view(10, 100).t()[2:].add_(1), x) == 1000 * FLOAT


def test_a_copy_costs_its_size_and_a_freed_one_is_taken_off_at_once():
    x = torch.randn(1000)

    def chain():
        y = x + 1
        for _ in range(5):
            y = y + 1
        return y

    assert peak_of(chain, x) == 3 * 1000 * FLOAT


def test_a_tensor_saved_by_a_c_plus_plus_node_alone_is_live():
    x = torch.randn(1000, requires_grad=True)

    def forward():
        y = x
        for _ in range(4):
            y = y.exp()  # saves its result; Python forgets it
        return y.sum()

    assert peak_of(forward, x) == (1 + 4) * 1000 * FLOAT + FLOAT


def test_a_tensor_saved_by_an_autograd_function_is_live_until_backward():
    class Exponential(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a.exp())
            return a.sum()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0]

    x = torch.randn(1000, requires_grad=True)
    # x, exp(x), the sum, the gradient 1, and last the gradient of x
    assert peak_of(lambda: Exponential.apply(x).backward(), x) == 3 * 1000 * FLOAT + 2 * FLOAT


def test_checkpointing_holds_one_segment():
    """Four segments of four exponentials, each saving its result; both also hold x, the loss and its gradient.

    Plain: all 16 results, and while the second gradient is made from the first, both. Recomputed: the 4 results between
    segments, the 4 of the segment at hand, and a gradient.
    """

    def segment(u):
        for _ in range(4):
            u = u.exp()
        return u

    def run(x, recompute):
        y = x
        for _ in range(4):
            y = checkpoint(segment, y, use_reentrant=False) if recompute else segment(y)
        y.sum().backward()

    for recompute, tensors in ((False, 1 + 16 + 2), (True, 1 + 4 + 4 + 1)):
        x = torch.randn(1000, requires_grad=True)
        assert peak_of(lambda x=x, recompute=recompute: run(x, recompute), x) == tensors * 1000 * FLOAT + 2 * FLOAT


def test_what_an_operator_reads_later_was_there_all_along():
    x, late = torch.randn(1000), torch.randn(500)

    def run():
        (x + 1).sum()  # 2000 floats here, and `late` exists beside them
        return late.sum()

    assert peak_of(run, x) == 2500 * FLOAT + FLOAT


def test_resizing_a_storage_is_seen():
    x = torch.randn(10)

    def run():
        y = x + 1
        y.resize_(1000)
        return y

    assert peak_of(run, x) == 1010 * FLOAT


def test_half_precision_activations_are_half():
    x = torch.randn(1000)
    assert peak_of(lambda: x.bfloat16(), x) == 1000 * (FLOAT + 2)


def test_the_curve_and_the_marks_on_it():
    x = torch.randn(100)
    with LiveBytes() as live:
        live.hold([x])
        live.mark("one")
        y = x + 1
        live.mark("two")
        z = y * 2
        del y
    assert live.curve() == [100 * FLOAT, 200 * FLOAT, 300 * FLOAT, 200 * FLOAT]
    assert live.marks == [("one", 0), ("two", 1)]
    assert max(live.curve()) == live.peak()
    del z


def test_throughput_counts_steps_after_warm_up():
    calls = []
    rate = samples_per_second(lambda: calls.append(1), samples=8, steps=5, warm_up=3)
    assert len(calls) == 8
    assert rate > 0


@pytest.mark.parametrize("build", [neuralop.models.FNO, FNO])
def test_an_operators_activations_cover_what_autograd_saves(build):
    """An independent count, of a peer's model and of ours: the storages that autograd saves in the forward pass."""
    model = build(n_modes=(8, 8), in_channels=1, out_channels=1, hidden_channels=8, n_layers=2)
    optimizer = torch.optim.AdamW(model.parameters())
    batch = (torch.randn(2, 1, 32, 32), torch.randn(2, 1, 32, 32))
    training_step(model, dot, optimizer, batch)
    held = {t.untyped_storage()._cdata for t in (*model.parameters(), *batch)}
    saved = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        saved[storage._cdata] = storage  # holding it keeps its address its own
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = dot(model(batch[0]), batch[1])
    expected = sum(storage.nbytes() for address, storage in saved.items() if address not in held)
    del loss
    saved.clear()
    measured = measure_step(model, dot, optimizer, batch)
    assert expected > 0
    assert expected <= measured.activation_bytes <= 3 * expected
    largest = sum((measured.parameter_bytes, measured.gradient_bytes, measured.optimizer_bytes, measured.batch_bytes))
    assert measured.peak_memory_bytes <= largest + measured.activation_bytes
