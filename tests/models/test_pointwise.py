"""Pointwise layers in slices: the same on any number of threads, and gradients that autograd may add into."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

import halfwave as hw
from halfwave.models import pointwise
from halfwave.numerics import cpu_multiplies, default_half, get_format, multiplies_natively, on_threads

pytestmark = pytest.mark.hardware


def model_and_field(precision, grid=(64, 64), batch=2):
    torch.manual_seed(0)
    model = hw.FNO(n_modes=(8, 8), in_channels=1, out_channels=1, hidden_channels=16, n_layers=2, precision=precision)
    return model, torch.randn(batch, 1, *grid)


def native_half():
    """Whether this CPU (or the one it stands for) multiplies what half means here by default."""
    return multiplies_natively(get_format(default_half("cpu")), "cpu")


def outputs(model, x):
    model.zero_grad()
    y = model(x)
    y.float().square().mean().backward()
    return [y.detach().float(), *(p.grad.float() for p in model.parameters())]


@pytest.mark.parametrize("precision", ["full", "mixed"])
# A slice is one sample on the first grid and several on the second, where it is a batch of products already.
@pytest.mark.parametrize("grid", [(64, 64), (25, 37)])
def test_pieces_for_several_threads_change_nothing_but_the_last_bits(precision, grid, monkeypatch):
    monkeypatch.setattr(pointwise, "SLICE_ELEMENTS", 16 * 4096)
    monkeypatch.setattr(pointwise, "SMALL_SLICE_ELEMENTS", 16 * 4096)
    model, x = model_and_field(precision, grid)
    with on_threads(1):
        whole = outputs(model, x)
    widths = set()
    product = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda a, b, **options: widths.add(b.shape[2]) or product(a, b, **options))
    with on_threads(2):
        pieces = outputs(model, x)
    natively = precision == "mixed" and native_half()  # one wide product is divided well among threads there
    assert (pointwise.PIECE_POINTS in widths) == (grid == (64, 64) and not natively)
    tolerance = 1e-5 if precision == "full" else 2e-2
    for a, b in zip(whole, pieces, strict=True):
        assert (a - b).norm() <= tolerance * a.norm()


def test_native_half_puts_a_slice_together_once(monkeypatch):
    """oneDNN copies every operand that is neither contiguous nor a whole transpose, in each product anew."""
    monkeypatch.setattr(pointwise, "NATIVE_SLICE_ELEMENTS", 16 * 1024)
    monkeypatch.setattr(pointwise, "SMALL_SLICE_ELEMENTS", 16 * 1024)
    operands = []

    def watched(product):
        def watch(*tensors, **options):
            operands.extend(t for t in tensors if t.ndim == 3 and t.shape[-1] >= 1024)
            return product(*tensors, **options)

        return watch

    for name in ("bmm", "baddbmm"):
        monkeypatch.setattr(torch, name, watched(getattr(torch, name)))
    with cpu_multiplies("bf16"):
        model, x = model_and_field(hw.Policy.named("amp", dtype="bf16"), batch=8)
        outputs(model, x)
    assert operands
    assert all(t.is_contiguous() or t.transpose(1, 2).is_contiguous() for t in operands)


def test_the_two_gradients_of_a_block_s_input_are_added_in_place():
    model, x = model_and_field("full")
    loss = model(x).square().mean()
    # The profiler, not a dispatch mode: that would hold references, for which autograd adds into a new tensor.
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as record:
        loss.backward()
    field = [2, 16, 64, 64]
    sums = [event.name for event in record.events() if event.input_shapes[:2] == [field, field]]
    assert sums.count("aten::add_") == 2
    assert sums.count("aten::add") == 0


class Widened(TorchDispatchMode):
    """Casts of whole fields from half to fp32."""

    def __init__(self, elements):
        super().__init__()
        self.elements, self.count = elements, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten._to_copy.default and (kwargs or {}).get("dtype") is torch.float32:
            self.count += args[0].numel() >= self.elements
        return function(*args, **(kwargs or {}))


def test_no_whole_field_is_widened_in_half_precision():
    model, x = model_and_field("mixed", batch=32)
    with Widened(32 * 16 * 64 * 64) as widened:
        model(x).float().square().mean().backward()
    assert widened.count == 0


@pytest.mark.parametrize("precision", ["full", "mixed"])
def test_a_small_field_is_answered_in_one_piece_with_the_same_numbers(precision, monkeypatch):
    model, x = model_and_field(precision)
    sliced = outputs(model, x)
    monkeypatch.setattr(pointwise, "WHOLE_ELEMENTS", 1 << 19)
    calls = []
    monkeypatch.setattr(pointwise, "run_kernel", lambda *arguments: calls.append(arguments))
    whole = outputs(model, x)
    assert not calls
    for a, b in zip(sliced, whole, strict=True):
        assert (a - b).norm() <= (1e-5 if precision == "full" else 2e-2) * a.norm()


def test_the_widest_value_of_a_chain_decides_whether_it_is_cut(monkeypatch):
    """A field of one channel that is lifted to sixteen: 2 x 16 x 64 x 64 elements."""
    monkeypatch.setattr(pointwise, "WHOLE_ELEMENTS", 2 * 16 * 64 * 64 - 1)
    calls = []
    cut = pointwise.run_kernel
    monkeypatch.setattr(pointwise, "run_kernel", lambda *arguments: calls.append(arguments) or cut(*arguments))
    layer = pointwise.ChannelMLP(1, 0, 16)
    layer(torch.randn(2, 1, 64, 64))
    layer(torch.randn(1, 1, 64, 64))
    assert len(calls) == 1
