"""Orders of contraction: which two tensors of an equation meet first.

Two searches for the order that needs the least memory, both subclasses of opt_einsum's `PathOptimizer` and so usable
with `opt_einsum.contract` as well: the paper's greedy one, and an exhaustive one for the few operands that factorized
weights have. Operands exist anyway; what an order decides is which intermediate results are alive together.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import prod

import opt_einsum
from opt_einsum.paths import PathOptimizer

Indices = frozenset[str]
Path = list[tuple[int, ...]]

# Partitions of n operands: 877 for n = 7, 4140 for 8, 21147 for 9. Beyond 8 the greedy search is on its own.
EXHAUSTIVE_OPERANDS = 8


class MemoryGreedy(PathOptimizer):
    """At each step the pair whose result is smallest (paper, 'Mixed-Precision Module', last paragraph).

    Ties go to the pair that frees most, then to the cheaper one. Pairs without a common index come last.
    """

    def __call__(
        self,
        inputs: Sequence[Indices],
        output: Indices,
        size_dict: Mapping[str, int],
        memory_limit: int | None = None,
    ) -> Path:
        left = [frozenset(i) for i in inputs]
        path: Path = []
        while len(left) > 1:
            pair = min(combinations(range(len(left)), 2), key=lambda p: self._cost(left, p, output, size_dict))
            left = merge(left, pair, output)
            path.append(pair)
        return path

    @staticmethod
    def _cost(
        left: list[Indices], pair: tuple[int, int], output: Indices, sizes: Mapping[str, int]
    ) -> tuple[bool, int, int, int]:
        a, b = left[pair[0]], left[pair[1]]
        result = merge(left, pair, output)[-1]
        freed = size_of(a, sizes) + size_of(b, sizes)
        return not a & b, size_of(result, sizes), -freed, size_of(a | b, sizes)


class MemoryExhaustive(PathOptimizer):
    """The order with the smallest peak of live intermediate elements, over all orders; at equal peaks the cheaper one.

    Shortest path over the partitions of the operands, where the length of a path is its largest number of elements
    alive at once. For at most `EXHAUSTIVE_OPERANDS` operands; more go to `MemoryGreedy`.
    """

    def __call__(
        self,
        inputs: Sequence[Indices],
        output: Indices,
        size_dict: Mapping[str, int],
        memory_limit: int | None = None,
    ) -> Path:
        if len(inputs) > EXHAUSTIVE_OPERANDS:
            return MemoryGreedy()(inputs, output, size_dict)
        operands = [frozenset(i) for i in inputs]
        start = tuple(1 << i for i in range(len(operands)))
        # Heap of (peak, cost, path so far, blocks as bit masks, their indices).
        heap: list[tuple[int, int, Path, tuple[int, ...], list[Indices]]] = [(0, 0, [], start, operands)]
        done: set[frozenset[int]] = set()
        while heap:
            peak, cost, path, blocks, tensors = heapq.heappop(heap)
            if len(blocks) == 1:
                return path
            if frozenset(blocks) in done:
                continue
            done.add(frozenset(blocks))
            live = sum(size_of(t, size_dict) for t, block in zip(tensors, blocks, strict=True) if block.bit_count() > 1)
            for pair, merged, work in _merges(tensors, output, size_dict):
                i, j = pair
                rest = tuple(b for k, b in enumerate(blocks) if k not in pair)
                needed = max(peak, live + size_of(merged[-1], size_dict))
                heapq.heappush(heap, (needed, cost + work, [*path, pair], (*rest, blocks[i] | blocks[j]), merged))
        raise AssertionError("a set of operands always has an order")


def _merges(
    tensors: list[Indices], output: Indices, sizes: Mapping[str, int]
) -> Iterator[tuple[tuple[int, int], list[Indices], int]]:
    for pair in combinations(range(len(tensors)), 2):
        yield pair, merge(tensors, pair, output), size_of(tensors[pair[0]] | tensors[pair[1]], sizes)


def candidate_paths(inputs: Sequence[str], output: str, sizes: Mapping[str, int]) -> list[Path]:
    """The orders worth weighing: opt_einsum's FLOP-optimal one, the memory-greedy and the exhaustive one."""
    shapes = [tuple(sizes[i] for i in subscripts) for subscripts in inputs]
    equation = f"{','.join(inputs)}->{output}"
    # 'optimal' visits every tree: 10395 for seven operands, 2 million for nine.
    search = "optimal" if len(inputs) <= EXHAUSTIVE_OPERANDS else "auto"
    flops, _ = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize=search)
    sets = [frozenset(i) for i in inputs]
    found = [list(flops)] + [search(sets, frozenset(output), sizes) for search in (MemoryGreedy(), MemoryExhaustive())]
    return [path for path in found if all(len(pair) == 2 for pair in path)]


def data_path(inputs: Sequence[str], output: str) -> Path:
    """The data meet all that has their last index, then what has the others alone, then the rest."""
    last, rows = inputs[0][-1], set(inputs[0][:-1])
    made = set(output) - rows
    weights = range(1, len(inputs))
    first = [n for n in weights if last in inputs[n]]
    second = [n for n in weights if n not in first and rows & set(inputs[n]) and not made & set(inputs[n])]
    third = [n for n in weights if n not in (*first, *second)]
    live: list[tuple[int, ...]] = [(n,) for n in range(len(inputs))]
    path: Path = []
    groups = [group for group in (first, second, third) if group]
    for group in groups:
        for n in range(1, len(group)):
            _join(live, path, tuple(group[:n]), (group[n],))
    data: tuple[int, ...] = (0,)
    for group in groups:
        data = _join(live, path, data, tuple(group))
    return path


def _join(live: list[tuple[int, ...]], path: Path, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """One more step of a path, between the tensors made from the operands `a` and `b`."""
    i, j = sorted((live.index(a), live.index(b)))
    path.append((i, j))
    del live[j], live[i]
    live.append((*a, *b))
    return live[-1]


def merge(tensors: list[Indices], pair: tuple[int, int], output: Indices) -> list[Indices]:
    """The tensors after one step: the pair taken out, its result at the end (opt_einsum's convention)."""
    rest = [t for k, t in enumerate(tensors) if k not in pair]
    kept = output.union(*rest)
    return [*rest, (tensors[pair[0]] | tensors[pair[1]]) & kept]


def size_of(indices: Indices | str, sizes: Mapping[str, int]) -> int:
    """Elements of a tensor with these indices."""
    return prod(sizes[i] for i in indices)
