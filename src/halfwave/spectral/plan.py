"""Plans of complex contractions: in which order, how the complex numbers are handled, what it costs, in what slices.

A contraction such as "klbc,cr,kr,lr,or->klbo" multiplies several complex tensors, the first of which is data and the
others weights. A plan takes them two at a time and says beforehand what every step costs. Options of the paper's
ablation ('Contract and View-as-real Usage'):

- A: view-as-real on all tensors and one real equation, each operand with a pair axis of its own and one more operand
  that holds the signs of i^n (naive: intermediates have a pair axis for every operand that went in).
- B: view-as-real on two tensors at a time, every step on pairs in the given format.
- C: as B, but steps between small factors (at most three indices, no data) run in complex format, which exists in
  full precision only: the factors are then rounded once, after their products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from halfwave.numerics import get_format
from halfwave.spectral.pairs import PAIR, product_order, with_pair
from halfwave.spectral.paths import Path, candidate_paths, data_path, size_of
from halfwave.spectral.plan_text import describe
from halfwave.spectral.rank_sum import RankSum, choose_tiles, find_rank_sum
from halfwave.spectral.streaming import Slices, StreamOrder, choose_slices, stream_order

Objective = Literal["memory", "flops"]
ComplexMode = Literal["A", "B", "C"]
OBJECTIVES = ("memory", "flops")
COMPLEX_MODES = ("A", "B", "C")
StepKind = Literal["product", "scale", "complex", "real"]

LOW_DIMENSION = 3
SIGN_AXIS = "Z"
# Intermediates that never leave the cache are worth some operations.
_HARDLY_MORE = 1.25


@dataclass(frozen=True)
class ContractionStep:
    """Tensors number `left` and `right` (operands first, then results in order) become the next tensor.

    `product` sums indices of pairs, `scale` multiplies entries of pairs, `complex` runs in complex format, `real` is a
    part of option A. `inner` counts the scalar multiply-adds (complex ones but for `real`).
    """

    left: int
    right: int
    left_subscripts: str
    right_subscripts: str
    subscripts: str
    kind: StepKind
    data: bool
    inner: int
    elements: int

    @property
    def equation(self) -> str:
        text = f"{self.left_subscripts},{self.right_subscripts}->{self.subscripts}"
        return text if self.kind == "real" else text.replace(PAIR, "")

    @property
    def flops(self) -> int:
        """Real operations: a complex multiply-add takes 8, a product without a sum 6."""
        return self.inner * {"product": 8, "complex": 8, "scale": 6, "real": 2}[self.kind]


@dataclass(frozen=True)
class ContractionPlan:
    """What `execute` will do, step by step and slice by slice.

    Elements and bytes count complex numbers as pairs in `format`.
    `peak_bytes` is the largest sum of operands, result and live intermediates; with slices, those of one slice.
    Where the steps are a `rank_sum` they run as one, in tiles: `slices` along the rows, and along the rank at last.
    """

    equation: str
    shapes: tuple[tuple[int, ...], ...]
    objective: Objective
    complex_mode: ComplexMode
    format: str
    steps: tuple[ContractionStep, ...]
    slices: Slices
    memory_limit: int | None
    peak_bytes: int
    inputs: tuple[str, ...] = field(repr=False)
    output: str = field(repr=False)
    sizes: tuple[tuple[str, int], ...] = field(repr=False)
    order: StreamOrder = field(repr=False, compare=False)
    rank_sum: RankSum | None = field(default=None, repr=False, compare=False)

    @property
    def flops(self) -> int:
        return sum(step.flops for step in self.steps)

    @property
    def largest_elements(self) -> int:
        """Numbers in the largest intermediate: complex ones, real ones in option A. The result is not one."""
        return max((step.elements for step in self.steps[:-1]), default=0)

    @property
    def largest_bytes(self) -> int:
        per_number = 1 if self.complex_mode == "A" else 2
        return self.largest_elements * per_number * get_format(self.format).storage.itemsize

    def __str__(self) -> str:
        return describe(self)


def plan_contraction(
    equation: str,
    shapes: Sequence[Sequence[int]],
    objective: Objective = "memory",
    complex_mode: ComplexMode = "C",
    memory_limit: int | None = None,
    format: str = "fp32",
    slice_bytes: int | None = None,
) -> ContractionPlan:
    """The plan of a complex contraction, from a cache after the first call.

    Args:
        equation: lower-case indices, such as "klbc,cr,or->klbo"; the first operand is data, the others are weights.
        shapes: the sizes of each operand's indices, without the pair axis.
        objective: ``"memory"`` for the smallest peak, ``"flops"`` for the fewest operations.
        complex_mode: ``"A"``, ``"B"`` or ``"C"`` of the paper.
        memory_limit: bytes that operands, result, their gradients and all temporaries together may take; the
            contraction is cut into slices for it. ValueError where no slicing can hold it.
        format: in which intermediates are stored.
        slice_bytes: cut so finely that the temporaries of one slice take about this many bytes.
    """
    return _plan(equation, tuple(tuple(s) for s in shapes), objective, complex_mode, memory_limit, format, slice_bytes)


def forget_plans() -> None:
    """Empty the cache of `plan_contraction`, so that the next plan is made anew (and its making can be timed)."""
    _plan.cache_clear()


@lru_cache(maxsize=1024)
def _plan(
    equation: str,
    shapes: tuple[tuple[int, ...], ...],
    objective: Objective,
    complex_mode: ComplexMode,
    memory_limit: int | None,
    format: str,
    slice_bytes: int | None,
) -> ContractionPlan:
    _check_choice("objective", objective, OBJECTIVES)
    _check_choice("complex_mode", complex_mode, COMPLEX_MODES)
    itemsize = get_format(format).storage.itemsize
    inputs, output = _parse(equation)
    sizes = _sizes(inputs, shapes)
    best = _best_steps(inputs, output, sizes, objective, complex_mode)
    rank_sum = None
    # Other goals, options and limits are promises about each step of its own.
    if slice_bytes is not None and memory_limit is None and (objective, complex_mode) == ("flops", "C"):
        best, rank_sum = _fused(best, inputs, output, sizes)
        slices = () if rank_sum is None else choose_tiles(rank_sum, sizes, slice_bytes)
    if rank_sum is None:
        slices = choose_slices(best, inputs, output, sizes, memory_limit, slice_bytes, itemsize)
    order = stream_order(best, inputs, slices if rank_sum is None else ())
    peak = _peak_elements(best, inputs, output, sizes, slices) * itemsize
    return ContractionPlan(
        equation=equation,
        shapes=shapes,
        objective=objective,
        complex_mode=complex_mode,
        format=format,
        steps=best,
        slices=slices,
        memory_limit=memory_limit,
        peak_bytes=peak,
        inputs=inputs,
        output=output,
        sizes=tuple(sizes.items()),
        order=order,
        rank_sum=rank_sum,
    )


def _best_steps(
    inputs: tuple[str, ...], output: str, sizes: dict[str, int], objective: Objective, mode: ComplexMode
) -> tuple[ContractionStep, ...]:
    """Of the candidate orders the one with the smallest peak, or with the fewest operations; the other breaks ties.

    Both objectives choose from the same candidates, so the memory plan's peak is never above the FLOP plan's.
    """
    operands, result, all_sizes = inputs, output, sizes
    if mode == "A":
        operands, result, all_sizes = _real_equation(inputs, output, sizes)
    plans = [_steps(path, operands, result, all_sizes, mode) for path in candidate_paths(operands, result, all_sizes)]

    def cost(steps: tuple[ContractionStep, ...]) -> tuple[int, int]:
        peak = _peak_elements(steps, inputs, output, sizes, ())
        flops = sum(step.flops for step in steps)
        return (peak, flops) if objective == "memory" else (flops, peak)

    return min(plans, key=cost)


def _fused(
    best: tuple[ContractionStep, ...], inputs: tuple[str, ...], output: str, sizes: dict[str, int]
) -> tuple[tuple[ContractionStep, ...], RankSum | None]:
    """The steps of a sum over ranks that runs as one, where they take hardly more operations than the best do.

    (They do where a large batch pays for dense weights; opt_einsum's search does not always find them.)
    """
    steps = _steps(data_path(inputs, output), inputs, output, sizes, "C")
    found = find_rank_sum(steps, inputs, output)
    if found is None or sum(step.flops for step in steps) > _HARDLY_MORE * sum(step.flops for step in best):
        return best, None
    return steps, found


def _real_equation(
    inputs: tuple[str, ...], output: str, sizes: dict[str, int]
) -> tuple[tuple[str, ...], str, dict[str, int]]:
    """Option A: operand n gets a pair axis of its own (A, B, ...), and an operand of signs with all of them joins."""
    axes = [chr(ord("A") + n) for n in range(len(inputs))]
    real = [s[:-1] + axis + s[-1] for s, axis in zip(inputs, axes, strict=True)]
    signs = "".join(axes) + SIGN_AXIS
    return (*real, signs), output[:-1] + SIGN_AXIS + output[-1], sizes | dict.fromkeys(signs, 2)


def _steps(
    path: Path, operands: tuple[str, ...], output: str, sizes: Mapping[str, int], mode: ComplexMode
) -> tuple[ContractionStep, ...]:
    pairs = mode != "A"
    live = [(n, with_pair(s) if pairs else s, n == 0) for n, s in enumerate(operands)]
    steps: list[ContractionStep] = []
    for pair in path:
        a, b = (live[i] for i in pair)
        live = [t for i, t in enumerate(live) if i not in pair]
        kept = frozenset(output).union(*(t[1] for t in live)) - {PAIR}
        if _belongs_right(a[1], b[1], operands[0][0], sizes):
            a, b = b, a
        step = _step(a, b, kept, sizes, mode)
        steps.append(step)
        live.append((len(operands) + len(steps) - 1, step.subscripts, step.data))
    return tuple(steps)


def _belongs_right(a: str, b: str, major: str, sizes: Mapping[str, int]) -> bool:
    """True where `a` should be the right operand, which a product expands.

    That is the one without the major index of the data (the first, along which slices are cut): it is expanded once for
    all slices, and the result comes out with that index in front. Otherwise it is the smaller one.
    """
    if (major in a) != (major in b):
        return major in b
    return size_of(_bare(a), sizes) < size_of(_bare(b), sizes)


def _step(
    a: tuple[int, str, bool],
    b: tuple[int, str, bool],
    kept: frozenset[str],
    sizes: Mapping[str, int],
    mode: ComplexMode,
) -> ContractionStep:
    """One step between `a` on the left and `b` on the right."""
    left, right, data = a[1], b[1], a[2] or b[2]
    everything = frozenset(_bare(left + right))
    summed = everything - kept
    plain = "".join(i for i in dict.fromkeys(left + right) if i in kept or (i == PAIR and mode != "A"))
    kind: StepKind = "product" if summed & frozenset(left) & frozenset(right) else "scale"
    subscripts = product_order(left, right, kept) if kind == "product" else plain
    if mode == "A":
        kind, subscripts = "real", plain
    elif mode == "C" and not data and max(map(len, (_bare(left), _bare(right), _bare(plain)))) <= LOW_DIMENSION:
        kind, subscripts = "complex", with_pair(_bare(plain))
    elements = size_of(_bare(subscripts), sizes)
    return ContractionStep(a[0], b[0], left, right, subscripts, kind, data, size_of(everything, sizes), elements)


def _peak_elements(
    steps: tuple[ContractionStep, ...], inputs: tuple[str, ...], output: str, sizes: Mapping[str, int], slices: Slices
) -> int:
    """Real numbers alive at once: operands and result throughout, intermediates until they are used."""
    per_number = 1 if steps[0].kind == "real" else 2
    extra = {SIGN_AXIS: 2} | {chr(ord("A") + n): 2 for n in range(len(inputs))} if per_number == 1 else {}
    part = {**sizes, **extra, **dict(slices)}
    fixed = 2 * (sum(size_of(s, sizes) for s in inputs) + size_of(output, sizes))
    n_operands = len(inputs) + (per_number == 1)
    held: dict[int, int] = {}
    peak = 0
    for n, step in enumerate(steps):
        last = n == len(steps) - 1
        held[n_operands + n] = 0 if last else per_number * size_of(_bare(step.subscripts), part)
        peak = max(peak, sum(held.values()))
        held.pop(step.left, None)
        held.pop(step.right, None)
    return fixed + peak


def _bare(subscripts: str) -> str:
    """Without the pair axis. (Option A's own pair axes are indices like any other: P is never one of them.)"""
    return subscripts.replace(PAIR, "")


def _parse(equation: str) -> tuple[tuple[str, ...], str]:
    left, arrow, output = equation.replace(" ", "").partition("->")
    inputs = tuple(left.split(","))
    letters = "".join(inputs) + output
    repeated = any(len(set(s)) != len(s) for s in (*inputs, output))
    if not arrow or len(inputs) < 2 or not all((*inputs, output)) or repeated or not _lower(letters):
        raise ValueError(
            f"cannot plan {equation!r}: expected at least two operands and a result with lower-case indices, none of "
            f"them twice in one tensor, such as 'klbc,cr,or->klbo'"
        )
    missing = set(output) - set("".join(inputs))
    if missing:
        raise ValueError(f"cannot plan {equation!r}: no operand has the index {min(missing)!r} of the result")
    return inputs, output


def _lower(letters: str) -> bool:
    return letters.isascii() and letters.isalpha() and letters.islower()


def _sizes(inputs: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]) -> dict[str, int]:
    if [len(s) for s in inputs] != [len(s) for s in shapes]:
        raise ValueError(f"shapes {shapes} do not fit the operands {','.join(inputs)}")
    sizes: dict[str, int] = {}
    for subscripts, shape in zip(inputs, shapes, strict=True):
        for index, size in zip(subscripts, shape, strict=True):
            if sizes.setdefault(index, size) != size:
                raise ValueError(f"index {index!r} has both {sizes[index]} and {size} entries in {shapes}")
    return sizes


def _check_choice(label: str, value: str, accepted: tuple[str, ...]) -> None:
    if value not in accepted:
        raise ValueError(f"unknown {label} {value!r}: expected one of {', '.join(accepted)}")
