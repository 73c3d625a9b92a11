"""Taps: the places at which a model rounds, found by running it once in float64 with an arithmetic that watches.

Every layer computes by an `Arithmetic`: it loads operands, multiplies, settles and stores. A `TappedArithmetic` is that
of float64, and each such call puts a tap on the value z that passes: an identity whose derivative is the sensitivity
g = ∂(answer)/∂z. Which taps round, and to which format, a policy says later (`roundings`); what they need for that is
kept here: a histogram of Σ g² over the binades of z, the largest |z|, and for what is known exactly beforehand
(weights, transform matrices, inputs) the sums with the rounding errors themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Literal

import torch
from torch import Tensor

from halfwave.certificates.origins import mark, origins
from halfwave.numerics import FORMATS, Arithmetic

Kind = Literal["load", "settle", "store", "product", "cast", "matrix", "legendre"]

LOWEST, BINADES = -160, 320
"""Binades 2^e of the histograms, e from LOWEST on; the first holds zeros too, which no format rounds."""
KNOWN_FORMATS = ("bf16", "fp16", "fp8_e4m3", "fp8_e5m2")
"""Formats whose rounding errors of known values are summed as they are."""
_LOOKED_AT = 1 << 13
_STRIDES = (1, 3, 7, 17, 37, 79, 163, 331, 673, 1361)
_EXPONENTS = 1 << 11  # of float64
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


Part = tuple[int | slice, ...]


@dataclass(frozen=True)
class Known:
    """A value that is known beforehand, and what every sample and probe needs of it: its errors (formats, numbers)."""

    value: Tensor
    exponents: Tensor
    largest: Tensor
    errors: Tensor
    squares: Tensor


Constants = dict[tuple[Any, ...], Known]


@dataclass(frozen=True)
class _Seen:
    """A value as it passed: the exponents that are looked at, its largest modulus, and its errors where known."""

    exponents: Tensor
    largest: Tensor
    size: int
    known: Known | None


@dataclass
class Tape:
    """What the taps of one sample's run saw.

    A model has hundreds of taps, most of them on small tensors: what can wait until the run is over is done for all of
    them at once (`squares`), so that a certificate costs little more than the passes themselves.

    Attributes:
        probes: how many backward passes will follow the run.
        points: in the order of the run.
        constants: known values with their errors, which the tapes of several samples share.
        answer: what the model answered.
    """

    probes: int
    points: list[RoundingPoint] = field(default_factory=list)
    constants: Constants = field(default_factory=dict)
    answer: Tensor = field(default_factory=lambda: torch.empty(0))
    _seen: list[_Seen] = field(default_factory=list)
    _leaves: dict[int, Tensor] = field(default_factory=dict)
    _g_squared: dict[int, Tensor] = field(default_factory=dict)
    _aligned: dict[int, list[Tensor]] = field(default_factory=dict)
    _spread: dict[int, list[Tensor]] = field(default_factory=dict)

    def tap(self, value: Tensor, module: str, role: str, kind: Kind, scale: float) -> Tensor:
        """The value itself, watched; of a spectrum that a bias was added to, the coefficients that it changed."""
        known = not value.requires_grad
        part: Part = getattr(value.grad_fn, "where", ()) if kind == "cast" else ()
        after = () if known or part else origins(value.grad_fn)
        number = len(self.points)
        self.points.append(RoundingPoint(module, role, kind, known, after))
        if known:
            self._leaves[number] = value = value.detach().requires_grad_()
            constant = self._constant(value.detach(), scale)
            self._seen.append(_Seen(constant.exponents, constant.largest, value.numel(), constant))
        else:
            # Now: a bias may be added in the same memory later.
            seen = value.detach()[part] if part else value.detach()
            self._seen.append(_Seen(_exponents(seen), _largest(seen), seen.numel(), None))
        tapped = value.view_as(value)
        mark(tapped, number, bool(part))
        if not known:
            tapped.register_hook(partial(self._watch, number, part))
        return tapped

    def differentiate(self, answer: Tensor, direction: Tensor, last: bool) -> None:
        """One probe: the sensitivities g of every point along a direction of the answer."""
        leaves = list(self._leaves.values())
        found = torch.autograd.grad(answer, leaves, direction, retain_graph=not last, allow_unused=True)
        for number, grad in zip(self._leaves, found, strict=True):
            if grad is not None:
                flat = grad.flatten()
                self._add(number, flat)
                self._add_known(number, flat)

    def _watch(self, number: int, part: Part, grad: Tensor) -> None:
        self._add(number, (grad[part] if part else grad).flatten())

    def _add(self, number: int, flat: Tensor) -> None:
        seen = flat[:: stride_of(len(flat))]
        if number in self._g_squared:
            self._g_squared[number].addcmul_(seen, seen)
        else:
            self._g_squared[number] = seen.square()

    def _add_known(self, number: int, flat: Tensor) -> None:
        known = self._seen[number].known
        assert known is not None
        single = flat.float()
        self._aligned.setdefault(number, []).append(known.errors @ single)
        self._spread.setdefault(number, []).append(known.squares @ single.square())

    def _constant(self, value: Tensor, scale: float) -> Known:
        """Weights and matrices are the same for every sample, and what is known of them is kept by place in memory."""
        key = value.data_ptr(), value.shape, value.stride()
        if key not in self.constants:
            errors = _errors(value, scale)
            self.constants[key] = Known(value, _exponents(value), _largest(value), errors, errors.square())
        return self.constants[key]

    def squares(self) -> Tensor:
        """(points, binades): of each point, the mean over probes of Σ g² by the binade of z."""
        unreached = torch.zeros(_EXPONENTS, dtype=torch.float64, device=self.answer.device)
        rows = {n: torch.bincount(self._seen[n].exponents, g, _EXPONENTS) for n, g in self._g_squared.items()}
        sums = torch.stack([rows.get(number, unreached) for number in range(len(self.points))]).cpu()
        looked_at = torch.tensor([max(1, len(seen.exponents)) for seen in self._seen], dtype=torch.float64)
        return _by_binade(sums) * (self.sizes() / looked_at / self.probes)[:, None]

    def sizes(self) -> Tensor:
        """(points,): how many numbers each is."""
        return torch.tensor([seen.size for seen in self._seen], dtype=torch.float64)

    def largest(self) -> Tensor:
        """(points,): max |z| of each."""
        return torch.stack([seen.largest for seen in self._seen]).double().cpu()

    def aligned(self) -> Tensor:
        """(points, probes, ways): Σ g δ with δ = q(z) - z in every known format, native (or emulated) and then wide."""
        return self._in_all_ways(self._aligned, self.probes)

    def spread(self) -> Tensor:
        """(points, ways): the mean over probes of Σ g² δ², in the same order."""
        return self._in_all_ways(self._spread, self.probes).mean(1)

    def _in_all_ways(self, rows: Mapping[int, list[Tensor]], probes: int) -> Tensor:
        """(points, probes, ways); what has no scale of its own has the same errors in wide arithmetic as in native."""
        formats = len(KNOWN_FORMATS)
        found = torch.zeros((len(self.points), probes, 2, formats), dtype=torch.float64)
        for ways in (1, 2):
            some = [number for number, each in rows.items() if len(each[0]) == ways * formats]
            if some:
                values = torch.stack([row for number in some for row in rows[number]]).double().cpu()
                found[some] = values.view(len(some), probes, ways, formats)
        return found.flatten(-2)


_TAPE: ContextVar[Tape | None] = ContextVar("halfwave_tape", default=None)


@contextmanager
def recording(constants: Constants, probes: int) -> Iterator[Tape]:
    """Within, tapped arithmetic writes to the tape that is yielded."""
    tape = Tape(probes, constants=constants)
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

    def multiply(self, product: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
        # torch.bmm goes matrix by matrix through an operand that no BLAS reads as it lies, forth and back.
        scattered = a.ndim == 3 and len(a) > 1 and 1 not in a.stride()[1:]
        return product(a.contiguous() if scattered else a, b)

    def _tapped(self, x: Tensor, kind: Kind, scale: float = 1.0) -> Tensor:
        tape = _TAPE.get()
        return x if tape is None else tape.tap(x, self.module, self.role, kind, scale)


def _errors(value: Tensor, scale: float) -> Tensor:
    """δ = q(z) - z in each of the known formats (formats, numbers); what overflows is told by the largest value.

    Where z has a scale, q(z / scale) scale - z follows for each, which is what wide arithmetic makes of it.
    """
    single = value.flatten().float()
    errors = [_cast(single, name) - single for name in KNOWN_FORMATS]
    if scale != 1.0:
        entries = single / scale
        errors += [scale * (_cast(entries, name) - entries) for name in KNOWN_FORMATS]
    return torch.stack(errors).nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)


def _cast(single: Tensor, name: str) -> Tensor:
    """By torch's cast alone, which saturates in fp8_e4m3: no gradient passes, and there are hundreds of small ones."""
    dtype = FORMATS[name].dtype
    assert dtype is not None
    return single.to(dtype).float()


@cache
def stride_of(numbers: int) -> int:
    """Of large tensors every n-th number is looked at, n a prime that no axis divides as a power of two would."""
    return next((step for step in _STRIDES if numbers <= step * _LOOKED_AT), _STRIDES[-1])


def _exponents(value: Tensor) -> Tensor:
    """Of each float64 that is looked at its exponent as it is stored, flat."""
    upper = value.flatten().view(torch.int16)[_UPPER :: 4 * stride_of(value.numel())]
    return (upper >> 4).bitwise_and_(_EXPONENTS - 1)


def _by_binade(sums: Tensor) -> Tensor:
    """Sums by stored exponent (points, exponents) as sums by binade; those beyond fall to the first and the last."""
    first, last = 1023 + LOWEST, 1023 + LOWEST + BINADES
    binades = sums[:, first:last].clone()
    binades[:, 0] += sums[:, :first].sum(1)
    binades[:, -1] += sums[:, last:].sum(1)
    return binades


def _largest(value: Tensor) -> Tensor:
    if value.numel() == 0:
        return value.new_zeros(())
    lowest, highest = torch.aminmax(value)
    return torch.maximum(highest, -lowest)
