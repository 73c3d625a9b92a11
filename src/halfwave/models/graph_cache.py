"""GraphCache: the neighbours of a geometry are searched once."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from itertools import cycle
from typing import Any, Protocol

import torch
from torch import Tensor

from halfwave.models.graph import Graph, build_graph
from halfwave.numerics import outside_the_compiler

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
    """Graphs by the content of their points, at most `max_bytes` of them; the one not used for longest goes first.

    The key is a digest of the coordinates themselves: points that were changed in place are another geometry, and a
    copy is the same one. A digest takes about a millisecond for a megabyte, a search a hundred times that; points on
    an accelerator are copied to the host for it.
    """

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._graphs: OrderedDict[tuple[Any, ...], Graph] = OrderedDict()

    def __len__(self) -> int:
        return len(self._graphs)

    @outside_the_compiler  # neighbours are found outside of torch
    def graph(self, data: Tensor, queries: Tensor, radius: float) -> Graph:
        """The graph of `build_graph`, from the cache where it is known; one larger than the cache is not kept."""
        key = (_digest(data), _digest(queries), radius, data.device)
        if key in self._graphs:
            self._graphs.move_to_end(key)
            return self._graphs[key]
        graph = build_graph(data, queries, radius)
        if graph.nbytes <= self.max_bytes:
            self._graphs[key] = graph
            self.nbytes += graph.nbytes
        while self.nbytes > self.max_bytes:
            self.nbytes -= self._graphs.popitem(last=False)[1].nbytes
        return graph

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of a model, or a pickled one, starts with an empty cache."""
        return GraphCache, (self.max_bytes,)


def _digest(points: Tensor) -> tuple[bytes, torch.Size, torch.dtype]:
    values = points.detach().cpu().contiguous().numpy()
    return hashlib.blake2b(values.tobytes(), digest_size=16).digest(), points.shape, points.dtype
