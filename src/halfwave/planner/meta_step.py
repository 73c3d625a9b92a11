"""One training step on `meta`: the real forward pass, backward pass and update, without a number in memory."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from halfwave.errors import InputError
from halfwave.models import NeuralOperator, PreparedGraphs, recompute_blocks, set_precision
from halfwave.numerics import few_slices, meta_as
from halfwave.optimizers import OPTIMIZERS as TRAINED
from halfwave.optimizers import build_optimizer
from halfwave.planner.module_path import ModulePath
from halfwave.precision import Policy

Loss = Callable[[Any, Any], Tensor]
Prepare = Callable[[nn.Module], nn.Module]
# Tensors of a parameter's size that each keeps.
_MOMENTS: Mapping[str, tuple[str, ...]] = {
    "adamw": ("exp_avg", "exp_avg_sq"),
    "adam": ("exp_avg", "exp_avg_sq"),
    "momentum": ("momentum_buffer",),
    "sgd": (),
}
PAIRED = tuple(name for name in TRAINED if name not in _MOMENTS)
OPTIMIZERS = (*_MOMENTS, *PAIRED)
_FORMS = "a tensor, a shape, a sequence of them, or a mapping from argument names to them"


def relative_l2(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean of ||p - y|| / ||y|| over the batch in fp32: the tensors of the trainer's loss, no more and no fewer."""
    p, y = prediction.float(), target.float()
    return (_norm(p - y) / (_norm(y) + 1e-8)).mean()


def _norm(u: Tensor) -> Tensor:
    return torch.linalg.vector_norm(u.flatten(1), dim=1)


class MetaStep:
    """A copy of a model on `meta` with inputs, target and optimizer state, ready for a step on a kind of device.

    The given model is not touched, and nothing of its size is allocated.

    Args:
        model: any module, on any device; those of this library decide on `meta` as they do on `kind`.
        inputs: of its forward pass: a tensor, a shape, a sequence of these in the order of the arguments (one more is
            the target), or a mapping from the names of arguments (``"y"`` is the target). A model of points needs
            tensors: who neighbours whom is in the coordinates.
        policy: for every layer; None for a model that has none.
        optimizer: one of `OPTIMIZERS`.
        recompute: every block recomputes, as in the trainer.
        kind: of device that `meta` stands for, ``"cpu"`` or ``"cuda"``.
        loss: of prediction and target; by default the relative L2 error.
        prepare: what is done to the copy first, such as `parallelize` with planned processes; the inputs are those of
            its result.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Any,
        policy: Policy | None,
        optimizer: str = "adamw",
        recompute: bool = False,
        kind: str = "cpu",
        loss: Loss | None = None,
        prepare: Prepare | None = None,
    ) -> None:
        self.kind = kind
        self.model = copy_to_meta(model)
        if prepare is not None:
            self.model = prepare(self.model)
        if policy is not None:
            set_precision(self.model, policy)
        if recompute:
            recompute_blocks(self.model)
        given = _by_name(model, inputs)
        target = given.pop("target", None)
        if isinstance(model, NeuralOperator) and model.takes_points:
            # The given model's cache searches: several plans of one geometry, and its training, share the work.
            made: Any = self.model
            made.cache = PreparedGraphs([graph.on_meta() for graph in _graphs(model, given)])
        empty = _OnMeta()
        self.inputs = {name: tree_map(empty, value) for name, value in given.items()}
        self.loss = loss or relative_l2
        self.parameters = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        self.update = _update(optimizer, self.model)
        # Also fills the caches of matrices and plans, as the first of many steps does.
        with meta_as(kind), few_slices(), torch.no_grad():
            prediction = self.model(**self.inputs)
        self.target = tree_map(_float_like, prediction) if target is None else tree_map(empty, target)

    def run(self, path: ModulePath | None = None) -> None:
        """Forward pass, loss, backward pass, update; `path` is told where the step is."""
        with meta_as(self.kind), nullcontext() if path is None else path.follow(self.model):
            self._enter(path, "forward")
            loss = self._loss()
            self._enter(path, "backward")
            loss.backward()
            self._enter(path, "update")
            self.update.step()

    def _loss(self) -> Tensor:
        prediction = self.model(**self.inputs)
        if isinstance(prediction, Mapping):
            return torch.stack([self.loss(prediction[key], self.target[key]) for key in prediction]).sum()
        return self.loss(prediction, self.target)

    @staticmethod
    def _enter(path: ModulePath | None, phase: str) -> None:
        if path is not None:
            path.enter(phase)

    def batch(self) -> list[Tensor]:
        """Inputs and target."""
        return [t for t in tree_leaves((self.inputs, self.target)) if isinstance(t, Tensor)]

    def gradients(self) -> dict[str, Tensor]:
        return {name: p.grad for name, p in self.parameters.items() if p.grad is not None}


def _update(name: str, model: nn.Module) -> MetaUpdate | PairUpdate:
    """The optimizer called `name` on a model on `meta`."""
    if name not in OPTIMIZERS:
        raise InputError(f"unknown optimizer {name!r}: expected one of {', '.join(OPTIMIZERS)}")
    if name in PAIRED:
        return PairUpdate(name, model)
    return MetaUpdate(name, {key: p for key, p in model.named_parameters() if p.requires_grad})


class PairUpdate:
    """The library's own AdamW, whose update runs on `meta` as it is, with its state made beforehand."""

    def __init__(self, name: str, model: nn.Module) -> None:
        self.optimizer = build_optimizer(name, model, lr=1e-3, weight_decay=0.0)
        self.names: dict[Tensor, str] = {p: key for key, p in model.named_parameters()}
        for p in self.names:
            p.grad = torch.empty_like(p) if p.requires_grad else None
        self.step()
        self.optimizer.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Tensor]:
        """All that is kept between steps, by "parameter.moment"."""
        return {f"{self.names[p]}.{k}": t for p, kept in self.optimizer.state.items() for k, t in kept.items()}

    def step(self) -> None:
        """One update of the parameters that have a gradient."""
        self.optimizer.step()


class MetaUpdate:
    """An optimizer after its first step: torch's fused ``"adamw"`` or ``"adam"``, or SGD with and without momentum.

    torch's own classes refuse fused kernels on `meta`; their kernels do not. Fused ones need no temporaries.
    """

    def __init__(self, name: str, parameters: Mapping[str, Tensor]) -> None:
        self.name = name
        self.parameters = parameters
        self.moments = {
            moment: {key: torch.empty_like(p, requires_grad=False) for key, p in parameters.items()}
            for moment in _MOMENTS[name]
        }
        adam = name.startswith("adam")
        self.steps = {key: torch.empty((), device=p.device) for key, p in parameters.items()} if adam else {}

    def state(self) -> dict[str, Tensor]:
        """All that is kept between steps, by "parameter.moment"."""
        kept = {f"{key}.{moment}": t for moment, tensors in self.moments.items() for key, t in tensors.items()}
        return kept | {f"{key}.step": t for key, t in self.steps.items()}

    @torch.no_grad()
    def step(self) -> None:
        """One update of the parameters that have a gradient."""
        used = [key for key, p in self.parameters.items() if p.grad is not None]
        parameters = [self.parameters[key] for key in used]
        gradients = [p.grad for p in parameters if p.grad is not None]
        moments = [[tensors[key] for key in used] for tensors in self.moments.values()]
        if self.steps:
            steps = [self.steps[key] for key in used]
            torch._foreach_add_(steps, 1)
            kernel: Any = torch._fused_adamw_ if self.name == "adamw" else torch._fused_adam_
            kernel(
                parameters, gradients, *moments, [], steps,
                lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
            )  # fmt: skip
        else:
            self._descend(parameters, gradients, moments)

    @staticmethod
    def _descend(parameters: list[Tensor], gradients: list[Tensor], moments: list[list[Tensor]]) -> None:
        """In place, as the fused kernel (which torch has no form of for `meta`)."""
        for buffers in moments:
            torch._foreach_mul_(buffers, 0.9)
            torch._foreach_add_(buffers, gradients)
            gradients = buffers
        torch._foreach_add_(parameters, gradients, alpha=-1e-3)


def copy_to_meta(model: nn.Module) -> nn.Module:
    """A copy whose tensors are on `meta`, shared ones still shared; those of the model are not copied on the way."""
    memo: dict[int, Any] = {}
    for tensor in _tensors(model):
        empty = torch.empty_like(tensor, device="meta")
        memo[id(tensor)] = nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
    made = copy.deepcopy(model, memo)
    for parameter in made.parameters():
        parameter.grad = None
    return made


def _tensors(model: nn.Module) -> Iterator[Tensor]:
    attributes = chain.from_iterable(vars(module).values() for module in model.modules())
    yield from chain(model.parameters(), model.buffers(), (a for a in attributes if isinstance(a, Tensor)))


def _by_name(model: nn.Module, inputs: Any) -> dict[str, Any]:
    """Inputs by the names of the forward pass's arguments, and ``"target"`` if there is one."""
    names = [name for name, p in inspect.signature(model.forward).parameters.items() if _is_input(p)]
    if isinstance(inputs, Mapping):
        found = {("target" if n == "y" and n not in names else n): _as_tensor(value) for n, value in inputs.items()}
        unknown = set(found) - {*names, "target"}
        if unknown:
            raise InputError(f"{type(model).__name__} has no input {min(unknown)!r}: expected {', '.join(names)}")
        return {name: value for name, value in found.items() if value is not None}
    many = isinstance(inputs, Sequence) and not _is_shape(inputs)
    values = [_as_tensor(value) for value in (inputs if many else [inputs])]
    if not 0 < len(values) <= len(names) + 1:
        raise InputError(f"{type(model).__name__} takes {len(names)} inputs and a target, got {len(values)}")
    return {name: value for name, value in zip([*names, "target"], values, strict=False) if value is not None}


def _is_input(parameter: inspect.Parameter) -> bool:
    """Whether an argument of a forward pass may be a tensor; where it says nothing, it may."""
    said = parameter.annotation
    return parameter.kind is not parameter.VAR_KEYWORD and (said is parameter.empty or "Tensor" in str(said))


def _as_tensor(value: Any) -> Any:
    if value is None or isinstance(value, Tensor | Mapping):
        return value
    if _is_shape(value):
        if min(value) < 1:
            raise InputError(f"inputs of a plan must have at least one entry on every axis, got {tuple(value)}")
        return torch.empty(tuple(value), device="meta")
    raise InputError(f"cannot plan for inputs {value!r}: expected {_FORMS}")


def _is_shape(value: Any) -> bool:
    return isinstance(value, Sequence) and len(value) > 0 and all(type(n) is int for n in value)


class _OnMeta:
    """Tensors to `meta`, each once; integers (offsets of packed points) are read by models, so they stay."""

    def __init__(self) -> None:
        self._made: dict[int, Tensor] = {}

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        if id(value) not in self._made:
            self._made[id(value)] = torch.empty_like(value, device="meta", requires_grad=value.requires_grad)
        return self._made[id(value)]


def _float_like(prediction: Tensor) -> Tensor:
    return torch.empty(prediction.shape, dtype=torch.float32, device="meta")


def _graphs(model: Any, inputs: Mapping[str, Any]) -> list[Any]:
    names = ("input_geom", "latent_queries", "output_queries", "input_offsets", "output_offsets")
    geometry = {name: inputs[name] for name in names if inputs.get(name) is not None}
    if any(isinstance(t, Tensor) and t.is_meta for t in tree_leaves(geometry)):
        name = type(model).__name__
        raise InputError(f"a plan of a {name} needs the coordinates themselves: expected tensors of points, got shapes")
    return model.build_graphs(**geometry)
