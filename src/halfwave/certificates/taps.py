"""Taps: the places at which a model rounds, found by running it once in float64 with an arithmetic that watches.

Every layer computes by an `Arithmetic`: it loads operands, multiplies, settles and stores. A `TappedArithmetic` is that
of float64, and each such call puts a tap on the value z that passes: an identity whose derivative is the sensitivity
g = ∂(answer)/∂z. Which taps round, and to which format, a policy says later (`roundings`); what they need for that is
kept here: a histogram of Σ g² over the binades of z, the largest |z|, and for what is known exactly beforehand
(weights, transform matrices, inputs) the sums with the rounding errors themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from halfwave.numerics import FORMATS, Arithmetic, round_to

Kind = Literal["load", "settle", "store", "product", "cast", "matrix", "legendre"]

LOWEST, BINADES = -160, 320
"""Binades 2^e of the histograms, e from LOWEST on; the first holds zeros too, which no format rounds."""
KNOWN_FORMATS = ("bf16", "fp16", "fp8_e4m3", "fp8_e5m2")
"""Formats whose rounding errors of known values are summed as they are."""
_LOOKED_AT = 1 << 16
_STRIDES = (1, 3, 7, 17, 37, 79, 163, 331, 673, 1361)
_UPPER = 3 if sys.byteorder == "little" else 0  # of the four parts of a float64, that with sign and exponent


@dataclass(frozen=True)
class RoundingPoint:
    """A value that some policy rounds.

    Attributes:
        module, role: the layer, and the role of its policy that says the format.
        kind: what the arithmetic did: loaded an operand, stored a result, settled one inside a fused step, ...
        known: whether the value follows from weights and inputs without any rounding before.
        after: numbers of the points that this value went through just before, unchanged since (moved, cut or scaled by
            powers of two at most); empty for a value that was computed in between.
    """

    module: str
    role: str
    kind: Kind
    known: bool
    after: tuple[int, ...]


@dataclass(frozen=True)
class KnownErrors:
    """δ of a value that is known beforehand, (formats, numbers), and their squares, which every probe needs."""

    errors: Tensor
    squares: Tensor


Constants = dict[tuple[Any, ...], tuple[Tensor, KnownErrors]]


@dataclass
class Tape:
    """What the taps of one sample's run saw.

    Attributes:
        points: in the order of the run.
        squares: of each point, Σ g² by the binade of z, summed over probes.
        largest: of each point, max |z|.
        sizes: of each point, how many numbers it is.
        aligned: of each known point, a row for each probe: Σ g δ with δ = q(z) - z in every known format, native (or
            emulated) and then wide.
        spread: of each known point, Σ g² δ² in the same order, summed over probes.
        constants: known values with their errors, which the tapes of several samples share.
        answer: what the model answered.
    """

    points: list[RoundingPoint] = field(default_factory=list)
    squares: list[Tensor] = field(default_factory=list)
    largest: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    aligned: list[list[Tensor]] = field(default_factory=list)
    spread: list[Tensor] = field(default_factory=list)
    constants: Constants = field(default_factory=dict)
    answer: Tensor = field(default_factory=lambda: torch.empty(0))

    def tap(self, value: Tensor, module: str, role: str, kind: Kind, scale: float) -> Tensor:
        """The value itself, watched; of a spectrum that a bias was added to, the coefficients that it changed."""
        known = not value.requires_grad
        part = getattr(value.grad_fn, "where", ()) if kind == "cast" else ()
        after = () if known or part else _origins(value.grad_fn)
        self.points.append(RoundingPoint(module, role, kind, known, after))
        self.squares.append(torch.zeros(BINADES, dtype=torch.float64))
        seen = value.detach()[part]
        self.sizes.append(seen.numel())
        self.largest.append(float(torch.linalg.vector_norm(seen, torch.inf)) if seen.numel() else 0.0)
        self.aligned.append([])
        self.spread.append(torch.zeros(2 * len(KNOWN_FORMATS), dtype=torch.float64))
        entry = value.detach().requires_grad_() if known else value
        errors = self._errors_of(value, scale) if known else None
        tapped: Tensor = _Tap.apply(entry, self, len(self.points) - 1, errors, part)
        return tapped

    def _errors_of(self, value: Tensor, scale: float) -> KnownErrors:
        """Those of weights and matrices are the same for every sample, and are kept under their place in memory."""
        key = value.data_ptr(), value.shape, value.stride()
        if key not in self.constants:
            errors = _errors(value, scale)
            self.constants[key] = value, KnownErrors(errors, errors.square())
        return self.constants[key][1]

    def add(self, number: int, binades: Tensor, known: KnownErrors | None, grad: Tensor) -> None:
        """One probe's gradient at a point."""
        flat = grad.flatten()
        seen = flat[:: stride_of(flat.numel())]
        scale = flat.numel() / max(1, seen.numel())
        self.squares[number] += scale * torch.bincount(binades, seen.square(), BINADES).cpu()
        if known is not None:
            single = flat.float()
            aligned, spread = known.errors @ single, known.squares @ single.square()
            ways = self.spread[number].numel() // len(known.errors)
            self.aligned[number].append(aligned.double().cpu().repeat(ways))
            self.spread[number] += spread.double().cpu().repeat(ways)


_TAPE: ContextVar[Tape | None] = ContextVar("halfwave_tape", default=None)


@contextmanager
def recording(constants: Constants) -> Iterator[Tape]:
    """Within, tapped arithmetic writes to the tape that is yielded."""
    tape = Tape(constants=constants)
    token = _TAPE.set(tape)
    try:
        yield tape
    finally:
        _TAPE.reset(token)


@dataclass(frozen=True)
class TappedArithmetic(Arithmetic):
    """float64 of one role of one layer; equal ones share the cached plans and matrices, so it holds no tape."""

    module: str = ""
    role: str = ""

    def load(self, x: Tensor) -> Tensor:
        return self._tapped(x.double(), "load")

    def store(self, x: Tensor) -> Tensor:
        return self._tapped(x, "store")

    def settle(self, x: Tensor) -> Tensor:
        return self._tapped(x, "settle")

    def product(self, x: Tensor) -> Tensor:
        return self._tapped(x, "product")

    def cast(self, x: Tensor) -> Tensor:
        return self._tapped(x, "cast")

    def matrix(self, constant: Tensor, scale: float = 1.0) -> Tensor:
        # Those of the longitudes and of Fourier transforms are (N, 2K) or (2K, 2N); Legendre's have orders as well.
        return self._tapped(constant, "matrix" if constant.ndim == 2 else "legendre", scale)

    def _tapped(self, x: Tensor, kind: Kind, scale: float = 1.0) -> Tensor:
        tape = _TAPE.get()
        return x if tape is None else tape.tap(x, self.module, self.role, kind, scale)


Part = tuple[int | slice, ...]


class _Tap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, tape: Tape, number: int, errors: KnownErrors | None, part: Part) -> Tensor:
        # Binades now: a bias may be added in the same memory later.
        ctx.binades, ctx.tape, ctx.number, ctx.errors, ctx.part = _binades(value[part]), tape, number, errors, part
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None, None]:
        ctx.tape.add(ctx.number, ctx.binades, ctx.errors, grad[ctx.part])
        return None if ctx.tape.points[ctx.number].known else grad, None, None, None, None


def _errors(value: Tensor, scale: float) -> Tensor:
    """δ = q(z) - z in each of the known formats (formats, numbers); what overflows is told by the largest value.

    Where z has a scale, q(z / scale) scale - z follows for each, which is what wide arithmetic makes of it.
    """
    single = value.detach().flatten().float()
    errors = [round_to(single, FORMATS[name]) - single for name in KNOWN_FORMATS]
    if scale != 1.0:
        entries = single / scale
        errors += [scale * (round_to(entries, FORMATS[name]) - entries) for name in KNOWN_FORMATS]
    return torch.stack(errors).nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)


def stride_of(numbers: int) -> int:
    """Of large tensors every n-th number is looked at, n a prime that no axis divides as a power of two would."""
    return next((step for step in _STRIDES if numbers <= step * _LOOKED_AT), _STRIDES[-1])


def _binades(value: Tensor) -> Tensor:
    """The exponent of each float64 that is looked at, counted from LOWEST, flat."""
    seen = value.flatten()[:: stride_of(value.numel())].contiguous()
    upper = seen.view(torch.int16)[_UPPER::4]
    return ((upper >> 4) & 0x7FF).sub_(1023 + LOWEST).clamp_(0, BINADES - 1)


# Nodes of autograd that move, cut or repeat numbers, and change no digit of them.
_MOVES = frozenset(
    (
        *("View", "UnsafeView", "ReshapeAlias", "Permute", "Transpose", "T", "Movedim", "Clone", "ToCopy", "Alias"),
        *("AsStrided", "Slice", "Select", "Expand", "Unsqueeze", "Squeeze", "Split", "SplitWithSizes", "Unbind"),
        *("Narrow", "Index", "IndexSelect", "Gather", "Flip", "Repeat", "ConstantPadNd", "ReplicationPad2D"),
        *("ReplicationPad3D", "MaxPool2DWithIndices", "Neg", "ViewAsReal", "ViewAsComplex", "_AddAt", "IndexCopy"),
    )
)
_JOINS = frozenset(("Cat", "Stack"))


def _origins(node: Any) -> tuple[int, ...]:
    """The taps that a value comes from by moves alone; empty where something was computed on the way."""
    found = _trace(node)
    return () if found is None else tuple(sorted(found))


def _trace(node: Any) -> set[int] | None:
    if node is None:
        return None
    if isinstance(getattr(node, "tape", None), Tape):
        # What one coefficient was rounded to, the others are in already.
        return _trace(node.next_functions[0][0]) if node.part else {node.number}
    name = node.name().removesuffix("0").removesuffix("Backward")
    above = [n for n, _ in node.next_functions]
    if name in _JOINS:
        parts = [_trace(n) for n in above]
        return None if any(p is None for p in parts) else set().union(*(p for p in parts if p is not None))
    if name in _MOVES or (name == "Mul" and _by_powers_of_two(node)):
        return _trace(next((n for n in above if n is not None), None))
    return None


def _by_powers_of_two(node: Any) -> bool:
    """Whether a product is with constants that are powers of two."""
    factor = node._saved_other if node.next_functions[1][0] is None else None
    return factor is not None and bool((torch.frexp(factor).mantissa.abs() == 0.5).all())
