"""GINO: the geometry-informed neural operator, from functions on point clouds to functions on point clouds.

points -> graph kernel -> latent grid -> FNO blocks -> graph kernel -> points -> pointwise projection
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halfwave.models.arguments import check_counts
from halfwave.models.base import NeuralOperator
from halfwave.models.block import BlockSettings, SkipName
from halfwave.models.graph import Graph, pack_graphs
from halfwave.models.graph_cache import GraphCache, GraphSource
from halfwave.models.graph_kernel import GraphKernel, Reduction, TransformType
from halfwave.models.neighbours import check_points
from halfwave.models.packing import read_offsets
from halfwave.models.sinusoidal import CoordinateEmbedding
from halfwave.models.trunk import TrunkSettings
from halfwave.numerics import at_least_fp32
from halfwave.precision import Policy
from halfwave.spectral import (
    Backend,
    FourierTransform,
    Implementation,
    Layout,
    Rank,
    WeightSettings,
    check_modes,
    check_tensor,
)

_TANH = (None, "latent_embed", "both")


class GINO(NeuralOperator):
    """The geometry-informed neural operator with the architecture and argument names of neuraloperator's.

    One geometry, neuraloperator's call (a batch of functions may share it):

    >>> model(input_geom, latent_queries, output_queries, x, latent_features)
    (1, n, d), (1, *grid, d), (1, m, d), (B, n, in_channels), (B, *grid, F)  ->  (B, m, out_channels)

    A batch of B different geometries, packed one after the other (`pack_points` makes points and offsets):

    >>> model(points, latent_queries, outputs, x, latent_features, input_offsets=o, output_offsets=p)
    (Σn, d), (*grid, d), (Σm, d), (Σn, in_channels), (B, *grid, F), (B + 1,), (B + 1,)  ->  (Σm, out_channels)

    Geometry b has the rows o[b] to o[b + 1] of the points and p[b] to p[b + 1] of the outputs; the latent grid is one
    for all, or (B, *grid, d). `x` is None where the geometry is the only input, `latent_features` (the signed distance,
    say) where the model has none. `output_queries` may be a mapping of point sets (`output_offsets` then one of
    offsets); the result has its keys. Results are in the dtype that `NeuralOperator` says; coordinates stay as they are
    given, fp32 at least, and become fp64 where the result is.

    Points may lie anywhere. A latent point without neighbours gets 0, and an output point without neighbours what the
    projection makes of 0. NaN coordinates raise ValueError. Neighbours are searched once per geometry and kept in
    `cache`.

    `torch.compile` takes the latent part and leaves the graph kernels as they are: how many edges there are is known
    only when the points are, and each kernel runs in slices of them. With `fullgraph=True` it therefore raises.

    Args:
        in_channels, out_channels: channels of the input and the output function.
        latent_feature_channels: channels F of features given on the latent grid; None for none.
        projection_channel_ratio: hidden width of the projection relative to the blocks.
        gno_coord_dim: coordinates d of a point.
        in_gno_radius, out_gno_radius: radius of the neighbourhoods of the two graph kernels.
        in_gno_transform_type, out_gno_transform_type: see `GraphKernel`.
        gno_weighting_function, gno_weight_function_scale: mollifier of the output kernel, see `mollifiers`.
        in_gno_pos_embed_type, out_gno_pos_embed_type: ``"transformer"``, ``"nerf"`` or None.
        fno_in_channels: channels of the latent grid's input, unless the input kernel is nonlinear (then in_channels).
        fno_n_modes, fno_hidden_channels, fno_n_layers, fno_lifting_channel_ratio: of the FNO on the latent grid.
        gno_embed_channels, gno_embed_max_positions: frequencies of the embedding, and its longest period.
        in_gno_channel_mlp_hidden_layers, out_gno_channel_mlp_hidden_layers: hidden widths of the two kernels.
        out_gno_reduction: ``"sum"`` over the latent points of a neighbourhood, as in neuraloperator, or their
            ``"mean"``. A sum grows with the latent grid: for a model that is used on several grids take the mean.
        out_gno_tanh: ``"latent_embed"`` (or ``"both"``, the same in neuraloperator) bounds the latent field by tanh.
        fno_channel_mlp_expansion, fno_skip, fno_channel_mlp_skip: of the FNO blocks, as in `FNO`.
        fno_factorization, fno_rank, fno_separable, fno_implementation: of the spectral weights, as in `SpectralConv`.
        memory_limit: bytes that the messages of a graph kernel take at most, see `GraphKernel`.
        precision, backend, layout: as in `FNO`.
    """

    takes_points = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        latent_feature_channels: int | None = None,
        projection_channel_ratio: float = 4,
        gno_coord_dim: int = 3,
        in_gno_radius: float = 0.033,
        out_gno_radius: float = 0.033,
        in_gno_transform_type: TransformType = "linear",
        out_gno_transform_type: TransformType = "linear",
        gno_weighting_function: str | None = None,
        gno_weight_function_scale: float = 1,
        in_gno_pos_embed_type: str | None = "transformer",
        out_gno_pos_embed_type: str | None = "transformer",
        fno_in_channels: int = 3,
        fno_n_modes: tuple[int, ...] = (16, 16, 16),
        fno_hidden_channels: int = 64,
        fno_lifting_channel_ratio: float = 2,
        fno_n_layers: int = 4,
        *,
        gno_embed_channels: int = 32,
        gno_embed_max_positions: int = 10000,
        in_gno_channel_mlp_hidden_layers: Sequence[int] = (80, 80, 80),
        out_gno_channel_mlp_hidden_layers: Sequence[int] = (512, 256),
        out_gno_reduction: Reduction = "sum",
        out_gno_tanh: str | None = None,
        fno_channel_mlp_expansion: float | None = 0.5,
        fno_skip: SkipName | None = "linear",
        fno_channel_mlp_skip: SkipName | None = "soft-gating",
        fno_factorization: str | None = None,
        fno_rank: Rank = 1.0,
        fno_separable: bool = False,
        fno_implementation: Implementation = "factorized",
        memory_limit: int | None = None,
        precision: str | Policy = "full",
        backend: Backend = "auto",
        layout: Layout = "exact",
    ) -> None:
        super().__init__()
        modes = check_modes(fno_n_modes)
        check_counts(in_channels=in_channels, out_channels=out_channels, fno_n_layers=fno_n_layers)
        check_counts(gno_coord_dim=gno_coord_dim, fno_hidden_channels=fno_hidden_channels)
        check_counts(fno_in_channels=fno_in_channels, gno_embed_channels=gno_embed_channels)
        check_counts(latent_feature_channels=1 if latent_feature_channels is None else latent_feature_channels)
        if out_gno_tanh not in _TANH:
            raise ValueError(f"unknown out_gno_tanh {out_gno_tanh!r}: expected one of {', '.join(map(str, _TANH))}")
        for name, radius in (("in_gno_radius", in_gno_radius), ("out_gno_radius", out_gno_radius)):
            if not radius > 0:
                raise ValueError(f"{name} must be a positive number, got {radius!r}")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.latent_feature_channels = latent_feature_channels or 0
        self.gno_coord_dim, self.n_dim = gno_coord_dim, len(modes)
        self.in_gno_radius, self.out_gno_radius = in_gno_radius, out_gno_radius
        self.out_gno_tanh = out_gno_tanh
        self.cache: GraphSource = GraphCache()
        latent_channels = in_channels if in_gno_transform_type.startswith("nonlinear") else fno_in_channels
        embeddings = [
            CoordinateEmbedding(gno_coord_dim, kind, gno_embed_channels, gno_embed_max_positions)
            for kind in (in_gno_pos_embed_type, out_gno_pos_embed_type)
        ]
        self.gno_in = GraphKernel(
            in_channels,
            latent_channels,
            embeddings[0],
            in_gno_channel_mlp_hidden_layers,
            transform_type=in_gno_transform_type,
            reduction="mean",
            memory_limit=memory_limit,
        )
        trunk = TrunkSettings(
            fno_hidden_channels,
            fno_n_layers,
            fno_lifting_channel_ratio,
            projection_channel_ratio,
            BlockSettings(fno_skip, fno_channel_mlp_skip, fno_channel_mlp_expansion),
            FourierTransform(modes, backend, layout),
            WeightSettings(fno_factorization, fno_rank, fno_separable, fno_implementation),
        )
        self.lifting = trunk.build_lifting(latent_channels + self.latent_feature_channels)
        self.blocks = trunk.build_blocks()
        self.gno_out = GraphKernel(
            fno_hidden_channels,
            fno_hidden_channels,
            embeddings[1],
            out_gno_channel_mlp_hidden_layers,
            transform_type=out_gno_transform_type,
            reduction=out_gno_reduction,
            weighting=gno_weighting_function,
            weighting_scale=gno_weight_function_scale,
            radius=out_gno_radius,
            memory_limit=memory_limit,
        )
        self.projection = trunk.build_projection(out_channels)
        self.set_precision(precision)

    def forward(
        self,
        input_geom: Tensor,
        latent_queries: Tensor,
        output_queries: Tensor | Mapping[str, Tensor],
        x: Tensor | None = None,
        latent_features: Tensor | None = None,
        *,
        input_offsets: Tensor | None = None,
        output_offsets: Tensor | Mapping[str, Tensor] | None = None,
    ) -> Any:
        """Values at the output points, (B, m, out_channels), or (Σm, out_channels) of packed points.

        Args:
            input_geom: the points of the geometry, (1, n, d), or packed (Σn, d) with `input_offsets`.
            latent_queries: nodes of the latent grid, (1, *grid, d), or (*grid, d) for all geometries, or (B, *grid, d).
            output_queries: where the answer is asked for, (1, m, d), or packed (Σm, d) with `output_offsets`; a mapping
                of several such sets, whose answers are a dictionary with the same keys.
            x: values at the points of the geometry, (B, n, in_channels), or packed (Σn, in_channels); None where the
                geometry is the only input.
            latent_features: values at the nodes, such as the signed distance, (B, *grid, F).
            input_offsets, output_offsets: (B + 1,), where each geometry of packed points begins and ends.
        """
        packed = input_offsets is not None
        points = self._points("input_geom", input_geom, input_offsets)
        grids = self._grids(latent_queries, points.count)
        f = None if x is None else self._features(x, points, packed)
        v = self._to_grid(points, grids, f)
        v = self._latent(self._append(v, latent_features, grids))
        if isinstance(output_queries, Mapping):
            offsets = {} if output_offsets is None else output_offsets
            if not isinstance(offsets, Mapping):
                raise ValueError("output_queries is a mapping: expected output_offsets to be one with the same keys")
            return {
                key: self._to_points(v, grids, self._points("output_queries", queries, offsets.get(key), points.count))
                for key, queries in output_queries.items()
            }
        if isinstance(output_offsets, Mapping):
            raise ValueError("output_offsets is a mapping: expected output_queries to be one with the same keys")
        return self._to_points(v, grids, self._points("output_queries", output_queries, output_offsets, points.count))

    def build_graphs(
        self,
        input_geom: Tensor,
        latent_queries: Tensor,
        output_queries: Tensor | Mapping[str, Tensor],
        *,
        input_offsets: Tensor | None = None,
        output_offsets: Tensor | Mapping[str, Tensor] | None = None,
    ) -> list[Graph]:
        """The graphs of a call with these points, in the order in which it asks `cache` for them."""
        points = self._points("input_geom", input_geom, input_offsets)
        grids = self._grids(latent_queries, points.count)
        queries = output_queries if isinstance(output_queries, Mapping) else {"": output_queries}
        offsets = output_offsets if isinstance(output_offsets, Mapping) else dict.fromkeys(queries, output_offsets)
        outputs = [self._points("output_queries", q, offsets.get(key), points.count) for key, q in queries.items()]
        return self._input_graphs(points, grids) + [g for out in outputs for g in self._output_graphs(grids, out)]

    def _input_graphs(self, points: _PointSets, grids: _Grids) -> list[Graph]:
        pairs = zip(points.parts(), grids.rows, strict=True)
        return [self.cache.graph(p, grid, self.in_gno_radius) for p, grid in pairs]

    def _output_graphs(self, grids: _Grids, outputs: _PointSets) -> list[Graph]:
        pairs = zip(outputs.parts(), grids.rows, strict=True)
        return [self.cache.graph(grid, p, self.out_gno_radius) for p, grid in pairs]

    def _points(self, name: str, points: Tensor, offsets: Tensor | None, count: int | None = None) -> _PointSets:
        """The point sets of a batch: packed, or one for all in neuraloperator's form; as many as `count`."""
        self._check(name, points, geometry=True)
        if offsets is None:
            if points.ndim != 3 or len(points) != 1 or points.shape[2] != self.gno_coord_dim:
                raise ValueError(
                    f"expected {name} (1, points, {self.gno_coord_dim}), or packed points with offsets; "
                    f"got {tuple(points.shape)} without offsets"
                )
            rows = points[0]
            sizes = [len(rows)]
        else:
            if points.ndim != 2 or points.shape[1] != self.gno_coord_dim:
                raise ValueError(f"expected packed {name} (points, {self.gno_coord_dim}), got {tuple(points.shape)}")
            rows = points
            sizes = read_offsets(f"the offsets of {name}", offsets, len(points))
        if count is not None and len(sizes) != count:
            raise ValueError(f"{len(sizes)} geometries in {name} and {count} in input_geom")
        check_points(name, rows)
        return _PointSets(self._coordinates(rows), sizes, packed=offsets is not None)

    def _grids(self, latent_queries: Tensor, count: int) -> _Grids:
        """The latent grid of each geometry."""
        self._check("latent_queries", latent_queries, geometry=True)
        grids = latent_queries if latent_queries.ndim == self.n_dim + 2 else latent_queries.unsqueeze(0)
        if grids.ndim != self.n_dim + 2 or len(grids) not in (1, count) or grids.shape[-1] != self.gno_coord_dim:
            raise ValueError(
                f"expected latent_queries ({count} or 1, {self.n_dim} grid axes, {self.gno_coord_dim}), "
                f"got {tuple(latent_queries.shape)}"
            )
        rows = self._coordinates(grids.flatten(1, -2)).expand(count, -1, -1)
        return _Grids(rows, tuple(grids.shape[1:-1]))

    def _features(self, x: Tensor, points: _PointSets, packed: bool) -> Tensor:
        """(N, R, C): R functions on the same points, or one on all packed points."""
        self._check("x", x)
        good = x.ndim == (2 if packed else 3) and x.shape[-2] == len(points.rows) and x.shape[-1] == self.in_channels
        if not good:
            form = "" if packed else "batch, "
            raise ValueError(
                f"expected x ({form}{len(points.rows)} points, {self.in_channels} channels), got {tuple(x.shape)}"
            )
        return x.unsqueeze(1) if packed else x.transpose(0, 1)

    def _to_grid(self, points: _PointSets, grids: _Grids, f: Tensor | None) -> Tensor:
        """(B, C, *grid): the input kernel, from the points to the grid of each geometry."""
        v = self.gno_in(pack_graphs(self._input_graphs(points, grids)), points.rows, grids.rows.flatten(0, 1), f)
        v = v.unflatten(0, (points.count, -1)).permute(0, 2, 3, 1)
        return v.reshape(v.shape[0] * v.shape[1], v.shape[2], *grids.shape)

    def _append(self, v: Tensor, latent_features: Tensor | None, grids: _Grids) -> Tensor:
        """Append the features on the grid; a batch of either shares what the other has once."""
        if latent_features is None:
            if self.latent_feature_channels:
                raise ValueError(f"the model has {self.latent_feature_channels} latent features and got none")
            return v
        self._check("latent_features", latent_features)
        batch, expected = len(latent_features), (*grids.shape, self.latent_feature_channels)
        if not self.latent_feature_channels or tuple(latent_features.shape[1:]) != expected:
            raise ValueError(
                f"expected latent_features (batch, *{expected}), got {tuple(latent_features.shape)}; "
                f"the model has latent_feature_channels={self.latent_feature_channels or None}"
            )
        if batch != len(v) and 1 not in (batch, len(v) if grids.count == 1 else 0):
            raise ValueError(f"latent_features for {batch} samples and {len(v)} inputs: expected as many, or one")
        size = len(v) if batch == 1 else batch
        extra = latent_features.movedim(-1, 1).to(v.dtype)
        return torch.cat([t.expand(size, *t.shape[1:]) for t in (v, extra)], dim=1)

    def _latent(self, v: Tensor) -> Tensor:
        v = self.lifting(v)
        for block in self.blocks:
            v = block(v)
        return torch.tanh(v) if self.out_gno_tanh else v

    def _to_points(self, v: Tensor, grids: _Grids, outputs: _PointSets) -> Tensor:
        """The output kernel and the projection: (B, C, *grid) to (B, m, O), or packed (Σm, O)."""
        graph = pack_graphs(self._output_graphs(grids, outputs))
        f = v.flatten(2).unflatten(0, (grids.count, -1)).permute(0, 3, 1, 2).flatten(0, 1)
        rows = self.gno_out(graph, grids.rows.flatten(0, 1), outputs.rows, f)
        out: Tensor = self.projection(rows.permute(1, 2, 0)).transpose(1, 2)
        return self.answer(out[0] if outputs.packed else out)

    def _check(self, name: str, given: Tensor, geometry: bool = False) -> None:
        """Graphs know no weights: a model on meta, which is planned with, has the graphs of real points."""
        anywhere = geometry and self.masters.is_meta and isinstance(given, Tensor)
        check_tensor(name, given, given.device if anywhere else self.masters.device)

    def _coordinates(self, points: Tensor) -> Tensor:
        """Coordinates in a half format would move the points; they stay as they are given, fp32 at least."""
        answer = self.resolved(points.device).answer
        return points.double() if answer is torch.float64 else at_least_fp32(points)


@dataclass(frozen=True)
class _PointSets:
    """Points (Σn, d) of one geometry after the other, `sizes` of each."""

    rows: Tensor
    sizes: list[int]
    packed: bool

    @property
    def count(self) -> int:
        return len(self.sizes)

    def parts(self) -> tuple[Tensor, ...]:
        return self.rows.split(self.sizes)


@dataclass(frozen=True)
class _Grids:
    """Latent points (geometries, points, d) of grids with this shape."""

    rows: Tensor
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.rows)
