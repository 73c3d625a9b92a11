"""Chains of pointwise steps: products over channels, gates and nonlinearities, each with its derivative.

A chain is straight-line code on named values (b, C, s): the fields are values, every step makes one more, and the last
is the result. Forward steps are ordinary differentiable functions, for the compiler and for accelerators. On a CPU the
steps' own derivatives run in a `Workspace` that serves every slice of a field: autograd takes new memory for every
intermediate and passes over it once more for every sum. In an interpreted program values are (b, C, X, Y).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from halfwave.models.nonlinearity import NONLINEARITIES
from halfwave.numerics import Arithmetic, compiling, interpreted, nominal


class Workspace:
    """Tensors by name, kept from slice to slice; one of another shape takes the place of the last."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device = dtype, device
        self._tensors: dict[str, Tensor] = {}

    def tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        found = self._tensors.get(name)
        if found is None or found.shape != shape:
            self._tensors.pop(name, None)  # first, or both would live for a moment
            found = self._tensors[name] = torch.empty(shape, dtype=self.dtype, device=self.device)
        return found


class ChainStep(Protocol):
    """One step. A value named `plus` is consumed: no other step reads it afterwards, nor does a derivative."""

    @property
    def into(self) -> str:
        """Name of the value that it makes."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the values that it is made from."""

    @property
    def keeps(self) -> tuple[str, ...]:
        """Those of them that its derivative needs."""

    def forward(self, run: Run) -> Tensor:
        """The value."""

    def backward(self, run: Run, grad: Tensor) -> None:
        """Hand the gradient of the value on to what it was made from."""


@cache
def recomputed(steps: tuple[ChainStep, ...]) -> tuple[ChainStep, ...]:
    """The steps whose values some derivative needs, or that lead to one: the last of a chain never is among them."""
    needed = {name for step in steps for name in step.keeps}
    for step in reversed(steps):
        if step.into in needed:
            needed.update(step.reads)
    return tuple(step for step in steps if step.into in needed)


@dataclass
class Run:
    """A chain at work on slices.

    Attributes:
        steps: the chain.
        arith: the arithmetic; values and gradients are in its `compute` dtype.
        parameters: in that dtype.
        workspace: None makes every value a new tensor, as autograd needs it.
        sums: gradients of the parameters, summed over slices in fp32; None for one that is not asked for.
        unwanted: fields whose gradients are not asked for.
    """

    steps: tuple[ChainStep, ...]
    arith: Arithmetic
    parameters: Sequence[Tensor]
    workspace: Workspace | None = None
    sums: Sequence[Tensor | None] = ()
    unwanted: frozenset[str] = frozenset()
    values: dict[str, Tensor] = field(default_factory=dict)
    gradients: dict[str, Tensor] = field(default_factory=dict)
    _products: dict[tuple[int, int], Tensor] = field(default_factory=dict)
    _views: dict[tuple[str, int, int], Tensor] = field(default_factory=dict)

    def forward(self, fields: dict[str, Tensor]) -> Tensor:
        """The result of a slice of every field."""
        self._evaluate(self.steps, fields)
        return self.values[self.steps[-1].into]

    def backward(self, fields: dict[str, Tensor], grad: Tensor) -> dict[str, Tensor]:
        """Gradients of the fields that are asked for, from that of the result; those of parameters are summed up."""
        self._evaluate(recomputed(self.steps), fields)
        last = self.steps[-1].into
        self.gradients = {last: self._load(_gradient_of(last), grad)}
        for step in reversed(self.steps):
            step.backward(self, self.gradients[step.into])
        return self.gradients

    def _evaluate(self, steps: tuple[ChainStep, ...], fields: dict[str, Tensor]) -> None:
        self.values = {name: self._load(name, part) for name, part in fields.items()}
        for step in steps:
            self.values[step.into] = self.arith.settle(step.forward(self))

    def space(self, name: str, shape: tuple[int, ...]) -> Tensor | None:
        """Where a value of this name goes; None is a new tensor."""
        return None if self.workspace is None else self.workspace.tensor(name, shape)

    def space_of_gradient(self, name: str, like: Tensor) -> Tensor | None:
        return self.space(_gradient_of(name), like.shape)

    def consumed(self, name: str) -> Tensor | None:
        """Where a sum with this value goes: into its place, unless the value lies in somebody else's tensor."""
        return self.space(name, self.values[name].shape)

    def matrices(self, parameter: int, count: int) -> Tensor:
        """A weight (O, C), once for each of `count` products: (count, O, C), a view."""
        return self._view("matrices", parameter, count, lambda w: w.expand(count, -1, -1))

    def transposes(self, parameter: int, count: int) -> Tensor:
        """The same transposed: (count, C, O), a view."""
        return self._view("transposes", parameter, count, lambda w: w.t().expand(count, -1, -1))

    def column(self, parameter: int) -> Tensor:
        """A parameter per channel, the same at every point: (C, 1), a view."""
        return self._view("column", parameter, 1, lambda w: w.unsqueeze(1))

    def _view(self, kind: str, parameter: int, count: int, make: Callable[[Tensor], Tensor]) -> Tensor:
        if compiling():
            return make(self.parameters[parameter])  # a key with the batch in it would tie the program to one batch
        # Made once, not in every slice: a view takes microseconds, and there are hundreds of slices with ten each.
        key = (kind, parameter, nominal(count))
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = make(self.parameters[parameter])
        return found

    def add_product(self, parameter: int, grad: Tensor, x: Tensor) -> None:
        """Add grad x^T, (b, O, s) by (b, C, s), to the sum of a weight, which `finish` takes over b."""
        total = self.sums[parameter]
        if total is None:
            return
        key = (parameter, len(grad))
        if key not in self._products:
            self._products[key] = total.new_zeros((len(grad), *total.shape))
        so_far = self._products[key]
        if so_far.dtype is grad.dtype and self.arith.format.parts == 1:
            so_far.baddbmm_(grad, x.transpose(1, 2))
        else:
            so_far += self.arith.multiply(torch.bmm, grad, x.transpose(1, 2))

    def add_sum(self, parameter: int, grad: Tensor) -> None:
        """Add the sum over batch and points to the sum of a parameter per channel."""
        total = self.sums[parameter]
        if total is not None:
            total += grad.sum((0, 2), dtype=total.dtype)

    def finish(self) -> None:
        """After the last slice: complete the sums of the parameters."""
        for (parameter, _), products in self._products.items():
            total = self.sums[parameter]
            assert total is not None
            total += products.sum(0)
        self._products.clear()

    def _load(self, name: str, part: Tensor) -> Tensor:
        if self.workspace is None or self._lies_well(part):
            return self.arith.load(part)
        return self.arith.load_into(self.workspace.tensor(name, part.shape), part)

    def _lies_well(self, part: Tensor) -> bool:
        """Whether a slice is read where it lies: in the dtype of the products, and in order for half products on a CPU.

        Each of them would put a slice in order for itself, and transpose it number by number for a weight's gradient.
        """
        return part.dtype is self.arith.compute and (part.is_contiguous() or not self.arith.format.half)


def _gradient_of(name: str) -> str:
    return f"gradient of {name}"


@dataclass(frozen=True)
class Mix:
    """W x + b, or W x + plus: channels mixed at every point. `weight` (O, C) and `bias` (O,) are parameter numbers."""

    into: str
    source: str
    weight: int
    bias: int | None = None
    plus: str | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.source,) if self.plus is None else (self.source, self.plus)

    @property
    def keeps(self) -> tuple[str, ...]:
        return (self.source,)

    def forward(self, run: Run) -> Tensor:
        x = run.values[self.source]
        if interpreted():
            return self._convolved(run, x)
        weight = run.matrices(self.weight, x.shape[0])
        if run.arith.format.parts > 1:
            return self._by_parts(run, run.arith.multiply(torch.bmm, weight, x))
        if self.plus is not None:
            return torch.baddbmm(run.values[self.plus], weight, x, out=run.consumed(self.plus))
        space = run.space(self.into, (x.shape[0], weight.shape[1], x.shape[2]))
        if self.bias is not None:
            return torch.baddbmm(run.column(self.bias), weight, x, out=space)
        return torch.bmm(weight, x, out=space)

    def _by_parts(self, run: Run, product: Tensor) -> Tensor:
        """Several products, so that no single one takes the sum along."""
        if self.plus is not None:
            return product + run.values[self.plus]
        return product if self.bias is None else product + run.column(self.bias)

    def _convolved(self, run: Run, x: Tensor) -> Tensor:
        """On (b, C, X, Y), as a convolution of one point: runtimes have their fastest products over channels for it."""
        weight, bias = run.parameters[self.weight][:, :, None, None], self.bias
        y = conv2d(x, weight, None if bias is None else run.parameters[bias])
        return y if self.plus is None else run.values[self.plus] + y

    def backward(self, run: Run, grad: Tensor) -> None:
        x = run.values[self.source]
        run.add_product(self.weight, grad, x)
        if self.bias is not None:
            run.add_sum(self.bias, grad)
        if self.plus is not None:
            run.gradients[self.plus] = grad
        if self.source in run.unwanted:
            return
        transposed = run.transposes(self.weight, len(grad))
        so_far = run.gradients.get(self.source)
        if run.arith.format.parts > 1:
            made = run.arith.multiply(torch.bmm, transposed, grad)
            run.gradients[self.source] = made if so_far is None else so_far.add_(made)
        elif so_far is not None:
            so_far.baddbmm_(transposed, grad)
        else:
            run.gradients[self.source] = torch.bmm(transposed, grad, out=run.space_of_gradient(self.source, x))


@dataclass(frozen=True)
class Gate:
    """w x + plus with one factor per channel; `weight` (C,) is a parameter number."""

    into: str
    source: str
    weight: int
    plus: str

    @property
    def reads(self) -> tuple[str, ...]:
        return self.source, self.plus

    @property
    def keeps(self) -> tuple[str, ...]:
        return (self.source,)

    def forward(self, run: Run) -> Tensor:
        x = run.values[self.source]
        if interpreted():  # with groups of one channel, for the same reason as in `Mix`
            gate = run.parameters[self.weight]
            return run.values[self.plus] + conv2d(x, gate[:, None, None, None], groups=len(gate))
        gate = run.column(self.weight)
        return torch.addcmul(run.values[self.plus], gate, x, out=run.consumed(self.plus))

    def backward(self, run: Run, grad: Tensor) -> None:
        x = run.values[self.source]
        run.add_sum(self.weight, torch.mul(grad, x, out=run.space("product", x.shape)))
        run.gradients[self.plus] = grad
        if self.source in run.unwanted:
            return
        gate, so_far = run.column(self.weight), run.gradients.get(self.source)
        if so_far is not None:
            so_far.addcmul_(gate, grad)
        else:
            run.gradients[self.source] = torch.mul(gate, grad, out=run.space_of_gradient(self.source, x))


@dataclass(frozen=True)
class Add:
    """x + plus."""

    into: str
    source: str
    plus: str

    @property
    def reads(self) -> tuple[str, ...]:
        return self.source, self.plus

    @property
    def keeps(self) -> tuple[str, ...]:
        return ()

    def forward(self, run: Run) -> Tensor:
        return torch.add(run.values[self.plus], run.values[self.source], out=run.consumed(self.plus))

    def backward(self, run: Run, grad: Tensor) -> None:
        run.gradients[self.plus] = grad
        if self.source in run.unwanted:
            return
        so_far = run.gradients.get(self.source)
        # A copy: what else reaches the source is added into it.
        run.gradients[self.source] = grad.clone() if so_far is None else so_far.add_(grad)


@dataclass(frozen=True)
class Activate:
    """σ(x), σ by its name in `nonlinearity`."""

    into: str
    source: str
    name: str = "gelu"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.source,)

    @property
    def keeps(self) -> tuple[str, ...]:
        return (self.source,)

    def forward(self, run: Run) -> Tensor:
        x, sigma = run.values[self.source], NONLINEARITIES[self.name]
        space = run.space(self.into, x.shape)
        return sigma.function_in(run.arith, x.device)(x) if space is None else sigma.into(x, space)

    def backward(self, run: Run, grad: Tensor) -> None:
        # In the place of `grad`, unless that lies in somebody else's tensor.
        space, x = run.space_of_gradient(self.into, grad), run.values[self.source]
        assert space is not None
        gradient = NONLINEARITIES[self.name].gradient
        run.gradients[self.source] = gradient(grad, x, space, partial(_scratch, run, x.shape))


def _scratch(run: Run, shape: tuple[int, ...]) -> Tensor:
    space = run.space("scratch", shape)
    assert space is not None
    return space


@dataclass(frozen=True)
class Drop:
    """x · mask · scale: dropout with a mask of zeros and ones that is a field, the same one in the backward pass."""

    into: str
    source: str
    mask: str
    scale: float

    @property
    def reads(self) -> tuple[str, ...]:
        return self.source, self.mask

    @property
    def keeps(self) -> tuple[str, ...]:
        return (self.mask,)

    def forward(self, run: Run) -> Tensor:
        x, mask = run.values[self.source], run.values[self.mask]
        space = run.space(self.into, x.shape)
        return x * mask * self.scale if space is None else torch.mul(x, mask, out=space).mul_(self.scale)

    def backward(self, run: Run, grad: Tensor) -> None:
        space = run.space_of_gradient(self.into, grad)
        run.gradients[self.source] = torch.mul(grad, run.values[self.mask], out=space).mul_(self.scale)
