"""Graph: the edges of a radius neighbourhood, with only those nodes that have one.

On a latent grid most points lie far from the surface and have no neighbours; what is evaluated per node is evaluated
for the others only. Graphs of several geometries are packed into one, without edges between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from halfwave.models.neighbours import Neighbours, find_neighbours


@dataclass(frozen=True)
class Graph:
    """E edges from S data points to T query points, sorted by query point.

    Attributes:
        source, target: (E,) int32, the two ends of each edge, counted among `sources` and `targets`.
        sources, targets: (S,), (T,) rows of the data and of the query points that have an edge.
        n_data, n_queries: how many points there are, those without an edge included.
        readable_target: `target` on the host, of a graph whose own tensors are on `meta` and hold no numbers.
    """

    source: Tensor
    target: Tensor
    sources: Tensor
    targets: Tensor
    n_data: int
    n_queries: int
    readable_target: np.ndarray | None = None

    @property
    def n_edges(self) -> int:
        return len(self.source)

    @property
    def nbytes(self) -> int:
        return sum(t.nbytes for t in (self.source, self.target, self.sources, self.targets))

    def counts(self) -> Tensor:
        """(T,) edges of each query point that has any."""
        counts = torch.zeros(len(self.targets), dtype=torch.int64, device=self.target.device)
        return counts.index_add_(0, self.target, counts.new_ones(()).expand(self.n_edges))

    def query_range(self, edges: slice) -> tuple[int, int]:
        """The first and the last query point of consecutive edges."""
        target = self.target if self.readable_target is None else self.readable_target
        return int(target[edges.start]), int(target[edges.stop - 1])

    def on_meta(self) -> Graph:
        """A graph of the same shape for planning: tensors without numbers, but for what has to be read."""
        return replace(
            self,
            source=self.source.to("meta"),
            target=self.target.to("meta"),
            sources=self.sources.to("meta"),
            targets=self.targets.to("meta"),
            readable_target=self.target.numpy(force=True),
        )


def build_graph(data: Tensor, queries: Tensor, radius: float) -> Graph:
    """The graph of the neighbours within `radius`; errors as of `find_neighbours`."""
    return compact(find_neighbours(data, queries, radius), len(data))


def compact(neighbours: Neighbours, n_data: int) -> Graph:
    """Number the ends of the edges among the points that have edges."""
    counts = neighbours.splits.diff()
    used = torch.zeros(n_data, dtype=torch.bool, device=counts.device)
    used[neighbours.index] = True
    rank = used.cumsum(0) - 1
    targets = counts.nonzero().squeeze(1)
    target = torch.repeat_interleave(torch.arange(len(targets), device=counts.device), counts[targets])
    return Graph(
        source=rank[neighbours.index].int(),
        target=target.int(),
        sources=used.nonzero().squeeze(1),
        targets=targets,
        n_data=n_data,
        n_queries=len(counts),
    )


def pack_graphs(graphs: Sequence[Graph]) -> Graph:
    """One graph of several: points of geometry b follow those of b - 1."""
    if len(graphs) == 1:
        return graphs[0]
    ends = [len(g.targets) for g in graphs]
    return Graph(
        source=_joined([g.source for g in graphs], [len(g.sources) for g in graphs]),
        target=_joined([g.target for g in graphs], ends),
        sources=_joined([g.sources for g in graphs], [g.n_data for g in graphs]),
        targets=_joined([g.targets for g in graphs], [g.n_queries for g in graphs]),
        n_data=sum(g.n_data for g in graphs),
        n_queries=sum(g.n_queries for g in graphs),
        readable_target=_joined_readable([g.readable_target for g in graphs], ends),
    )


def _joined_readable(parts: list[np.ndarray | None], sizes: list[int]) -> np.ndarray | None:
    readable = [part for part in parts if part is not None]
    if len(readable) < len(parts):
        return None
    return np.concatenate([part + sum(sizes[:b]) for b, part in enumerate(readable)])


def _joined(parts: list[Tensor], sizes: list[int]) -> Tensor:
    starts = [sum(sizes[:b]) for b in range(len(sizes))]
    return torch.cat([part + start for part, start in zip(parts, starts, strict=True)])
