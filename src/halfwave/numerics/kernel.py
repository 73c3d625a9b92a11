"""Kernels: operations with two ways of computing, lean and plain, that PyTorch can differentiate in every way it knows.

The *lean* way works in slices and in buffers, and its first derivative makes again what the forward pass did not keep:
that is what a training step runs. The *plain* way says the same in ordinary differentiable operators, out of place. It
is taken for whatever the lean one does not have: second and higher derivatives (`create_graph=True`), `torch.func`
(grad, vmap, jvp, jacrev, jacfwd, hessian), forward-mode derivatives, and programs that leave Python (`portable`).

Formats are a policy's business: an ambient autocast is off inside a kernel, in the backward pass as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from halfwave.numerics.hardware import kind_of
from halfwave.numerics.portable_mode import compiling, portable

Operands = tuple[Any, ...]
"""Tensors, None where one is left out."""
Gradients = Sequence["Tensor | None"]

_plainly = False


class Kernel(Protocol):
    """An operation on some tensors (None where one is left out) with a lean derivative of its own."""

    def plain(self, *tensors: Any) -> Tensor:
        """The result by differentiable operators alone: no `out=`, no change in place, no slices."""

    def forward(self, *tensors: Any) -> Tensor:
        """The same result, lean. Only the operands are kept for the backward pass."""

    def backward(self, tensors: Operands, needs: Sequence[bool], grad: Tensor) -> Gradients:
        """The gradients of the operands that `needs` asks for, from that of the result."""


class LinearKernel(Protocol):
    """A linear map of one tensor. Its derivative is its adjoint, another such map: nothing is kept for it."""

    @property
    def adjoint(self) -> LinearKernel: ...

    def plain(self, x: Tensor) -> Tensor:
        """The result by differentiable operators alone."""

    def forward(self, x: Tensor) -> Tensor:
        """The same, lean."""


def run_kernel(kernel: Kernel, *tensors: Tensor | None) -> Tensor:
    """The kernel on these operands, differentiable any number of times."""
    if _takes_plain_way() or _empty(tensors[0]):
        return kernel.plain(*tensors)
    result: Tensor = _Lean.apply(kernel, *tensors)
    return result


def run_linear(kernel: LinearKernel, x: Tensor) -> Tensor:
    """The linear kernel on `x`, differentiable any number of times."""
    if _takes_plain_way():
        return kernel.plain(x)
    result: Tensor = _Linear.apply(kernel, x)
    return result


def recomputed_later(function: Callable[..., Tensor], *tensors: Any) -> Tensor:
    """The function's result, of which the backward pass makes the intermediates again; not within `plainly`."""
    if _plainly:
        return function(*tensors)
    result: Tensor = checkpoint(function, *tensors, use_reentrant=False)
    return result


def transformed() -> bool:
    """True inside a transform of `torch.func`, a forward-mode derivative or a portable program: the plain way then."""
    if portable():
        return True
    if compiling():
        return False
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def _takes_plain_way() -> bool:
    return transformed() or (_plainly and not torch.compiler.is_compiling())


@contextmanager
def plainly() -> Iterator[None]:
    """Within, every kernel takes the plain way: nothing is sliced, recomputed or hidden from autograd."""
    global _plainly
    before, _plainly = _plainly, True
    try:
        yield
    finally:
        _plainly = before


def untransformed() -> AbstractContextManager[Any]:
    """Within, tensors are made as outside every transform of `torch.func`: what is kept for later outlives them all."""
    if not torch._C._are_functorch_transforms_active():
        return nullcontext()
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    return temporarily_clear_interpreter_stack()


def _empty(x: Tensor | None) -> bool:
    """An empty batch has no slices to work in."""
    return x is not None and not compiling() and not x.numel()


def without_autocast(device: torch.device | str) -> AbstractContextManager[Any]:
    """Within, operators on this kind of device run in the dtypes they are given."""
    kind = kind_of(device)
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


class _Lean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernel: Kernel, *tensors: Tensor | None) -> Tensor:
        ctx.kernel = kernel
        ctx.save_for_backward(*tensors)
        return kernel.forward(*tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tensors, needs = ctx.saved_tensors, ctx.needs_input_grad[1:]
        if compiling():
            return None, *ctx.kernel.backward(tensors, needs, grad)
        with without_autocast(grad.device):
            if torch.is_grad_enabled() or transformed():
                return None, *_plain_gradients(ctx.kernel, tensors, needs, grad)
            return None, *ctx.kernel.backward(tensors, needs, grad)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernel: LinearKernel, x: Tensor) -> Tensor:
        ctx.kernel, ctx.dtype = kernel, x.dtype
        return kernel.forward(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        if compiling():
            return None, run_linear(ctx.kernel.adjoint, grad).to(ctx.dtype)
        with without_autocast(grad.device):
            return None, run_linear(ctx.kernel.adjoint, grad).to(ctx.dtype)


def _plain_gradients(kernel: Kernel, tensors: Operands, needs: Sequence[bool], grad: Tensor) -> list[Tensor | None]:
    """Gradients that are differentiable themselves, in the operands and in `grad`."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views: one tensor that is two operands must not get the gradient of both for each.
        views = [t.view_as(t) if n and t is not None else t for t, n in zip(tensors, needs, strict=True)]
        out = kernel.plain(*views)
    wanted = [v for v, n in zip(views, needs, strict=True) if n and v is not None]
    found = iter(torch.autograd.grad(out, wanted, grad, create_graph=again, allow_unused=True))
    return [next(found) if n and t is not None else None for t, n in zip(tensors, needs, strict=True)]
