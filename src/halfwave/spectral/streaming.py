"""Streaming a contraction: cut it into slices along indices that data and result share, so that temporaries stay small.

A slice of the result needs that slice of the data, and of the weights that have the index; what is made from weights
without the index alone is made once, before the first slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import TYPE_CHECKING

from torch import Tensor

from halfwave.spectral.pairs import with_pair
from halfwave.spectral.paths import size_of

if TYPE_CHECKING:
    from halfwave.spectral.plan import ContractionStep

# (index, length of a slice along it), outermost first.
Slices = tuple[tuple[str, int], ...]
# What one slice has of each index that is cut.
Window = dict[str, slice]

# What a slice takes in the backward pass, in units of what its steps read and write in the forward pass: the tensors
# that autograd keeps, their gradients, and a copy of one of each on the way, with a margin.
_BACKWARD = 3
# The same for what is made once: loaded (1), expanded to blocks (2), their gradient, its running sum (2 each), and the
# way back through the expansion (1).
_ONCE = 8
# Bytes of a number in the widest format of a step: half-precision products may run in fp32.
_WIDE = 4
# Slices that would repeat more than this share of the work are not made for the sake of a cache.
_REPEATED = 1.25


@dataclass(frozen=True)
class StreamOrder:
    """Which tensors differ from slice to slice (data, what has a sliced index, all made from them), which do not.

    Attributes:
        changing, data: numbers of the tensors that differ, and that hold data.
        once, every: steps that run before the first slice, and those of each slice, with the number of their result.
        fixed_operands, sliced_operands: numbers of the operands of either kind.
    """

    changing: tuple[int, ...]
    data: tuple[int, ...]
    once: tuple[tuple[int, ContractionStep], ...]
    every: tuple[tuple[int, ContractionStep], ...]
    fixed_operands: tuple[int, ...]
    sliced_operands: tuple[int, ...]


def stream_order(steps: tuple[ContractionStep, ...], inputs: tuple[str, ...], slices: Slices) -> StreamOrder:
    """What runs once and what in every slice."""
    cut = {index for index, _ in slices}
    # Option A has one operand more, its signs.
    numbered = list(enumerate(steps, start=len(inputs) + (steps[0].kind == "real")))
    changing = {n for n, subscripts in enumerate(inputs) if n == 0 or cut & set(subscripts)}
    for n, step in numbered:
        if step.left in changing or step.right in changing:
            changing.add(n)
    return StreamOrder(
        changing=tuple(sorted(changing)),
        data=(0, *(n for n, step in numbered if step.data)),
        once=tuple((n, s) for n, s in numbered if n not in changing),
        every=tuple((n, s) for n, s in numbered if n in changing),
        fixed_operands=tuple(n for n in range(len(inputs)) if n not in changing),
        sliced_operands=tuple(n for n in range(len(inputs)) if n in changing),
    )


def windows(slices: Slices, sizes: Mapping[str, int]) -> Iterator[Window]:
    """The slices one after the other, as {index: slice}; one empty window where nothing is cut."""
    ranges = [
        [slice(start, min(start + length, sizes[index])) for start in range(0, sizes[index], length)]
        for index, length in slices
    ]
    for parts in product(*ranges):
        yield {index: part for (index, _), part in zip(slices, parts, strict=True)}


def cut(tensor: Tensor, indices: str, window: Window) -> Tensor:
    """The part of a pair tensor that belongs to a window."""
    return tensor[tuple(window.get(i, slice(None)) for i in with_pair(indices))] if window else tensor


def choose_slices(
    steps: tuple[ContractionStep, ...],
    inputs: tuple[str, ...],
    output: str,
    sizes: Mapping[str, int],
    memory_limit: int | None,
    slice_bytes: int | None,
    itemsize: int,
) -> Slices:
    """The coarsest slices that hold both bounds: along one index as far as it goes, then along the next."""
    if memory_limit is None and slice_bytes is None:
        return ()

    def fits(slices: Slices) -> bool:
        return (slice_bytes is None or working_bytes(slices) <= slice_bytes) and holds(slices)

    def working_bytes(slices: Slices) -> int:
        # Without slices all that weights make is made once: not counting it would hide a whole dense weight.
        return temporary_bytes(steps, inputs, sizes, slices, itemsize) + once_bytes(
            steps, inputs, sizes, slices, itemsize
        )

    def holds(slices: Slices) -> bool:
        return memory_limit is None or bound_bytes(steps, inputs, output, sizes, slices) <= memory_limit

    done: Slices = ()
    for index in (i for i in inputs[0] if i in output):
        if fits(done):
            return done
        if holds(done) and repeated_work(steps, inputs, sizes, (*done, (index, 1))) > _REPEATED:
            continue  # a small slice is a wish, the limit is not
        done = (*done, (index, 1))
        for length in range(sizes[index] - 1, 1, -1):
            if fits((*done[:-1], (index, length))):
                return (*done[:-1], (index, length))
    if not holds(done):
        needed = bound_bytes(steps, inputs, output, sizes, done)
        raise ValueError(f"memory_limit of {memory_limit} bytes cannot be held: the finest slices need {needed}")
    return done


def repeated_work(
    steps: tuple[ContractionStep, ...], inputs: tuple[str, ...], sizes: Mapping[str, int], slices: Slices
) -> float:
    """Work of all slices relative to that of one piece: steps without a sliced index run again in each slice."""
    part = _part_sizes(steps, sizes, slices)
    cut = {index for index, _ in slices}
    count = prod(ceil(sizes[index] / length) for index, length in slices)
    once = sum(step.inner for step in steps)
    order = stream_order(steps, inputs, slices)
    fixed = sum(step.inner for _, step in order.once)
    per_slice = 0.0
    for _, step in order.every:
        present = cut & set(step.left_subscripts + step.right_subscripts)
        per_slice += step.inner * prod(part[i] / sizes[i] for i in present)
    return (fixed + count * per_slice) / once


def temporary_bytes(
    steps: tuple[ContractionStep, ...], inputs: tuple[str, ...], sizes: Mapping[str, int], slices: Slices, itemsize: int
) -> int:
    """What the steps of one slice read and write in the forward pass; right operands are expanded to twice as much."""
    order = stream_order(steps, inputs, slices)
    part = _part_sizes(steps, sizes, slices)
    total = 0
    for _, step in order.every:
        total += size_of(step.left_subscripts, part) if step.left in order.changing else 0
        total += 2 * size_of(step.right_subscripts, part) if step.right in order.changing else 0
        total += size_of(step.subscripts, part)
    return total * itemsize


def once_bytes(
    steps: tuple[ContractionStep, ...], inputs: tuple[str, ...], sizes: Mapping[str, int], slices: Slices, itemsize: int
) -> int:
    """What is made from weights before the first slice and stays until the last."""
    part = _part_sizes(steps, sizes, ())
    return itemsize * sum(size_of(step.subscripts, part) for _, step in stream_order(steps, inputs, slices).once)


def bound_bytes(
    steps: tuple[ContractionStep, ...], inputs: tuple[str, ...], output: str, sizes: Mapping[str, int], slices: Slices
) -> int:
    """An upper bound of all that is alive in forward and backward pass: fp32 operands and gradients included."""
    order = stream_order(steps, inputs, slices)
    part = _part_sizes(steps, sizes, ())
    data, *weights = (2 * size_of(s, sizes) for s in inputs)
    # The data come in fp32 and are kept in the format; both have gradients, and so has the result.
    fixed = 3 * data + 2 * sum(weights) + 2 * 2 * size_of(output, sizes)
    once = sum(size_of(step.subscripts, part) for _, step in order.once)
    for step in steps:
        once += size_of(step.left_subscripts, part) if step.left not in order.changing else 0
        once += size_of(step.right_subscripts, part) if step.right not in order.changing else 0
    return (fixed + _ONCE * once) * _WIDE + _BACKWARD * temporary_bytes(steps, inputs, sizes, slices, _WIDE)


def _part_sizes(steps: tuple[ContractionStep, ...], sizes: Mapping[str, int], slices: Slices) -> dict[str, int]:
    """Sizes of the indices in one slice; every pair axis has two entries."""
    axes = {i for step in steps for i in step.left_subscripts + step.right_subscripts + step.subscripts}
    return {i: 2 for i in axes if i.isupper()} | dict(sizes) | dict(slices)
