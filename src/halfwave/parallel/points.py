"""Points beside a grid in pieces: what a GINO's output kernel adds up where the neighbours of a point are in several.

The input kernel needs nothing of the kind: a node of the latent grid has all of its neighbours among the points, which
every process has. The output kernel's sum over the nodes around a query point is a sum over processes of the sums over
their nodes,

    u(x) = Σ_processes Σ_{y in piece, |y - x| <= r} k(x, y) v(y),

so each process evaluates the kernel on the edges of its own nodes, which is most of the work of a GINO, and gets of the
sum the query points that `torch.tensor_split` gives it. Nothing of the size of the latent grid travels.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from halfwave.models import Graph, divided, spread
from halfwave.numerics import Arithmetic, run_linear
from halfwave.parallel.exchange import ScatterSum, SumOver
from halfwave.parallel.pieces import split_sizes
from halfwave.parallel.ranks import Ranks


@dataclass(frozen=True)
class PieceSums:
    """Shares of sums (T, R, O) over the own nodes to the values (q, R, O) at the own query points.

    A mean is divided by the weight of all neighbours, one number for each query point that is summed first: so that
    shares in a half format are parts of the mean, and not of a sum that may overflow.
    """

    ranks: Ranks

    def __call__(self, sums: Tensor, totals: Tensor | None, graph: Graph, arith: Arithmetic) -> Tensor:
        if graph.n_queries < self.ranks.size:
            raise ValueError(f"{graph.n_queries} output points are too few for {self.ranks.size} processes")
        if totals is not None:
            everywhere = run_linear(SumOver(self.ranks, "points"), spread(totals.to(sums.dtype), graph))
            sums = divided(sums, everywhere.index_select(0, graph.targets))
        counts = tuple(split_sizes(graph.n_queries, self.ranks.size))
        return run_linear(ScatterSum(self.ranks, counts, arith, "points"), spread(arith.store(sums), graph))
