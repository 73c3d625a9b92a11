"""Pointwise layers: the same small network at every grid point, recomputed slice by slice in the backward pass.

A pointwise function f(fields, parameters) maps fields (B, C_i, S) to a field (B, O, S), point by point. Run in one
piece it would keep every intermediate for the backward pass: five full-size tensors in an FNO block. Run in slices
that fit a cache, it keeps its inputs only and makes the intermediates again, where they cost no memory traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from halfwave.numerics import Arithmetic, arithmetic_of, kind_of
from halfwave.precision import Policy, as_policy

# Grid points times channels of one slice: two megabytes a tensor in fp32. Measured on 2 cores, a training step of
# FNO 64x64, 32 channels, batch 32: 0.84 s with half of it, 0.70 with this, 0.56 with twice, which costs more memory.
SLICE_ELEMENTS = 1 << 19
# A field smaller than a few such slices would be one slice, and save nothing: it is cut in four, down to this size.
# FNO 64x64, 32 channels, batch 4: 34.5 MB of activations in one slice, 27.6 in four, in 0.185 and 0.175 s of one core.
SMALL_SLICE_ELEMENTS = 1 << 17

# Points of one matrix product where several threads share the work: MKL on 2 cores takes a batch of such products in
# three quarters of the time of one wide product (64 x 64 x 8192: 0.56 against 0.75 ms), which it divides badly.
PIECE_POINTS = 1024

PointwiseFunction = Callable[..., Tensor]


@dataclass(frozen=True)
class Pointwise:
    """A pointwise function and how to run it.

    Attributes:
        function: ``function(arith, *fields, *parameters)`` on slices (b, C_i, s) in `arith.compute`.
        arith: the arithmetic.
        n_fields: how many of the tensors are fields; the rest are parameters.
        activate: apply GELU to the result. Known here, its backward pass needs no second evaluation of GELU itself.
    """

    function: PointwiseFunction
    arith: Arithmetic
    n_fields: int
    activate: bool

    def inner(self, tensors: Sequence[Tensor]) -> Tensor:
        """The function before the last GELU."""
        return self.function(self.arith, *tensors)

    def outer(self, inner: Tensor) -> Tensor:
        return self.arith.settle(nn.functional.gelu(inner)) if self.activate else inner

    def outer_gradient(self, inner: Tensor, grad: Tensor) -> Tensor:
        return torch.ops.aten.gelu_backward(grad, inner) if self.activate else grad


def apply_pointwise(
    function: PointwiseFunction,
    fields: list[Tensor],
    parameters: list[Tensor],
    arith: Arithmetic,
    activate: bool = False,
) -> Tensor:
    """f(fields, parameters), or gelu of it, in the arithmetic of `arith`: fields (B, C_i, *grid) to (B, O, *grid)."""
    work = Pointwise(function, arith, len(fields), activate)
    if kind_of(fields[0].device) == "cpu" and not torch.compiler.is_compiling():
        result: Tensor = _InSlices.apply(work, *fields, *parameters)
        return result
    flat = _flat(fields)
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        out = checkpoint(_whole, work, *flat, *parameters, use_reentrant=False)
    else:
        out = _whole(work, *flat, *parameters)
    return out.view(*out.shape[:2], *fields[0].shape[2:])


def _whole(work: Pointwise, *tensors: Tensor) -> Tensor:
    """One piece: for accelerators (with checkpointing) and for the compiler, which fuses and recomputes by itself."""
    return work.arith.store(work.outer(work.inner([work.arith.load(t) for t in tensors])))


class _InSlices(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: Pointwise, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.work = work
        arith = work.arith
        fields, parameters = _flat(tensors[: work.n_fields]), [arith.load(p) for p in tensors[work.n_fields :]]
        out = None
        for b, s in _slices(fields[0]):
            part = work.outer(work.inner([*(arith.load(_part(f, b, s)) for f in fields), *parameters]))
            if out is None:
                out = part.new_empty((len(fields[0]), part.shape[1], fields[0].shape[2]), dtype=arith.storage)
            arith.store_into(_part(out, b, s), part)
        assert out is not None
        return out.view(*out.shape[:2], *tensors[0].shape[2:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        work: Pointwise = ctx.work
        arith, n_fields = work.arith, work.n_fields
        tensors, needs = ctx.saved_tensors, ctx.needs_input_grad[1:]
        fields, own = _flat(tensors[:n_fields]), zip(tensors[n_fields:], needs[n_fields:], strict=True)
        parameters = [arith.load(p).detach().requires_grad_(n) for p, n in own]
        # Sums over slices in fp32: a half-precision running sum would stagnate.
        sums = [
            _new_gradient(t, i < n_fields) if n else None for i, (t, n) in enumerate(zip(tensors, needs, strict=True))
        ]
        # Views of the gradients: what is returned is no view itself, so that autograd may add another gradient into it.
        field_sums = [None if total is None else total.flatten(2) for total in sums[:n_fields]]
        flat_grad = grad.flatten(2)
        for b, s in _slices(fields[0]):
            with torch.enable_grad():
                parts = [
                    arith.load(_part(f, b, s)).detach().requires_grad_(n) for f, n in zip(fields, needs, strict=False)
                ]
                inner = work.inner([*parts, *parameters])
            outer = work.outer_gradient(inner.detach(), arith.load(_part(flat_grad, b, s)))
            wanted = [t for t in (*parts, *parameters) if t.requires_grad]
            found = iter(torch.autograd.grad(inner, wanted, outer))
            for field_sum in field_sums:
                if field_sum is not None:
                    _part(field_sum, b, s).copy_(next(found))
            for total in sums[n_fields:]:
                if total is not None:
                    total += next(found)
        return None, *sums


def _flat(fields: Sequence[Tensor]) -> list[Tensor]:
    return [field.flatten(2) for field in fields]


def _new_gradient(tensor: Tensor, field: bool) -> Tensor:
    """Slices fill the gradient of a field once each; those of a parameter are summed."""
    return torch.empty_like(tensor, memory_format=torch.contiguous_format) if field else torch.zeros_like(tensor)


def _slices(field: Tensor) -> Iterator[tuple[slice, slice]]:
    """Slices of (batch, points): whole samples while they are small, parts of one sample when they are large."""
    batch, channels, points = field.shape
    elements = min(SLICE_ELEMENTS, max(SMALL_SLICE_ELEMENTS, field.numel() // 4))
    budget = max(1, elements // max(channels, 16))
    if points <= budget:
        step = max(1, budget // max(points, 1))
        for b in range(0, batch, step):
            yield slice(b, min(b + step, batch)), slice(0, points)
        return
    for b in range(batch):
        for s in range(0, points, budget):
            yield slice(b, b + 1), slice(s, min(s + budget, points))


def _part(field: Tensor, batch: slice, points: slice) -> Tensor:
    """A slice as (b, C, s), or for several threads one sample's as pieces (p, C, s / p): a view in both cases."""
    part = field[batch, :, points]
    if len(part) > 1 or part.shape[2] % PIECE_POINTS or torch.get_num_threads() == 1:
        return part
    return part[0].unflatten(1, (-1, PIECE_POINTS)).transpose(0, 1)


def mix_channels(weight: Tensor, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """W x + b over channels: (O, C), (b, C, s) to (b, O, s)."""
    y = torch.bmm(weight.expand(len(x), -1, -1), x)
    # In place: the product's value is not needed for its gradient, and a second temporary would be.
    return y if bias is None else y.add_(bias.unsqueeze(1))


class PointwiseModule(nn.Module):
    """A module that computes in the `pointwise` format of a policy."""

    policy: Policy

    def set_precision(self, policy: str | Policy) -> None:
        self.policy = as_policy(policy)

    def arithmetic(self, device: torch.device) -> Arithmetic:
        return arithmetic_of(self.policy.pointwise, device.type)


class ChannelLinear(nn.Module):
    """Parameters of a linear map over channels: `weight` (O, C) and `bias` (O,), initialised as torch's Conv1d."""

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True) -> None:
        super().__init__()
        bound = in_channels**-0.5
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_channels).uniform_(-bound, bound)) if bias else None

    def extra_repr(self) -> str:
        return f"{self.weight.shape[1]}, {self.weight.shape[0]}, bias={self.bias is not None}"


class ChannelMLP(PointwiseModule):
    """W2 gelu(W1 x + b1) + b2 at every grid point: (B, in, *grid) to (B, out, *grid)."""

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, precision: str | Policy = "full"
    ) -> None:
        super().__init__()
        self.fcs = nn.ModuleList(
            [ChannelLinear(in_channels, hidden_channels), ChannelLinear(hidden_channels, out_channels)]
        )
        self.policy = as_policy(precision)

    def parameter_list(self) -> list[Tensor]:
        return list(self.fcs.parameters())

    def forward(self, x: Tensor) -> Tensor:
        return apply_pointwise(channel_mlp, [x], self.parameter_list(), self.arithmetic(x.device))


def channel_mlp(arith: Arithmetic, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """W2 gelu(W1 x + b1) + b2 on a slice (b, C, s)."""
    hidden = arith.settle(nn.functional.gelu(arith.settle(mix_channels(w1, x, b1))))
    return arith.settle(mix_channels(w2, hidden, b2))
