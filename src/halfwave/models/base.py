"""What all models share: they know how they were built and under which policy they compute."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from halfwave.models.arguments import refuse_unknown
from halfwave.models.embeddings import GridEmbedding, SinusoidalEmbedding
from halfwave.models.layer_filter import LayerFilter, chosen_by, gathered
from halfwave.models.nonlinearity import nonlinearity_name
from halfwave.precision import Policy, PolicyModule, as_policy, warn_of
from halfwave.spectral import check_field


class NeuralOperator(PolicyModule):
    """A neural operator with its constructor's arguments in `config` (JSON-able) and its `policy`.

    Dtypes: the policy decides what is computed in which format, and fp32 in it means the dtype of the weights.

    | weights                   | roles in fp32 compute in | the answer is in |
    | ------------------------- | ------------------------ | ---------------- |
    | as built                  | fp32                     | fp32             |
    | `double()`                | fp64                     | fp64             |
    | `half()`, `bfloat16()`    | fp16, bf16               | fp16, bf16       |
    | any, `precision="double"` | fp64                     | fp64             |

    Half-precision weights store half as much and answer as a policy of that format does, on rounded weights; sums
    inside products stay fp32. They are for inference: small updates vanish in them, so train fp32 weights under a
    policy. Inputs may have any real floating-point dtype. An ambient `torch.autocast` changes nothing.
    """

    config: dict[str, Any]
    settled: bool = False
    """Whether it has computed."""
    takes_points: ClassVar[bool] = False
    """Whether its inputs are point clouds, and not fields on a grid."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Wrap the constructor so that `config` holds its arguments, defaults included, but not the policy."""
        super().__init_subclass__(**kwargs)
        if "__init__" not in vars(cls):
            return
        init = cls.__init__

        def recording(self: NeuralOperator, *args: Any, **options: Any) -> None:
            if type(self) is cls:
                refuse_unknown(cls, options)
            bound = inspect.signature(init).bind(self, *args, **options)
            bound.apply_defaults()
            init(self, *args, **options)
            # A constructor that forwards the rest of its options has had them recorded by the one it called.
            forwarded = bound.arguments.pop("options", None)
            self.config = ({} if forwarded is None else self.config) | {
                name: _recorded(name, value)
                for name, value in bound.arguments.items()
                if name not in ("self", "precision")
            }

        recording.__signature__ = inspect.signature(init)  # type: ignore[attr-defined]
        recording.__doc__ = init.__doc__
        cls.__init__ = recording  # type: ignore[method-assign,assignment]

    def check_policy(self, policy: Policy) -> None:
        """ValueError for a policy that this kind of model cannot honour; most honour all."""
        return

    def set_precision(self, policy: str | Policy, filter: LayerFilter | None = None) -> None:
        """Compute with another policy from now on, in every layer or in those that `filter` chooses, see
        `halfwave.set_precision`; master weights and their gradients stay fp32."""
        set_precision(self, policy, filter)

    @classmethod
    def from_pretrained(cls, source: str | Path, **options: Any) -> nn.Module:
        """The model of this class in a folder, a file or a repository of the Hugging Face Hub, see `export.hub`."""
        return _hub().from_pretrained(source, None if cls is NeuralOperator else cls.__name__, **options)

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Share the model with a card as a repository ``"owner/name"``, see `export.hub`."""
        return _hub().push_to_hub(self, repo_id, **options)

    def settle(self) -> None:
        # All layers at once, before any of them: inside a checkpoint the compiler allows no lasting change.
        if torch.compiler.is_compiling() or not self.settled:
            self.settled = True
            for layer in _layers(self):
                layer.settle()

    def receive(self, x: Tensor, channels: int, axes: int, grid: str | None = None) -> Tensor:
        """The input (B, channels, *grid) in the dtype that the model answers in; an error for what is not one."""
        return check_field(x, channels, axes, self.masters.device, grid).to(self.resolved(x.device).answer)

    def answer(self, out: Tensor) -> Tensor:
        """The answer in its dtype, whatever the format of the last layer."""
        return out.to(self.resolved(out.device).answer)

    def extra_repr(self) -> str:
        """The first line of `print(model)`: what it computes in, and what its weights take."""
        weights = list(self.parameters())
        count, nbytes = sum(p.numel() for p in weights), sum(p.numel() * p.element_size() for p in weights)
        stored = ", ".join(dict.fromkeys(str(p.dtype).removeprefix("torch.") for p in weights))
        return f"precision={self.policy.brief()}, parameters={count:,}, weights={nbytes:,} bytes ({stored})"


def set_precision(model: nn.Module, policy: str | Policy, filter: LayerFilter | None = None) -> None:
    """Give every layer of `model` that has a policy this one; raises if there is none to honour it.

    Layers that the policy names (`Policy.layers`) get their own. Names are those of the neural operator's modules, also
    where `model` is a wrapper around it; one that no module has raises, as nothing would honour it.

    `filter` leaves the other layers as they are. It is a name with wildcards, several of them, or a function of a
    layer's name and module; a name stands for all that lies under it. What each layer has then is in `model.policy`,
    and is saved with it.

    >>> model = FNO((8, 8), 1, 1, 16, n_layers=2)
    >>> set_precision(model, "mixed", filter="blocks.0")
    >>> set_precision(model, "half", filter=lambda name, layer: isinstance(layer, SpectralConv))
    >>> set_precision(model, "full", filter=["lifting", "projection"])
    """
    chosen = as_policy(policy)
    if filter is not None:
        _set_some(model, chosen, filter)
        return
    for module in model.modules():
        if isinstance(module, NeuralOperator):
            for part in (chosen, *(own for _, own in chosen.layers)):
                module.check_policy(part)
    holders = {m: name for m, name in names_in_operator(model).items() if isinstance(m, PolicyModule)}
    if not holders:
        raise ValueError(f"{type(model).__name__} has no layer that honours a precision policy")
    for layer, _ in chosen.layers:
        if not any(name == layer or name.startswith(f"{layer}.") for name in holders.values()):
            raise ValueError(f"{type(model).__name__} has no layer {layer!r}, for which the policy has formats")
    for module, name in holders.items():
        # The operator itself remembers the whole policy, from which it can be saved.
        module.adopt(chosen if isinstance(module, NeuralOperator) else chosen.of(name))
    warn_of(holders)


def _set_some(model: nn.Module, policy: Policy, filter: LayerFilter) -> None:
    """This policy in the layers that a filter chooses; the operators around them remember who has what."""
    names = {m: name for m, name in names_in_operator(model).items() if isinstance(m, PolicyModule)}
    layers = {module: name for module, name in names.items() if not isinstance(module, NeuralOperator)}
    chosen = chosen_by(filter, layers, type(model).__name__)
    if policy.layers:
        raise ValueError("a policy with formats for layers of its own takes no filter: it names them already")
    operators = [module for module in names if isinstance(module, NeuralOperator)]
    for operator in operators:
        operator.check_policy(policy)
    for layer in chosen:
        layer.adopt(policy)
    for operator in operators:
        own = {layers[m]: m.policy for m in operator.modules() if isinstance(m, PolicyModule) and m in layers}
        operator.adopt(gathered(operator.policy, own))
    warn_of(chosen)


@contextmanager
def computing_in(model: nn.Module, policy: str | Policy) -> Iterator[None]:
    """Within, `model` computes under another policy; afterwards every layer has its own again.

    A stabilizer that has acted is part of the function and acts under the other policy too, unless that names one.
    """
    holders = [module for module in model.modules() if isinstance(module, PolicyModule)]
    before = [module.policy for module in holders]
    try:
        set_precision(model, policy)
        yield
    finally:
        for module, own in zip(holders, before, strict=True):
            module.adopt(own)


def _hub() -> Any:
    """By its name, when it is asked for: files stand above models, and few programs share any."""
    return import_module("halfwave.export.hub")


def _recorded(name: str, value: Any) -> Any:
    """The value of the argument `name` as JSON, such that the same model is built from it."""
    if isinstance(value, (tuple, list)):
        return [_recorded("", part) for part in value]
    if isinstance(value, (GridEmbedding, SinusoidalEmbedding)):
        return value.settings()
    return nonlinearity_name(value) if name == "non_linearity" else value


def _layers(model: nn.Module) -> Iterator[PolicyModule]:
    return (m for m in model.modules() if isinstance(m, PolicyModule) and not isinstance(m, NeuralOperator))


def names_in_operator(model: nn.Module) -> dict[nn.Module, str]:
    """Each module with its name in the outermost neural operator around it, or in `model` where there is none."""
    operators = [name for name, module in model.named_modules() if isinstance(module, NeuralOperator)]
    names = {}
    for name, module in model.named_modules():
        above = next((o for o in operators if not o or name == o or name.startswith(f"{o}.")), "")
        names[module] = name.removeprefix(above).removeprefix(".") if above else name
    return names
