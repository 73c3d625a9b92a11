"""GraphKernel: the kernel integral of a graph neural operator, from data points to query points.

    (K f)(x) = Σ_{|y - x| <= r} k(x, y [, f(y)]) [· f(y)] · w(x, y)

k is an MLP on the embedded coordinates [e(y), e(x)] (and f(y), where it is nonlinear). Its first layer is a sum,
W [e(y); e(x); f(y)] = W_y e(y) + W_x e(x) + W_f f(y), so it is evaluated once per node and added per edge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from halfwave.models.edge_sums import EdgeWork, sum_messages
from halfwave.models.graph import Graph
from halfwave.models.mollifiers import MOLLIFIERS
from halfwave.models.pointwise import ChannelLinear, PointwiseModule
from halfwave.models.sinusoidal import CoordinateEmbedding
from halfwave.numerics import Arithmetic, kind_of, outside_the_compiler, recomputed_later
from halfwave.precision import Policy, as_policy
from halfwave.spectral import slices

TransformType = Literal["linear", "linear_kernelonly", "nonlinear", "nonlinear_kernelonly"]
TRANSFORM_TYPES = ("linear", "linear_kernelonly", "nonlinear", "nonlinear_kernelonly")
Reduction = Literal["sum", "mean"]
Shared = Callable[[Iterable[Tensor]], Sequence[Tensor]]
"""What a kernel computes with of its parameters: themselves, or where processes share them, what sums gradients up."""
Finish = Callable[[Tensor, Tensor | None, Graph, Arithmetic], Tensor]
"""What makes values of a kernel's sums: `finish_sums`, or another where other processes have some of the neighbours."""

# Bytes of messages that it is of use to hold at once: on a CPU what stays in the cache; an accelerator wants more.
CPU_MEMORY_LIMIT = 32 << 20
ACCELERATOR_MEMORY_LIMIT = 512 << 20


class GraphKernel(PointwiseModule):
    """The integral transform of neuraloperator's GNOBlock, in the pointwise format of a policy.

    | transform_type       | message                |
    | -------------------- | ---------------------- |
    | linear               | k(x, y) f(y)           |
    | linear_kernelonly    | k(x, y) f(y)           |
    | nonlinear            | k(x, y, f(y)) f(y)     |
    | nonlinear_kernelonly | k(x, y, f(y))          |

    Without f the two linear ones are k(x, y) alone and the nonlinear ones raise. (neuraloperator 2.0 multiplies by f in
    linear_kernelonly as well, whenever there is one, though its documentation says otherwise; so do we.)
    A query point without neighbours gets 0.

    Args:
        in_channels, out_channels: channels C of f and O of the result. Where f multiplies, C is O or 1.
        embedding: of the coordinates.
        hidden_layers: widths of the kernel's hidden layers.
        transform_type: see above.
        reduction: ``"sum"`` over the neighbours or their ``"mean"``, weighted by w. Only a mean has a limit as the data
            points become denser.
        weighting: name of a mollifier w; None for w = 1.
        weighting_scale: factor of w.
        radius: r, which w needs.
        memory_limit: bytes that the messages of a slice take at most (one edge at least). Slices are never larger than
            is of use on the device (32 MiB on a CPU), which is also what None means.
        precision: a `Policy` or the name of one.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        embedding: CoordinateEmbedding,
        hidden_layers: Sequence[int],
        *,
        transform_type: TransformType = "linear",
        reduction: Reduction = "sum",
        weighting: str | None = None,
        weighting_scale: float = 1.0,
        radius: float = 1.0,
        memory_limit: int | None = None,
        precision: str | Policy = "full",
    ) -> None:
        super().__init__()
        _check_one_of("transform_type", transform_type, TRANSFORM_TYPES)
        _check_one_of("reduction", reduction, ("sum", "mean"))
        _check_one_of("gno_weighting_function", weighting, (*MOLLIFIERS, None))
        if memory_limit is not None and memory_limit <= 0:
            raise ValueError(f"memory_limit must be a positive number of bytes, got {memory_limit!r}")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.embedding = embedding
        self.transform_type = transform_type
        self.reduction = reduction
        self.weighting, self.weighting_scale, self.radius = weighting, weighting_scale, radius
        self.memory_limit = memory_limit
        first = 2 * embedding.out_channels + (in_channels if self.nonlinear else 0)
        widths = [first, *hidden_layers, out_channels]
        self.fcs = nn.ModuleList(ChannelLinear(a, b) for a, b in pairwise(widths))
        self.policy = as_policy(precision)
        self.shared: Shared = list
        self.finish: Finish = finish_sums

    @property
    def nonlinear(self) -> bool:
        """Whether f is an input of the kernel."""
        return self.transform_type.startswith("nonlinear")

    @outside_the_compiler  # the number of edges changes with every geometry
    def forward(self, graph: Graph, data: Tensor, queries: Tensor, f: Tensor | None = None) -> Tensor:
        """f (N, R, C) at `data` (N, d) to (Q, R, O) at `queries` (Q, d), in the storage dtype of the pointwise format.

        R functions on the same points share the kernel where it is linear. Gradients flow to f, to the parameters and
        to the coordinates (which neighbours there are is taken as constant).
        """
        self._check(f)
        arith = self.arithmetic(data.device)
        if f is not None and not f.shape[1]:  # an empty batch of functions
            return f.new_zeros((graph.n_queries, 0, self.out_channels), dtype=arith.storage)
        points, targets = data.index_select(0, graph.sources), queries.index_select(0, graph.targets)
        features = None if f is None else arith.store(f.index_select(0, graph.sources))
        at_data, at_queries, inside, *rest = self._weights()
        terms = self._source_terms(arith, points, features if self.nonlinear else None, at_data, inside)
        factors = self._factors(graph, points, targets)
        sums = sum_messages(
            EdgeWork(graph, arith, self.embedding, self.edges_per_slice(data.device, 1 if f is None else f.shape[1])),
            terms,
            targets,
            None if self.transform_type == "nonlinear_kernelonly" else features,
            factors,
            at_queries,
            *rest,
        )
        return self.finish(sums, _totals(graph, factors) if self.reduction == "mean" else None, graph, arith)

    def edges_per_slice(self, device: torch.device, replicas: int = 1) -> int:
        """As many edges as keep what a slice makes for R functions, forward and backward, under the memory limit."""
        useful = CPU_MEMORY_LIMIT if kind_of(device) == "cpu" else ACCELERATOR_MEMORY_LIMIT
        limit = useful if self.memory_limit is None else min(useful, self.memory_limit)
        # Of each layer: product, activation and the gradients of both; of the embedding, at worst one for every edge:
        # angles, sines, cosines, both together, and rounded.
        widths = sum(len(fc.weight) for fc in self._layers()) + 2 * self.in_channels
        numbers = 5 * widths * replicas + 4 * self.embedding.out_channels
        itemsize = max(4, self.arithmetic(device).storage.itemsize)
        return max(1, limit // (itemsize * numbers))

    def _weights(self) -> list[Tensor]:
        """Weights of the first layer for data points, query points and f, its bias, then those of the other layers."""
        first, *others = self.shared(self.fcs.parameters())
        n = self.embedding.out_channels
        return [*first.split([n, n, first.shape[1] - 2 * n], dim=1), *others]

    def _layers(self) -> list[ChannelLinear]:
        return [cast(ChannelLinear, fc) for fc in self.fcs]

    def _source_terms(
        self, arith: Arithmetic, points: Tensor, features: Tensor | None, at_data: Tensor, inside: Tensor
    ) -> Tensor:
        """(S, R', H): W_y e(y) + W_f f(y), in slices of which the backward pass recomputes the embedding."""
        parts = [
            recomputed_later(self._terms, arith, points[s], None if features is None else features[s], at_data, inside)
            for s in slices(len(points), 24 * self.embedding.out_channels, points.device, CPU_MEMORY_LIMIT)
        ]
        return torch.cat(parts) if parts else points.new_zeros((0, 1, len(at_data)), dtype=arith.storage)

    def _terms(
        self, arith: Arithmetic, points: Tensor, features: Tensor | None, at_data: Tensor, inside: Tensor
    ) -> Tensor:
        embedded = arith.load(self.embedding(points))
        terms = arith.product(arith.multiply(functional.linear, embedded, arith.load(at_data))).unsqueeze(1)
        if features is not None:
            terms = terms + arith.product(arith.multiply(functional.linear, arith.load(features), arith.load(inside)))
        return arith.store(terms)

    def _factors(self, graph: Graph, points: Tensor, targets: Tensor) -> Tensor | None:
        """(E,) weights w of the edges."""
        if self.weighting is None:
            return None
        across = targets.index_select(0, graph.target) - points.index_select(0, graph.source)
        return self.weighting_scale * MOLLIFIERS[self.weighting](across.square().sum(1) / self.radius**2)

    def _check(self, f: Tensor | None) -> None:
        if f is None:
            if self.nonlinear:
                raise ValueError(f"transform_type {self.transform_type!r} needs features at the data points")
            return
        if f.ndim != 3 or f.shape[2] != self.in_channels:
            raise ValueError(f"expected features (points, batch, {self.in_channels}), got {tuple(f.shape)}")
        if self.transform_type != "nonlinear_kernelonly" and self.in_channels not in (1, self.out_channels):
            raise ValueError(
                f"transform_type {self.transform_type!r} multiplies {self.in_channels} channels of features by "
                f"{self.out_channels} of the kernel: expected equal numbers, or one channel of features"
            )

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, transform_type={self.transform_type}, "
            f"reduction={self.reduction}, weighting={self.weighting}, memory_limit={self.memory_limit}, "
            f"pointwise={self.arithmetic(self._layers()[0].weight.device)}"
        )


def _totals(graph: Graph, factors: Tensor | None) -> Tensor:
    """(T,) sums of the edges' weights, which a mean divides by."""
    if factors is None:
        return graph.counts()
    return factors.new_zeros(len(graph.targets)).index_add(0, graph.target, factors)


def finish_sums(sums: Tensor, totals: Tensor | None, graph: Graph, arith: Arithmetic) -> Tensor:
    """Sums (T, R, O) over the neighbours of query points, divided by `totals` (T,), to the values at all of them."""
    return spread(arith.store(sums if totals is None else divided(sums, totals)), graph)


def divided(sums: Tensor, totals: Tensor) -> Tensor:
    """Means. On the edge of its neighbourhood a lone point weighs nothing: 0 then, as without neighbours."""
    return sums / totals.clamp(min=1e-12).to(sums.dtype).view(-1, 1, 1)


def spread(rows: Tensor, graph: Graph) -> Tensor:
    """(T, ...) of the query points that have neighbours to (Q, ...) of all: the others are 0."""
    if len(rows) == graph.n_queries:
        return rows
    return rows.new_zeros((graph.n_queries, *rows.shape[1:])).index_copy(0, graph.targets, rows)


def _check_one_of(name: str, value: str | None, accepted: Sequence[str | None]) -> None:
    if value not in accepted:
        raise ValueError(f"unknown {name} {value!r}: expected one of {', '.join(map(str, accepted))}")
