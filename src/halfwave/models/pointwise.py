"""Pointwise layers: the same small network at every grid point, recomputed slice by slice in the backward pass.

A pointwise network maps fields (B, C_i, S) to a field (B, O, S), point by point, by a chain of steps. Run in one
piece it would keep every intermediate for the backward pass: five full-size tensors in an FNO block. Run in slices
that fit a cache, it keeps its inputs only and makes the intermediates again, where they cost no memory traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from halfwave.models.chain import Activate, ChainStep, Drop, Mix, Run, Workspace
from halfwave.models.nonlinearity import nonlinearity_name
from halfwave.numerics import (
    Arithmetic,
    Gradients,
    Operands,
    compiling,
    interpreted,
    kind_of,
    portable,
    recomputed_later,
    run_kernel,
    thread_count,
    unlike,
)
from halfwave.precision import Policy, PolicyModule, as_policy

# Grid points times channels of one slice: one megabyte a tensor in fp32. Smaller slices are more calls; larger ones
# leave the cache and keep more at once.
SLICE_ELEMENTS = 1 << 18
# The same where half products are native: less time goes into the numbers of a slice, and more into its calls and into
# putting its rows together.
NATIVE_SLICE_ELEMENTS = 1 << 19
# A field smaller than a few such slices would be one slice, and save nothing: it is cut in four, down to this size,
# below which the calls would show.
SMALL_SLICE_ELEMENTS = 1 << 16

# A field of up to two megabytes is not cut at all, and its intermediates are kept: making them again would take more
# time than it saves in memory traffic, and what they take is nothing beside the weights of such a model.
WHOLE_ELEMENTS = 1 << 19

# Points of one matrix product where several threads share the work: MKL divides a batch of such products well among
# them, and one wide product badly.
PIECE_POINTS = 1024


@dataclass(frozen=True)
class Pointwise:
    """A pointwise network: its fields by name, and the chain of steps that ends in its result."""

    fields: tuple[str, ...]
    steps: tuple[ChainStep, ...]


def apply_pointwise(network: Pointwise, fields: list[Tensor], parameters: list[Tensor], arith: Arithmetic) -> Tensor:
    """The network in the arithmetic of `arith`: fields (B, C_i, *grid) to (B, O, *grid)."""
    if interpreted():
        return _apply_to_planes(network, fields, parameters, arith)
    if kind_of(fields[0].device) == "cpu" and not compiling():
        small = not portable() and _widest(fields, parameters) <= WHOLE_ELEMENTS  # sizes may be symbols there
        kernel = _InSlices(network, arith, whole=small)
        if small and torch.is_grad_enabled():
            return kernel.plain(*fields, *parameters)
        return run_kernel(kernel, *fields, *parameters)
    flat = _flat(fields)
    if torch.is_grad_enabled() and not compiling():
        out = recomputed_later(apply_whole, network, arith, *flat, *parameters)
    else:
        out = apply_whole(network, arith, *flat, *parameters)
    return out.view(*out.shape[:2], *fields[0].shape[2:])


def _widest(fields: Sequence[Tensor], parameters: Sequence[Tensor]) -> int:
    """Elements of the largest value of a chain: its points times its most channels."""
    channels = max(*(field.shape[1] for field in fields), *(p.shape[0] for p in parameters), 1)
    return fields[0].numel() // max(fields[0].shape[1], 1) * channels


def apply_whole(network: Pointwise, arith: Arithmetic, *tensors: Tensor) -> Tensor:
    """One piece: for accelerators (with checkpointing) and for the compiler, which fuses and recomputes by itself."""
    n_fields = len(network.fields)
    run = Run(network.steps, arith, [arith.load(p) for p in tensors[n_fields:]])
    return arith.store(run.forward(dict(zip(network.fields, tensors, strict=False))))


def _apply_to_planes(network: Pointwise, fields: list[Tensor], parameters: list[Tensor], arith: Arithmetic) -> Tensor:
    """One piece, on fields (B, C, X, Y): runtimes have a layout of their own for images, and leave it at a reshape."""
    out = apply_whole(network, arith, *map(_plane, fields), *parameters)
    return out if fields[0].ndim == 4 else out.reshape(*out.shape[:2], *fields[0].shape[2:])


def _plane(field: Tensor) -> Tensor:
    """(B, C, X), (B, C, X, Y) or (B, C, X, Y, Z) with two axes of points."""
    if field.ndim == 4:
        return field
    return field.unsqueeze(2) if field.ndim == 3 else field.flatten(3)


@dataclass(frozen=True)
class _InSlices:
    """The kernel of a network's fields and parameters, one after the other; `whole`: in one slice.

    Small fields are one slice where nothing is differentiated: their values then take the place of one another.
    """

    network: Pointwise
    arith: Arithmetic
    whole: bool = False

    def plain(self, *tensors: Tensor) -> Tensor:
        n_fields = len(self.network.fields)
        out = apply_whole(self.network, self.arith, *_flat(tensors[:n_fields]), *tensors[n_fields:])
        return out.reshape(*out.shape[:2], *tensors[0].shape[2:])

    def forward(self, *tensors: Tensor) -> Tensor:
        network, arith, n_fields = self.network, self.arith, len(self.network.fields)
        fields, parameters = _flat(tensors[:n_fields]), [arith.load(p) for p in tensors[n_fields:]]
        run = Run(network.steps, arith, parameters, Workspace(arith.compute, fields[0].device))
        cut = _Cut(len(fields[0])) if self.whole else _cut(fields[0], arith)
        out = None
        for i, parts in enumerate(zip(*map(cut.slices, fields), strict=True)):
            part = run.forward(dict(zip(network.fields, parts, strict=True)))
            if out is None:
                out = part.new_empty((len(fields[0]), part.shape[1], fields[0].shape[2]), dtype=arith.storage)
                targets = cut.slices(out)
            arith.store_into(targets[i], part)
        assert out is not None
        return out.view(*out.shape[:2], *tensors[0].shape[2:])

    def backward(self, tensors: Operands, needs: Sequence[bool], grad: Tensor) -> Gradients:
        network, arith, n_fields = self.network, self.arith, len(self.network.fields)
        fields, parameters = _flat(tensors[:n_fields]), [arith.load(p) for p in tensors[n_fields:]]
        totals = [
            _new_gradient(t, i < n_fields) if n else None for i, (t, n) in enumerate(zip(tensors, needs, strict=True))
        ]
        # Views of the gradients: what is returned is no view itself, so that autograd may add another gradient into it.
        wanted = {name: t.flatten(2) for name, t in zip(network.fields, totals, strict=False) if t is not None}
        run = Run(
            network.steps,
            arith,
            parameters,
            Workspace(arith.compute, grad.device),
            sums=totals[n_fields:],
            unwanted=frozenset(network.fields) - frozenset(wanted),
        )
        cut = _cut(fields[0], arith)
        for parts in zip(*map(cut.slices, (*fields, grad.flatten(2), *wanted.values())), strict=True):
            found = run.backward(dict(zip(network.fields, parts, strict=False)), parts[n_fields])
            for name, total in zip(wanted, parts[n_fields + 1 :], strict=True):
                total.copy_(found[name])
        run.finish()
        return totals


def _flat(fields: Sequence[Tensor]) -> list[Tensor]:
    return [field.flatten(2) for field in fields]


def _new_gradient(tensor: Tensor, field: bool) -> Tensor:
    """Slices fill the gradient of a field once each; those of a parameter are summed."""
    return torch.empty_like(tensor, memory_format=torch.contiguous_format) if field else torch.zeros_like(tensor)


@dataclass(frozen=True)
class _Cut:
    """How fields (B, C, S) are cut: `samples` at a time, or one at a time and of it `points`.

    For several threads `points` are pieces of equal length: a slice is then (p, C, s / p), a batch of products.
    """

    samples: int
    points: int | None = None
    pieces: bool = False

    def slices(self, field: Tensor) -> list[Tensor]:
        """The slices (b, C, s) of a field one after the other: views."""
        if self.points is None:
            return unlike(field.split(self.samples))
        samples = unlike(field.split(1))
        if not self.pieces:
            return [part for sample in samples for part in unlike(sample.split(self.points, dim=2))]
        return [part for sample in samples for part in self._pieces(sample[0])]

    def _pieces(self, sample: Tensor) -> list[Tensor]:
        """(C, S) to slices (p, C, PIECE_POINTS), and (1, C, rest)."""
        assert self.points is not None
        whole = sample.shape[1] // PIECE_POINTS * PIECE_POINTS
        pieces = sample[:, :whole].unflatten(1, (-1, PIECE_POINTS)).transpose(0, 1)
        rest = [sample[None, :, whole:]] if whole < sample.shape[1] else []
        return unlike([*pieces.split(self.points // PIECE_POINTS), *rest])


def _cut(field: Tensor, arith: Arithmetic) -> _Cut:
    """Whole samples while they are small, parts of one sample when they are large."""
    channels, points = field.shape[1:]
    native = arith.format.half and arith.how == "native"
    largest = NATIVE_SLICE_ELEMENTS if native else SLICE_ELEMENTS
    elements = min(largest, max(SMALL_SLICE_ELEMENTS, field.numel() // 4))
    budget = max(1, elements // max(channels, 16))
    if 2 * points <= budget:
        return _Cut(budget // max(points, 1))
    pieces = thread_count() > 1 and min(budget, points) >= PIECE_POINTS and not native
    return _Cut(1, budget // PIECE_POINTS * PIECE_POINTS if pieces else budget, pieces)


class PointwiseModule(PolicyModule):
    """A module that computes in the `pointwise` format of a policy."""

    def arithmetic(self, device: torch.device) -> Arithmetic:
        return self.resolved(device).pointwise


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
    """W2 σ(W1 x + b1) + b2 at every grid point: (B, in, *grid) to (B, out, *grid); W x + b without hidden channels."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        precision: str | Policy = "full",
        non_linearity: str = "gelu",
    ) -> None:
        super().__init__()
        widths = [in_channels, hidden_channels, out_channels] if hidden_channels else [in_channels, out_channels]
        self.fcs = nn.ModuleList(ChannelLinear(a, b) for a, b in pairwise(widths))
        self.non_linearity = nonlinearity_name(non_linearity)
        self.policy = as_policy(precision)

    def parameter_list(self) -> list[Tensor]:
        return list(self.fcs.parameters())

    def forward(self, x: Tensor) -> Tensor:
        network = _mlp(self.non_linearity) if len(self.fcs) == 2 else _LINEAR
        return apply_pointwise(network, [x], self.parameter_list(), self.arithmetic(x.device))

    def extra_repr(self) -> str:
        return self.non_linearity


def mlp_steps(
    source: str, into: str, parameter: int = 0, non_linearity: str = "gelu", dropout: float = 0.0
) -> tuple[ChainStep, ...]:
    """into = W2 σ(W1 source + b1) + b2, with the weights and biases from this parameter on.

    With `dropout` the hidden and the last values are dropped by the masks, which are fields (`MASKS`).
    """
    hidden = (Mix("hidden", source, parameter, bias=parameter + 1), Activate("activated", "hidden", non_linearity))
    if not dropout:
        return (*hidden, Mix(into, "activated", parameter + 2, bias=parameter + 3))
    scale = 1 / (1 - dropout)
    return (
        *hidden,
        Drop("dropped", "activated", MASKS[0], scale),
        Mix("mixed", "dropped", parameter + 2, bias=parameter + 3),
        Drop(into, "mixed", MASKS[1], scale),
    )


MASKS = ("kept hidden", "kept")
"""Names of the fields that `mlp_steps` takes its masks from."""


def _mlp(non_linearity: str) -> Pointwise:
    return Pointwise(("x",), mlp_steps("x", "y", non_linearity=non_linearity))


_LINEAR = Pointwise(("x",), (Mix("y", "x", 0, bias=1),))
