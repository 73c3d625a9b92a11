"""Running a contraction plan on real pairs, slice by slice, with recomputation in the backward pass.

Kept for the backward pass: the operands, the data in the contraction's format, and nothing that was made from them.
Every step rounds its operands and, where products are native or emulated, its result; where they are wide, what lives
inside a slice stays in fp32, as in a fused kernel (casts were an eighth of a CP layer's time). What holds data is in
`arith`, what is made from weights alone in `weight_arith`; so weights in half with data in fp32 work as well as both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from halfwave.numerics import Arithmetic, Gradients, Operands, compiling, nominal, portable, run_kernel
from halfwave.spectral import pairs
from halfwave.spectral.plan import SIGN_AXIS, ContractionPlan, ContractionStep
from halfwave.spectral.rank_stream import contract_ranks, differentiate_ranks
from halfwave.spectral.streaming import cut, windows

Formats = tuple[Arithmetic, Arithmetic]


def execute(
    plan: ContractionPlan,
    tensors: Sequence[Tensor],
    arith: Arithmetic,
    weight_arith: Arithmetic | None = None,
    pair_axis: int = -2,
) -> Tensor:
    """The contraction of pair tensors, in the storage dtype of `arith`.

    Shapes: each operand has the sizes of its indices with the pair axis before the last of them; the first one (data)
    and the result have it at `pair_axis`. ValueError where shapes are not those of the plan.
    """
    formats = (arith, weight_arith or arith)
    data = arith.store(tensors[0]).movedim(pair_axis, -2)
    # Products between factors are wide, in the masters' dtype: in fp64 they begin with fp64.
    factors = [t.double() for t in tensors[1:]] if formats[1].storage is torch.float64 else tensors[1:]
    operands = [data, *factors]
    _check_shapes(plan, operands)
    if compiling():
        if plan.memory_limit is not None:
            raise ValueError("memory_limit cannot be held inside torch.compile, which plans memory by itself")
        result = checkpoint(_whole, plan, formats, *operands, use_reentrant=False)
        return result.movedim(-2, pair_axis).contiguous()
    return run_kernel(_Streamed(plan, formats, pair_axis), *operands)


def _whole(plan: ContractionPlan, formats: Formats, *operands: Tensor) -> Tensor:
    """One piece, for the compiler."""
    order = plan.order
    constants = _constants(plan, formats, {n: operands[n] for n in order.fixed_operands}, operands[0])
    return formats[0].store(_slice(plan, formats, {n: operands[n] for n in order.sliced_operands}, constants))


@dataclass(frozen=True)
class _Streamed:
    """The kernel of a plan in these formats; the result has its pair axis at `pair_axis`."""

    plan: ContractionPlan
    formats: Formats
    pair_axis: int

    def plain(self, *operands: Tensor) -> Tensor:
        return _whole(self.plan, self.formats, *operands).movedim(-2, self.pair_axis)

    def forward(self, *operands: Tensor) -> Tensor:
        plan, formats, order = self.plan, self.formats, self.plan.order
        shape = [dict(plan.sizes)[i] for i in plan.output]
        shape.insert(len(shape) + 1 + self.pair_axis, 2)
        out = operands[0].new_empty(shape)
        view = out.movedim(self.pair_axis, -2)
        if plan.rank_sum is not None:
            contract_ranks(plan, formats, operands, view)
            return out
        constants = _constants(plan, formats, {n: operands[n] for n in order.fixed_operands}, operands[0])
        for window in windows(plan.slices, dict(plan.sizes)):
            parts = {n: cut(operands[n], plan.inputs[n], window) for n in order.sliced_operands}
            cut(view, plan.output, window).copy_(_slice(plan, formats, parts, constants))
        return out

    def backward(self, operands: Operands, needs: Sequence[bool], grad: Tensor) -> Gradients:
        plan, formats, order = self.plan, self.formats, self.plan.order
        grad = grad.movedim(self.pair_axis, -2)
        if plan.rank_sum is not None:
            return differentiate_ranks(plan, formats, operands, needs, grad)
        with torch.enable_grad():
            fixed = {n: operands[n].detach().requires_grad_(needs[n]) for n in order.fixed_operands}
            constants = _constants(plan, formats, fixed, operands[0])
        leaves = {key: c.detach().requires_grad_(c.requires_grad) for key, c in constants.items()}
        # Sums over slices in fp32: a half-precision running sum would stagnate.
        sums: dict[int, Tensor | None] = {key: None for key, c in leaves.items() if c.requires_grad}
        sliced = {index for index, _ in plan.slices}
        own = {n: sliced <= set(plan.inputs[n]) for n in order.sliced_operands}
        grads = {n: _new_gradient(operands[n], own[n]) for n in order.sliced_operands if needs[n]}
        for window in windows(plan.slices, dict(plan.sizes)):
            with torch.enable_grad():
                parts = {
                    n: cut(operands[n], plan.inputs[n], window).detach().requires_grad_(needs[n])
                    for n in order.sliced_operands
                }
                out = _slice(plan, formats, parts, leaves)
            wanted = [leaves[key] for key in sums] + [parts[n] for n in grads]
            found = iter(torch.autograd.grad(out, wanted, formats[0].load(cut(grad, plan.output, window))))
            for key, total in sums.items():
                sums[key] = _wide(next(found)) if total is None else total.add_(next(found))
            for n, gradient in grads.items():
                part = cut(gradient, plan.inputs[n], window)
                part.copy_(next(found)) if own[n] else part.add_(next(found))
        totals = {key: total for key, total in sums.items() if total is not None}
        grads |= _through_constants(constants, totals, {n: t for n, t in fixed.items() if needs[n]})
        return [grads.get(n) for n in range(len(operands))]


def _through_constants(
    constants: dict[int, Tensor], sums: dict[int, Tensor], operands: dict[int, Tensor]
) -> dict[int, Tensor]:
    """Gradients of the operands that no slice cuts, from those of what was made of them."""
    if not operands:
        return {}
    outputs = [constants[key] for key in sums]
    rounded = [total.to(made.dtype) for total, made in zip(sums.values(), outputs, strict=True)]
    found = torch.autograd.grad(outputs, list(operands.values()), rounded)
    return dict(zip(operands, found, strict=True))


def _constants(plan: ContractionPlan, formats: Formats, operands: dict[int, Tensor], like: Tensor) -> dict[int, Tensor]:
    """What the slices need of the tensors made once: loaded, and expanded where it is the right side of a product."""
    made = dict(operands)
    if plan.complex_mode == "A":
        made[len(plan.inputs)] = _signs(len(plan.inputs), like, formats)
    for number, step in plan.order.once:
        left, right = (_prepared(made.pop(n), n, step, False, formats) for n in (step.left, step.right))
        made[number] = _run(step, left, right, dict(plan.sizes), formats)
    for _, step in plan.order.every:
        for n in (step.left, step.right):
            if n in made:
                made[n] = _prepared(made[n], n, step, False, formats)
    return made


def _slice(plan: ContractionPlan, formats: Formats, parts: dict[int, Tensor], constants: dict[int, Tensor]) -> Tensor:
    """The steps that differ from slice to slice, on one slice; the result has its pair axis before the last index."""
    order = plan.order
    made = dict(parts) | {0: formats[0].load(parts[0])}
    sizes = dict(plan.sizes)
    for n, part in parts.items():
        sizes |= {i: part.shape[axis] for axis, i in enumerate(pairs.with_pair(plan.inputs[n])) if i != pairs.PAIR}
    for number, step in order.every:
        left, right = (
            constants[n] if n in constants else _prepared(made.pop(n), n, step, n in order.data, formats)
            for n in (step.left, step.right)
        )
        made[number] = _run(step, left, right, sizes, formats)
    last = plan.steps[-1]
    target = pairs.with_pair(plan.output)
    if plan.complex_mode == "A":
        target = target.replace(pairs.PAIR, SIGN_AXIS)
    return pairs.permuted(made[number], last.subscripts, target)


def _prepared(tensor: Tensor, number: int, step: ContractionStep, data: bool, formats: Formats) -> Tensor:
    """An operand of a step, rounded and ready for products: in complex format as it is, else loaded (and expanded)."""
    if step.kind == "complex":
        return tensor
    arith, weight_arith = formats
    loaded = tensor
    if not data:
        loaded = weight_arith.load(tensor).to(arith.compute if step.data else weight_arith.compute)
    if number == step.right and step.kind == "product":
        return pairs.expand(loaded, step.right_subscripts, step.left_subscripts, step.subscripts)
    return loaded


def _run(step: ContractionStep, left: Tensor, right: Tensor, sizes: Mapping[str, int], formats: Formats) -> Tensor:
    if step.kind == "complex":
        return _run_complex(step, left, right)
    arith = formats[0] if step.data else formats[1]
    if step.kind == "product":
        shape = {i: sizes[i] for i in step.right_subscripts if i != pairs.PAIR}
        result = pairs.product(left, step.left_subscripts, right, shape, step.subscripts, arith)
    elif step.kind == "scale":
        result = pairs.scale(left, step.left_subscripts, right, step.right_subscripts, step.subscripts)
    else:
        equation = f"{step.left_subscripts},{step.right_subscripts}->{step.subscripts}"
        result = arith.multiply(partial(torch.einsum, equation), left, right)
    return arith.settle(result) if step.data else arith.store(result)


def _run_complex(step: ContractionStep, left: Tensor, right: Tensor) -> Tensor:
    """A step between small factors, in full precision and not rounded: the next step on pairs does that."""
    if compiling() or portable():
        # Neither has kernels for complex numbers; sums of fp32 pairs are the same numbers.
        a, b = (pairs.permuted(t, s, pairs.front(s)) for t, s in _sides(step, left, right))
        (ar, ai), (br, bi) = a, b
        re = torch.einsum(step.equation, ar, br) - torch.einsum(step.equation, ai, bi)
        im = torch.einsum(step.equation, ar, bi) + torch.einsum(step.equation, ai, br)
        return torch.stack([re, im], step.subscripts.index(pairs.PAIR))
    a, b = (pairs.to_complex(t, s) for t, s in _sides(step, left, right))
    return pairs.from_complex(torch.einsum(step.equation, a, b), step.subscripts)


def _sides(step: ContractionStep, left: Tensor, right: Tensor) -> tuple[tuple[Tensor, str], tuple[Tensor, str]]:
    return (left, step.left_subscripts), (right, step.right_subscripts)


def _signs(n_operands: int, like: Tensor, formats: Formats) -> Tensor:
    """Option A's operand of signs, (2,)*n + (2,): the product of n parts of pairs adds ±1 of itself to re or im."""
    signs = torch.zeros([2] * (n_operands + 1), dtype=formats[1].storage)
    for parts in product((0, 1), repeat=n_operands):
        power = sum(parts) % 4
        signs[(*parts, power % 2)] = -1.0 if power >= 2 else 1.0
    return signs.to(like.device)


def _new_gradient(tensor: Tensor, own: bool) -> Tensor:
    """Room for a gradient that each slice writes a part of its own of, or (in fp32) adds to."""
    if own:
        return torch.empty_like(tensor, memory_format=torch.contiguous_format)
    dtype = torch.promote_types(tensor.dtype, torch.float32)
    return torch.zeros_like(tensor, dtype=dtype, memory_format=torch.contiguous_format)


def _wide(gradient: Tensor) -> Tensor:
    """A copy to add to, at least in fp32: autograd may hand out one tensor twice."""
    return gradient.to(torch.promote_types(gradient.dtype, torch.float32), copy=True)


def _check_shapes(plan: ContractionPlan, operands: Sequence[Tensor]) -> None:
    found = tuple(tuple(nominal(n) for n in (*t.shape[:-2], *t.shape[-1:])) for t in operands)
    if found != plan.shapes or any(t.shape[-2] != 2 for t in operands):
        raise ValueError(f"operands of sizes {found} (without the pair axis) do not fit the plan's {plan.shapes}")
