"""Radius neighbours and their graphs against a plain table of distances."""

import copy
import itertools

import pytest
import torch

from halfwave.models import graph as graph_module
from halfwave.models.graph import build_graph, pack_graphs
from halfwave.models.graph_cache import GraphCache
from halfwave.models.neighbours import find_neighbours, search_chunks


def _rows(neighbours):
    ends = neighbours.splits.tolist()
    return [neighbours.index[a:b].tolist() for a, b in itertools.pairwise(ends)]


def _by_hand(data, queries, radius):
    near = (queries[:, None].double() - data[None].double()).norm(dim=-1) <= radius
    return [row.nonzero().flatten().tolist() for row in near]


def _edges(graph):
    """Pairs (query, data point)."""
    return list(
        zip(graph.targets[graph.target.long()].tolist(), graph.sources[graph.source.long()].tolist(), strict=True)
    )


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("search", [find_neighbours, search_chunks])
def test_neighbours_are_those_within_the_radius(dim, search, monkeypatch):
    monkeypatch.setattr("halfwave.models.neighbours.CHUNK_DISTANCES", 1000)
    torch.manual_seed(0)
    data, queries = 3 * torch.rand(150, dim) - 1, 4 * torch.rand(130, dim) - 1
    found = _rows(search(data, queries, 0.4))
    assert found == _by_hand(data, queries, 0.4)
    assert [] in found
    assert max(map(len, found)) > 1


@pytest.mark.parametrize("search", [find_neighbours, search_chunks])
def test_the_boundary_and_the_point_itself_are_neighbours(search):
    grid = torch.arange(5.0)[:, None] / 32
    assert _rows(search(grid, grid, 1 / 32)) == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4]]


@pytest.mark.parametrize("search", [find_neighbours, search_chunks])
def test_one_point_and_none_near(search):
    one = torch.tensor([[5.0, -7.0, 2.0]])
    assert _rows(search(one, one + 0.1, 0.5)) == [[0]]
    assert _rows(search(one, one + 1, 0.5)) == [[]]


@pytest.mark.parametrize(
    ("data", "queries", "radius", "message"),
    [
        (torch.tensor([[0.0, float("nan")]]), torch.ones(1, 2), 0.1, "data points hold NaN"),
        (torch.ones(1, 2), torch.tensor([[0.0, float("inf")]]), 0.1, "query points hold NaN or infinite"),
        (torch.ones(0, 2), torch.ones(1, 2), 0.1, "at least one point"),
        (torch.ones(1, 2), torch.ones(1, 3), 0.1, "2 coordinates and query points 3"),
        (torch.ones(1, 2), torch.ones(1, 2), 0.0, "radius must be a positive number, got 0.0"),
    ],
)
def test_bad_points_raise(data, queries, radius, message):
    with pytest.raises(ValueError, match=message):
        find_neighbours(data, queries, radius)


def test_a_graph_has_the_same_edges_and_only_nodes_with_edges():
    torch.manual_seed(1)
    data, queries = 2 * torch.rand(60, 3), 2 * torch.rand(80, 3)
    graph = build_graph(data, queries, 0.3)
    expected = [(q, x) for q, row in enumerate(_by_hand(data, queries, 0.3)) for x in row]
    assert _edges(graph) == expected
    assert len(graph.sources) < 60
    assert len(graph.targets) < 80
    assert graph.counts().tolist() == [sum(q == t for q, _ in expected) for t in graph.targets.tolist()]


def test_packed_graphs_have_no_edges_between_geometries():
    torch.manual_seed(2)
    sets = [(torch.rand(n, 2), torch.rand(m, 2)) for n, m in ((10, 7), (1, 1), (20, 9))]
    graphs = [build_graph(x, q, 0.3) for x, q in sets]
    expected, first_data, first_query = [], 0, 0
    for graph, (x, q) in zip(graphs, sets, strict=True):
        expected += [(a + first_query, b + first_data) for a, b in _edges(graph)]
        first_data, first_query = first_data + len(x), first_query + len(q)
    packed = pack_graphs(graphs)
    assert _edges(packed) == expected
    assert (packed.n_data, packed.n_queries) == (31, 17)


@pytest.fixture
def searches(monkeypatch):
    """How often neighbours were searched."""
    calls = []

    def counted(*args):
        calls.append(1)
        return find_neighbours(*args)

    monkeypatch.setattr(graph_module, "find_neighbours", counted)
    return calls


def test_a_geometry_is_searched_once_and_a_changed_one_again(searches):
    torch.manual_seed(3)
    cache, data, queries = GraphCache(), torch.rand(30, 3), torch.rand(20, 3)
    first = cache.graph(data, queries, 0.3)
    assert cache.graph(data.clone(), queries, 0.3) is first
    assert len(searches) == 1
    cache.graph(data, queries, 0.2)
    data[0] += 5  # in place: the same tensor is another geometry
    changed = cache.graph(data, queries, 0.3)
    assert len(searches) == 3
    assert _edges(changed) == _edges(build_graph(data, queries, 0.3)) != _edges(first)


def test_the_cache_is_bounded_and_forgets_what_was_not_used(searches):
    torch.manual_seed(4)
    queries = torch.rand(20, 2)
    clouds = [torch.rand(30, 2) for _ in range(4)]
    size = max(build_graph(c, queries, 0.5).nbytes for c in clouds)
    cache = GraphCache(max_bytes=2 * size + size // 2)
    searches.clear()
    for index in (0, 1, 0, 2, 0, 1):  # 1 had to go for 2
        cache.graph(clouds[index], queries, 0.5)
        assert cache.kept.held <= cache.kept.limit
    assert len(searches) == 4
    assert len(copy.deepcopy(cache).kept) == 0


def test_a_graph_larger_than_the_cache_is_not_kept():
    cache = GraphCache(max_bytes=8)
    cache.graph(torch.rand(30, 2), torch.rand(20, 2), 0.5)
    assert (len(cache.kept), cache.kept.held) == (0, 0)
