"""Contractions that are sums over one rank (CP): which operands are what, and tiles of modes and ranks for a cache.

    y(k, b, o) = Σ_r  A(c, r) B(o, r) M(k, r)  x(k, b, c),  summed over c as well

A, B and M are products of operands that have r and at most c, o and modes. Where the cheapest order takes the data
through A, M and B (a large batch pays for dense weights instead), `rank_stream` runs these steps as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from halfwave.spectral.streaming import Slices

if TYPE_CHECKING:
    from halfwave.spectral.plan import ContractionStep

# Bytes of one intermediate of a tile: three of them live at a time, in a core's share of the caches.
TILE_BYTES = 5 << 19
# Ranks of a tile: as many columns as a matrix product needs to be quick.
_TILE_RANKS = 256
# Of `slice_bytes`, for which intermediates, their gradients and what they are made from share the room.
_SHARE = 8
# Of a complex number in fp32, which tiles are computed in.
_NUMBER = 8
_KINDS = ("product", "scale", "product")


@dataclass(frozen=True)
class RankSum:
    """The operands, by number, whose products are A(c, r), M(k, r) and B(o, r); `rows` has x's indices before c."""

    rank: str
    rows: str
    into: tuple[int, ...]
    modes: tuple[int, ...]
    out_of: tuple[int, ...]


def find_rank_sum(steps: tuple[ContractionStep, ...], inputs: tuple[str, ...], output: str) -> RankSum | None:
    """The rank sum that these steps are; None where they are not one."""
    on_data = [(n, step) for n, step in enumerate(steps, start=len(inputs)) if step.data]
    if tuple(step.kind for _, step in on_data) != _KINDS or inputs[0][:-1] != output[:-1]:
        return None
    made = dict(enumerate(steps, start=len(inputs)))
    data = {0, *(n for n, _ in on_data)}
    groups = [_leaves(step.left if step.right in data else step.right, made) for _, step in on_data]
    ranks = set(inputs[1]).intersection(*inputs[2:]) - set(inputs[0]) - set(output)
    allowed = [{inputs[0][-1]}, set(inputs[0][:-1]), {output[-1]}]
    fits = all(set(inputs[n]) <= ranks | own for group, own in zip(groups, allowed, strict=True) for n in group)
    if len(ranks) != 1 or not fits:
        return None
    return RankSum(ranks.pop(), inputs[0][:-1], *groups)


def _leaves(number: int, made: Mapping[int, ContractionStep]) -> tuple[int, ...]:
    """The operands that a tensor is made from."""
    if number not in made:
        return (number,)
    return tuple(sorted((*_leaves(made[number].left, made), *_leaves(made[number].right, made))))


def choose_tiles(found: RankSum, sizes: Mapping[str, int], slice_bytes: int) -> Slices:
    """Slices along the rows, outermost first, and along the rank, for which one intermediate has `TILE_BYTES`."""
    numbers = min(TILE_BYTES, slice_bytes // _SHARE) // _NUMBER
    ranks = max(1, min(sizes[found.rank], _TILE_RANKS, numbers))
    left = max(1, numbers // ranks)
    tiles: Slices = ()
    for position, index in enumerate(found.rows):
        inner = prod(sizes[i] for i in found.rows[position + 1 :])
        length = min(sizes[index], max(1, left // inner))
        if length < sizes[index]:
            tiles = (*tiles, (index, length))
        if length * inner <= left:
            break
    return (*tiles, (found.rank, ranks))
