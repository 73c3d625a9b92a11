"""GraphCache: the neighbours of a geometry are searched once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import cycle
from typing import Any, Protocol

import torch
from torch import Tensor

from halfwave.models.graph import Graph, build_graph
from halfwave.numerics import ByteCache, outside_the_compiler

CACHE_BYTES = 256 << 20


class GraphSource(Protocol):
    """Where a model takes its graphs from."""

    def graph(self, data: Tensor, queries: Tensor, radius: float) -> Graph: ...


class PreparedGraphs:
    """The given graphs one after the other, again from the first after the last: calls whose order is known.

    For planning: points on `meta` have no neighbours that could be searched.
    """

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._next = cycle(graphs)

    def graph(self, data: Tensor, queries: Tensor, radius: float) -> Graph:
        graph = next(self._next)
        assert (graph.n_data, graph.n_queries) == (len(data), len(queries))
        return graph


class GraphCache:
    """Graphs by the content of their points, at most `max_bytes` of them, in `kept`; a larger one is not kept.

    The key is a digest of the coordinates themselves: points that were changed in place are another geometry, and a
    copy is the same one. Points on an accelerator are copied to the host for it.
    """

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self.kept: ByteCache[tuple[Any, ...], Graph] = ByteCache(max_bytes)

    @outside_the_compiler  # neighbours are found outside of torch
    def graph(self, data: Tensor, queries: Tensor, radius: float) -> Graph:
        """The graph of `build_graph`, from the cache where it is known."""
        key = (_digest(data), _digest(queries), radius, data.device)
        return self.kept.get(key, lambda _: build_graph(data, queries, radius))


def _digest(points: Tensor) -> tuple[bytes, torch.Size, torch.dtype]:
    values = points.detach().cpu().contiguous().numpy()
    return hashlib.blake2b(values.tobytes(), digest_size=16).digest(), points.shape, points.dtype
