"""parallelize: a model whose fields are shared among processes along the axes of their grid.

    field (B, C, *grid)       pieces along the sharded axes
    spectral weights          dense: rows of the first mode axis; factorized: whole (they are small)
    all other parameters      whole, their gradients summed over processes

Pointwise layers, most of a model's time and memory, are local. Spectra are exchanged (`transform`), norms and losses
exchange a few numbers for each sample. Of a GINO the latent grid is in pieces (`points`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from halfwave.models import GINO, AdaptiveNorm, FNOBlock, GraphKernel, GridOperator, NeuralOperator, NormActivation
from halfwave.numerics import run_linear
from halfwave.parallel.exchange import SharedWeights, SumOver
from halfwave.parallel.layers import PieceEmbedding, PieceMean, PiecePadding
from halfwave.parallel.pieces import GridLayout, Place
from halfwave.parallel.points import PieceSums
from halfwave.parallel.ranks import Ranks
from halfwave.parallel.shards import as_one_process, shard_of, shard_parameter
from halfwave.parallel.transform import ShardedTransform
from halfwave.spectral import DenseWeight, FourierTransform, SpectralConv, SphericalTransform

_OF_WHOLE_FIELDS = ("2-sigma-clip", "normalise")


def parallelize(
    model: nn.Module,
    mesh: DeviceMesh | GridLayout,
    axes: Sequence[int] = (0,),
    data: DeviceMesh | Ranks | None = None,
) -> NeuralOperator:
    """A copy of `model` that takes and returns this process's piece of a field.

    Pieces are those of `torch.tensor_split` along grid axis axes[i] over dimension i of `mesh`:

    >>> mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("data", "grid"))
    >>> parallel = hw.parallelize(model, mesh["grid"], axes=(0,), data=mesh["data"])
    >>> y_piece = parallel(x.tensor_split(4, dim=2)[mesh["grid"].get_local_rank()])

    The loss of the whole problem is the sum of what the processes call `backward` on: then every parameter has the
    gradient that it has in one process. `state_dict` and `load_state_dict` are those of the model in one process; all
    processes call the former together.

    A `GINO` in pieces is given all points and their values in every process, and of `latent_queries` and
    `latent_features` the piece. It returns its share of the answers: of the output points (of all packed ones, one
    after the other) those that `torch.tensor_split` gives this process of the mesh. The gradients of points and values
    that come whole are shares too, and add up to those of one process.

    Args:
        model: an `FNO`, `TFNO`, `SFNO` (along its latitudes, axis 0) or `GINO`; it is not changed.
        mesh: processes, one dimension for each sharded axis.
        axes: the sharded axes of the grid.
        data: processes with other samples, over which gradients are summed as well.
    """
    trunk = _check(model)
    layout = mesh if isinstance(mesh, GridLayout) else GridLayout.of(mesh, axes)
    others = Ranks.of(data) if isinstance(data, DeviceMesh) else data
    _check_layout(trunk, layout)
    made = _copy_with_own_rows(trunk, layout.ranks)
    place = Place(layout)
    made.register_forward_pre_hook(_Enter(place), with_kwargs=True)
    _place_ends(made, place)
    for conv in _convs(made):
        _shard(conv, place)
    for module in made.modules():
        if isinstance(module, NormActivation | AdaptiveNorm):
            module.mean = PieceMean(place)
    sum_gradients(_others(made, _share_kernels(made, layout.ranks, others)), layout.ranks, others)
    return made


def _share_kernels(model: nn.Module, grid: Ranks, data: Ranks | None) -> list[GraphKernel]:
    """The graph kernels of a model, each of which sums up its gradients in one message."""
    kernels = [module for module in model.modules() if isinstance(module, GraphKernel)]
    sums = tuple(SumOver(ranks, "gradients") for ranks in (grid, data) if ranks is not None and ranks.size > 1)
    for kernel in kernels if sums else []:
        kernel.shared = SharedWeights(sums)
    return kernels


def _others(model: nn.Module, kernels: Iterable[nn.Module]) -> list[nn.Parameter]:
    theirs = {id(p) for kernel in kernels for p in kernel.parameters()}
    return [p for p in model.parameters() if id(p) not in theirs]


def _place_ends(model: GridOperator | GINO, place: Place) -> None:
    """What comes before and after the blocks."""
    if not isinstance(model, GridOperator):
        model.gno_out.finish = PieceSums(place.layout.ranks)
        return
    if model.positional_embedding is not None:
        model.positional_embedding = PieceEmbedding(model.positional_embedding, place)  # type: ignore[assignment]
    model.padding = PiecePadding(model.padding, place)  # type: ignore[assignment]


def sum_gradients(parameters: Iterable[nn.Parameter], grid: Ranks, data: Ranks | None) -> None:
    """Sum the gradient of each parameter over the processes that share it, as it arrives."""
    for parameter in parameters:
        groups = [] if shard_of(parameter) is not None else [grid]
        groups += [] if data is None else [data]
        kernels = [SumOver(ranks, "gradients") for ranks in groups if ranks.size > 1]
        if kernels and parameter.requires_grad:
            parameter.register_hook(_SumGradient(tuple(kernels)))


@dataclass(frozen=True)
class _SumGradient:
    kernels: tuple[SumOver, ...]

    def __call__(self, grad: Tensor) -> Tensor:
        for kernel in self.kernels:
            grad = run_linear(kernel, grad)
        return grad


@dataclass(frozen=True)
class _Enter:
    """Before a model computes: which piece of which grid it is given."""

    place: Place

    def __call__(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for conv in _convs(model):
            if conv.stabilizer in _OF_WHOLE_FIELDS:
                raise ValueError(f"stabilizer {conv.stabilizer!r} needs whole fields: this model has pieces of them")
        if isinstance(model, GridOperator):
            x = args[0] if args else kwargs["x"]
            self.place.enter(tuple(x.shape[2:]), x.device)
            return
        nodes = args[1] if len(args) > 1 else kwargs["latent_queries"]
        self.place.enter(tuple(nodes.shape[-1 - cast("GINO", model).n_dim : -1]), nodes.device)


def place_of(model: nn.Module) -> Place | None:
    """Where a parallel model computes; None for any other."""
    hooks = model._forward_pre_hooks.values()
    return next((hook.place for hook in hooks if isinstance(hook, _Enter)), None)


def _copy_with_own_rows(model: GridOperator | GINO, ranks: Ranks) -> GridOperator | GINO:
    """A copy in which dense spectral weights are this process's rows; the whole ones are not copied on the way."""
    memo: dict[int, Any] = {}
    for conv in _convs(model):
        if isinstance(conv.weight, DenseWeight):
            memo[id(conv.weight.weight)] = shard_parameter(conv.weight.weight, ranks)
    return copy.deepcopy(model, memo)


def _shard(conv: SpectralConv, place: Place) -> None:
    assert isinstance(conv.transform, FourierTransform | SphericalTransform)
    dense = isinstance(conv.weight, DenseWeight)
    conv.transform = ShardedTransform(conv.transform, place, sharded_weight=dense)
    if isinstance(conv.weight, DenseWeight):
        shard = shard_of(conv.weight.weight)
        assert shard is not None
        as_one_process(conv.weight, "weight", shard)


def _convs(model: nn.Module) -> list[SpectralConv]:
    return [module for module in model.modules() if isinstance(module, SpectralConv)]


def _check(model: nn.Module) -> GridOperator | GINO:
    """ValueError for a model that cannot work on pieces."""
    on_points = isinstance(model, NeuralOperator) and model.takes_points
    if not (isinstance(model, GridOperator) or on_points):
        raise ValueError(f"a {type(model).__name__} cannot work on pieces of a field: expected FNO, TFNO, SFNO or GINO")
    trunk = cast("GridOperator | GINO", model)
    if place_of(model) is not None:
        raise ValueError("this model works on pieces of a field already")
    for conv in _convs(model):
        if isinstance(conv.transform, FourierTransform) and conv.transform.backend == "fft":
            raise ValueError("an FFT needs whole axes and this model has backend='fft': expected 'auto' or 'gemm'")
    blocks = [block for block in trunk.blocks if isinstance(block, FNOBlock)]
    if any(block.factors is not None and set(block.factors) != {1.0} for block in blocks):
        raise ValueError("resolution_scaling_factor changes the grid, and pieces of a field keep theirs")
    if any(block.settings.mlp_dropout for block in blocks):
        raise ValueError("channel_mlp_dropout draws for a whole field, and this would be given pieces of one")
    return trunk


def _check_layout(model: GridOperator | GINO, layout: GridLayout) -> None:
    if any(axis >= model.n_dim for axis in layout.axes):
        raise ValueError(f"axes {layout.axes} of a model on grids with {model.n_dim} axes: expected axes below that")
    spherical = isinstance(model, GridOperator) and isinstance(model.transform, SphericalTransform)
    if spherical and layout.axes != (0,):
        raise ValueError(f"an SFNO is shared along its latitudes: expected axes (0,), got {layout.axes}")
