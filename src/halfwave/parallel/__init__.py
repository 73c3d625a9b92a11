"""Fields in pieces over several processes: only kept modes travel."""

from halfwave.parallel.fields import FieldPiece
from halfwave.parallel.mesh import MeshShape
from halfwave.parallel.parallelize import parallelize, place_of, sum_gradients
from halfwave.parallel.pieces import GridLayout, Piece, Span, split_sizes
from halfwave.parallel.ranks import Ranks
from halfwave.parallel.shards import clip_gradients, gradient_norm, own_rows, shard_of, whole_tensor
from halfwave.parallel.traffic import LayerTraffic, gradient_bytes, plan_traffic
from halfwave.parallel.wire import WireBytes, count_wire

__all__ = [
    "FieldPiece",
    "GridLayout",
    "LayerTraffic",
    "MeshShape",
    "Piece",
    "Ranks",
    "Span",
    "WireBytes",
    "clip_gradients",
    "count_wire",
    "gradient_bytes",
    "gradient_norm",
    "own_rows",
    "parallelize",
    "place_of",
    "plan_traffic",
    "shard_of",
    "split_sizes",
    "sum_gradients",
    "whole_tensor",
]
