"""Sums of messages over the edges of a graph, slice by slice, recomputed in the backward pass.

Run in one piece, a kernel with 512 + 256 channels would keep several kilobytes for every edge. Here a slice of edges
makes its messages, adds them to their query points and forgets them; the backward pass makes them again. What is held
is what is per node, and one slice. Sums run in fp32: a half-precision running sum would stagnate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from halfwave.models.graph import Graph
from halfwave.models.sinusoidal import CoordinateEmbedding
from halfwave.numerics import Arithmetic, Gradients, Operands, run_kernel


@dataclass(frozen=True)
class EdgeWork:
    """What `sum_messages` runs on: the graph, the arithmetic, the embedding of query points, edges of a slice."""

    graph: Graph
    arith: Arithmetic
    embedding: CoordinateEmbedding
    step: int

    @property
    def sum_dtype(self) -> torch.dtype:
        return torch.float64 if self.arith.storage is torch.float64 else torch.float32


def sum_messages(
    work: EdgeWork, terms: Tensor, points: Tensor, features: Tensor | None, factors: Tensor | None, *weights: Tensor
) -> Tensor:
    """out_t = Σ_{edges s→t} factor_st · k(s, t) · f_s, with k = W_n gelu( ... gelu( terms_s + W_0 e(points_t) + b_0 ))

    Args:
        work: graph, arithmetic and size of a slice.
        terms: (S, R', H), the part of the first layer that belongs to the data point; R' is R or 1.
        points: (T, d) coordinates of the query points; `work.embedding` is e.
        features: f, (S, R, C) with C = O or 1; None for 1.
        factors: (E,); None for 1.
        weights: W_0, b_0, W_1, b_1, ...: the first layer's part for query points, then the other layers.

    Returns:
        (T, R, O) in fp32 (fp64 where the arithmetic is fp64).
    """
    return run_kernel(_EdgeSums(work), terms, points, features, factors, *weights)


def _mixed(arith: Arithmetic, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W^T + b, (.., C) to (.., O), in one product where there is one."""
    if arith.format.parts == 1:
        return functional.linear(x, weight, bias)
    return arith.multiply(functional.linear, x, weight) + bias


def _messages(
    work: EdgeWork,
    near: Tensor,
    terms: Tensor,
    points: Tensor,
    features: Tensor | None,
    factors: Tensor | None,
    *weights: Tensor,
) -> Tensor:
    """(e, R, O) messages of a slice: `terms`, `features` per edge, `near` the query point of each among `points`."""
    arith = work.arith
    at_queries = arith.product(_mixed(arith, arith.load(work.embedding(points)), weights[0], weights[1]))
    hidden = terms + at_queries.index_select(0, near).unsqueeze(1)
    for weight, bias in zip(weights[2::2], weights[3::2], strict=True):
        hidden = arith.settle(functional.gelu(arith.settle(hidden)))
        hidden = _mixed(arith, hidden, weight, bias)
    if features is not None:
        hidden = arith.settle(hidden) * features
    if factors is not None:
        hidden = arith.settle(hidden) * factors.to(hidden.dtype).view(-1, 1, 1)
    return arith.settle(hidden)


@dataclass(frozen=True)
class _Slice:
    """Edges `edges` with data points `source`, whose query points `queries` are counted from the first by `near`."""

    edges: slice
    queries: slice
    source: Tensor
    near: Tensor


def _slices(work: EdgeWork) -> Iterator[_Slice]:
    """Edges are sorted by query point, so those of a slice are consecutive; a large neighbourhood may be cut."""
    graph = work.graph
    for start in range(0, graph.n_edges, work.step):
        edges = slice(start, min(start + work.step, graph.n_edges))
        target = graph.target[edges]
        first, last = graph.query_range(edges)
        yield _Slice(edges, slice(first, last + 1), graph.source[edges], target - first)


def _all_edges(work: EdgeWork) -> _Slice:
    graph = work.graph
    return _Slice(slice(0, graph.n_edges), slice(0, len(graph.targets)), graph.source, graph.target)


@dataclass(frozen=True)
class _EdgeSums:
    """The kernel of terms, points, features, factors and weights."""

    work: EdgeWork

    def plain(self, *tensors: Any) -> Tensor:
        return self._sums(tensors, [_all_edges(self.work)])

    def forward(self, *tensors: Any) -> Tensor:
        return self._sums(tensors, _slices(self.work))

    def _sums(self, tensors: Operands, parts: Iterable[_Slice]) -> Tensor:
        work, (terms, points, features, factors, *weights) = self.work, tensors
        loaded = [work.arith.load(w) for w in weights]
        replicas = max(terms.shape[1], 1 if features is None else features.shape[1])
        channels = len(loaded[-1])
        out = terms.new_zeros((len(points), replicas * channels), dtype=work.sum_dtype)
        for part in parts:
            message = _messages(work, part.near, *_load(work, part, terms, points, features, factors), *loaded)
            out[part.queries].index_add_(0, part.near, message.flatten(1).to(work.sum_dtype))
        return out.view(-1, replicas, channels)

    def backward(self, tensors: Operands, needs: Sequence[bool], grad: Tensor) -> Gradients:
        work = self.work
        sums = [torch.zeros_like(t, dtype=work.sum_dtype) if n else None for t, n in zip(tensors, needs, strict=True)]
        loaded = [work.arith.load(w).detach().requires_grad_(n) for w, n in zip(tensors[4:], needs[4:], strict=True)]
        for part in _slices(work):
            given = _load(work, part, *tensors[:4])
            inputs: list[Any] = [
                None if t is None else t.detach().requires_grad_(n) for t, n in zip(given, needs, strict=False)
            ]
            with torch.enable_grad():
                message = _messages(work, part.near, *inputs, *loaded)
            wanted = [t for t in (*inputs, *loaded) if t is not None and t.requires_grad]
            found = iter(
                torch.autograd.grad(message, wanted, grad[part.queries].index_select(0, part.near).to(message.dtype))
            )
            for number, total in enumerate(sums):
                if total is not None:
                    _add(number, part, total, next(found))
        return [None if s is None else s.to(t.dtype) for s, t in zip(sums, tensors, strict=True)]


def _load(
    work: EdgeWork, part: _Slice, terms: Tensor, points: Tensor, features: Tensor | None, factors: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """The inputs of a slice: rows of the data points per edge, coordinates and factors as they are."""
    return (
        work.arith.load(terms.index_select(0, part.source)),
        points[part.queries],
        None if features is None else work.arith.load(features.index_select(0, part.source)),
        None if factors is None else factors[part.edges],
    )


def _add(number: int, part: _Slice, total: Tensor, gradient: Tensor) -> None:
    """Add a slice's gradient of input `number` (terms, points, features, factors, weights ...) to the sum."""
    if number in (0, 2):
        total.flatten(1).index_add_(0, part.source, gradient.flatten(1).to(total.dtype))
    elif number == 1:
        total[part.queries] += gradient
    elif number == 3:
        total[part.edges] = gradient
    else:
        total += gradient
