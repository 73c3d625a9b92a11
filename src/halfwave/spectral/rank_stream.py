"""A sum over ranks as one streamed step with derivatives of its own: y = ((x A) ∘ M) B, tile by tile in a cache.

A tile has some modes with all of their samples, as rows, and some ranks. Its numbers are complex ones, interleaved: a
real matrix product with blocks of A makes them, one pass multiplies them by M, which is made from the factors of the
modes for this tile alone, and a second product adds them to the result. The backward pass makes x A again (tiles are
never kept) and nothing else twice:

    S = (x A) ∘ M,   H = g B^H,   ∂B = S^H g,   ∂M = Σ_b H ∘ conj(x A),   ∂x = (H ∘ conj M) A^H,   ∂A = x^H (H ∘ conj M)

It works with conj H, which other signs in the blocks of B make: no tile is ever conjugated.
Sums over tiles run in at least fp32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import mul

import torch
from torch import Tensor

from halfwave.numerics import Arithmetic, at_least_fp32
from halfwave.spectral import pairs
from halfwave.spectral.plan import ContractionPlan
from halfwave.spectral.rank_sum import RankSum
from halfwave.spectral.streaming import Window, cut, windows

Formats = tuple[Arithmetic, Arithmetic]


def contract_ranks(plan: ContractionPlan, formats: Formats, operands: Sequence[Tensor], out: Tensor) -> None:
    """The contraction into `out`; both it and the data have their pair axis before the last index."""
    stream = _Stream.of(plan, formats, operands)
    tiles = [_Tile.of(stream, part) for part in stream.rank_parts()]
    for window in stream.row_windows():
        x = stream.rows(operands[0], plan.inputs[0], window)
        target = cut(out, plan.output, window)
        y = _zeros(x, (len(x), 2 * target.shape[-1]))
        for tile in tiles:
            tile.contract(x, window, y)
        formats[0].store_into(target, y.view(target.shape))


def differentiate_ranks(
    plan: ContractionPlan, formats: Formats, operands: Sequence[Tensor], needs: Sequence[bool], grad: Tensor
) -> list[Tensor | None]:
    """The gradients of the operands from that of the result; all have their pair axis before the last index."""
    stream = _Stream.of(plan, formats, operands)
    sums = [_Sums.of(_Tile.of(stream, part), needs) for part in stream.rank_parts()]
    grad_x = torch.empty_like(operands[0], memory_format=torch.contiguous_format) if needs[0] else None
    for window in stream.row_windows():
        x, g = stream.rows(operands[0], plan.inputs[0], window), stream.rows(grad, plan.output, window)
        total = None if grad_x is None else _zeros(x, x.shape)
        for each in sums:
            each.add(x, g, window, total)
        if grad_x is not None and total is not None:
            target = cut(grad_x, plan.inputs[0], window)
            target.copy_(total.view(target.shape))
    factors = stream.gradients(sums)
    return [grad_x, *(factors[n].to(operands[n].dtype) if needs[n] else None for n in range(1, len(operands)))]


@dataclass(frozen=True)
class _Stream:
    """One contraction: its plan, its arithmetic, and its factors as complex numbers, aligned to what they multiply."""

    plan: ContractionPlan
    formats: Formats
    found: RankSum
    factors: dict[int, Tensor]

    @classmethod
    def of(cls, plan: ContractionPlan, formats: Formats, operands: Sequence[Tensor]) -> _Stream:
        found = plan.rank_sum
        assert found is not None
        axes = {plan.inputs[0][-1]: found.into, found.rows: found.modes, plan.output[-1]: found.out_of}
        factors = {}
        for before, group in axes.items():
            for n in group:
                indices = plan.inputs[n]
                complex_factor = pairs.to_complex(operands[n], pairs.with_pair(indices))
                factors[n] = pairs.aligned(complex_factor, indices, before + found.rank)
        return cls(plan, formats, found, factors)

    def row_windows(self) -> Iterator[Window]:
        return windows(self.plan.slices[:-1], dict(self.plan.sizes))

    def rank_parts(self) -> list[slice]:
        return [window[self.found.rank] for window in windows(self.plan.slices[-1:], dict(self.plan.sizes))]

    def rows(self, tensor: Tensor, indices: str, window: Window) -> Tensor:
        """(rows, 2C): a window of data or of a gradient, loaded once for all ranks."""
        part = cut(tensor, indices, window)
        loaded = part.new_empty(part.shape, dtype=self.formats[0].compute)
        return self.formats[0].load_into(loaded, part).flatten(0, -3).flatten(1)

    def rounded(self, factor: Tensor) -> Tensor:
        """A product of factors in the format of the weights, as complex numbers again."""
        loaded = at_least_fp32(self.formats[1].load(torch.view_as_real(factor)))
        return torch.view_as_complex(loaded.to(torch.promote_types(loaded.dtype, self.formats[0].compute)))

    def gradients(self, sums: Sequence[_Sums]) -> dict[int, Tensor]:
        """Of every factor, as pairs, from the sums of all tiles."""
        found: dict[int, list[Tensor]] = {}
        for each in sums:
            for n, gradient in each.gradients():
                found.setdefault(n, []).append(gradient)
        return {n: self._as_operand(n, torch.cat(parts, dim=-1)) for n, parts in found.items()}

    def _as_operand(self, n: int, conjugate: Tensor) -> Tensor:
        """A factor's gradient, conjugated and aligned, in the layout of the operand."""
        shape = [dict(self.plan.sizes)[i] for i in self.plan.inputs[n]]
        return torch.view_as_real(conjugate.conj_physical().reshape(shape)).movedim(-1, -2)


@dataclass(frozen=True)
class _Tile:
    """Some ranks of all factors: A and B rounded, as real blocks, and the factors of the modes as they are.

    `into` (2C, 2r) multiplies rows [re | im], `out_of` (2r, 2O) makes them; `into_back` and `out_back` are the same
    for conjugated tiles.
    """

    stream: _Stream
    part: slice
    into: Tensor
    out_of: Tensor
    into_back: Tensor
    out_back: Tensor
    modes: tuple[Tensor, ...]

    @classmethod
    def of(cls, stream: _Stream, part: slice) -> _Tile:
        found, compute = stream.found, stream.formats[0].compute
        a, b = (stream.rounded(_product(stream.factors, group, part)) for group in (found.into, found.out_of))
        rows = torch.stack((a, 1j * a))
        return cls(
            stream=stream,
            part=part,
            into=_into(rows).to(compute),
            out_of=_out_of(torch.stack((b, 1j * b))).to(compute),
            into_back=_into(rows.conj_physical()).to(compute),
            out_back=_out_of(torch.stack((b, -1j * b))).to(compute),
            modes=tuple(stream.factors[n][..., part].contiguous() for n in found.modes),
        )

    def contract(self, x: Tensor, window: Window, y: Tensor) -> None:
        """Add what these ranks make of the rows to `y`."""
        p = self.numbers(x, self.into, window)
        self.add_product(y, self.real(self.settled(p.mul_(self.mode_factor(window)))), self.out_of)

    def add_product(self, total: Tensor, left: Tensor, right: Tensor) -> None:
        """total += left right: inside the product where that is one, and as wide as the sum."""
        arith = self.stream.formats[0]
        if total.dtype is left.dtype and arith.format.parts == 1:
            total.addmm_(left, right)
        else:
            total += arith.multiply(torch.mm, left, right)

    def numbers(self, rows: Tensor, blocks: Tensor, window: Window) -> Tensor:
        """rows times blocks as complex numbers, (*rows, r), in at least fp32."""
        arith = self.stream.formats[0]
        made = at_least_fp32(arith.settle(arith.multiply(torch.mm, rows, blocks)))
        sizes = dict(self.stream.plan.sizes)
        shape = [_length(window, i, sizes[i]) for i in self.stream.found.rows]
        return torch.view_as_complex(made.view(*shape, -1, 2))

    def settled(self, numbers: Tensor) -> Tensor:
        return torch.view_as_complex(self.stream.formats[0].settle(torch.view_as_real(numbers)))

    def real(self, numbers: Tensor) -> Tensor:
        """(*rows, r) as an operand of a product, (rows, 2r)."""
        return torch.view_as_real(numbers).flatten(-2).flatten(0, -2).to(self.into.dtype)

    def mode_factor(self, window: Window) -> Tensor:
        """M, a number for the modes of every row and every rank."""
        return self.stream.rounded(reduce(mul, self.mode_parts(window)))

    def mode_parts(self, window: Window) -> list[Tensor]:
        return [factor[self.places(factor, window)] for factor in self.modes]

    def places(self, factor: Tensor, window: Window) -> tuple[slice, ...]:
        """Where the modes of a window stand in a factor; an axis that it lacks has length one."""
        named = zip(self.stream.found.rows, factor.shape, strict=False)
        return tuple(window.get(i, slice(None)) if size > 1 else slice(None) for i, size in named)


@dataclass(frozen=True)
class _Sums:
    """Sums of the gradients of a tile's factors over the windows; None where none is wanted."""

    tile: _Tile
    into: Tensor | None
    out_of: Tensor | None
    modes: tuple[Tensor, ...] = field(default=())

    @classmethod
    def of(cls, tile: _Tile, needs: Sequence[bool]) -> _Sums:
        found = tile.stream.found
        needed = [any(needs[n] for n in group) for group in (found.into, found.out_of, found.modes)]
        return cls(
            tile,
            _zeros(tile.into, tile.into.shape) if needed[0] else None,
            _zeros(tile.out_of, tile.out_of.shape) if needed[1] else None,
            tuple(map(torch.zeros_like, tile.modes)) if needed[2] else (),
        )

    def add(self, x: Tensor, g: Tensor, window: Window, grad_x: Tensor | None) -> None:
        """What the rows of a window add to the sums, and these ranks to the gradient of the rows."""
        tile = self.tile
        modes = tile.mode_factor(window)
        p = tile.numbers(x, tile.into, window)
        if self.out_of is not None:
            tile.add_product(self.out_of, tile.real(tile.settled(p * modes)).t(), g)
        h = tile.numbers(g, tile.out_back.t(), window)
        if self.modes:
            self._add_modes(p.mul_(h), modes, window)
        conjugate = tile.real(h.mul_(modes))
        if grad_x is not None:
            tile.add_product(grad_x, conjugate, tile.into_back.t())
        if self.into is not None:
            tile.add_product(self.into, x.t(), conjugate)

    def _add_modes(self, numbers: Tensor, modes: Tensor, window: Window) -> None:
        absent = [axis for axis, size in enumerate(modes.shape) if size < numbers.shape[axis]]
        real = torch.view_as_real(numbers)
        conjugate = torch.view_as_complex(real.sum(absent, keepdim=True) if absent else real)
        parts = self.tile.mode_parts(window)
        for total, found in zip(self.modes, _factor_gradients(conjugate, parts), strict=True):
            total[self.tile.places(total, window)] += found

    def gradients(self) -> Iterator[tuple[int, Tensor]]:
        """Conjugated gradients of these ranks of each factor, by its number."""
        stream, part = self.tile.stream, self.tile.part
        found, factors = stream.found, stream.factors
        yield from zip(found.modes, self.modes, strict=False)
        if self.into is not None:
            re, im = torch.view_as_complex(self.into.view(2, -1, self.into.shape[1] // 2, 2))
            yield from _of_group(re + 1j * im, factors, found.into, part)
        if self.out_of is not None:
            ranks = self.out_of.view(-1, 2, 2, self.out_of.shape[1] // 2).permute(1, 3, 0, 2)
            re, im = torch.view_as_complex(ranks.contiguous())
            yield from _of_group((re - 1j * im).conj_physical(), factors, found.out_of, part)


def _of_group(
    conjugate: Tensor, factors: dict[int, Tensor], group: tuple[int, ...], part: slice
) -> Iterator[tuple[int, Tensor]]:
    return zip(group, _factor_gradients(conjugate, [factors[n][..., part] for n in group]), strict=True)


def _factor_gradients(conjugate: Tensor, factors: Sequence[Tensor]) -> list[Tensor]:
    """Of each factor of a product, conjugated: that of the product times the others, summed over axes it lacks."""
    found = []
    for n, factor in enumerate(factors):
        others = [f for m, f in enumerate(factors) if m != n]
        found.append(reduce(mul, others, conjugate).sum_to_size(factor.shape))
    return found


def _product(factors: dict[int, Tensor], group: tuple[int, ...], part: slice) -> Tensor:
    return reduce(mul, (factors[n][..., part] for n in group))


def _into(rows: Tensor) -> Tensor:
    """(2, C, r) complex, A and i A, to (2C, 2r)."""
    return torch.view_as_real(rows).flatten(2).flatten(0, 1)


def _out_of(columns: Tensor) -> Tensor:
    """(2, O, r) complex, B and i B, to (2r, 2O)."""
    return torch.view_as_real(columns).permute(2, 0, 3, 1).flatten(0, 1).flatten(1)


def _zeros(like: Tensor, shape: Sequence[int]) -> Tensor:
    return like.new_zeros(shape, dtype=torch.promote_types(like.dtype, torch.float32))


def _length(window: Window, index: str, size: int) -> int:
    part = window.get(index)
    return size if part is None else part.stop - part.start
