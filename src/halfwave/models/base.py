"""What all models share: they know how they were built and under which policy they compute."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from torch import nn

from halfwave.precision import Policy, as_policy


class NeuralOperator(nn.Module):
    """A neural operator with its constructor's arguments in `config` (JSON-able) and its `policy`."""

    config: dict[str, Any]
    policy: Policy
    takes_points: ClassVar[bool] = False
    """Whether its inputs are point clouds, and not fields on a grid."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Wrap the constructor so that `config` holds its arguments, defaults included, but not the policy."""
        super().__init_subclass__(**kwargs)
        init = cls.__init__

        def recording(self: NeuralOperator, *args: Any, **options: Any) -> None:
            bound = inspect.signature(init).bind(self, *args, **options)
            bound.apply_defaults()
            init(self, *args, **options)
            # A constructor that forwards the rest of its options has had them recorded by the one it called.
            forwarded = bound.arguments.pop("options", None)
            self.config = ({} if forwarded is None else self.config) | {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in bound.arguments.items()
                if name not in ("self", "precision")
            }

        recording.__signature__ = inspect.signature(init)  # type: ignore[attr-defined]
        recording.__doc__ = init.__doc__
        cls.__init__ = recording  # type: ignore[method-assign,assignment]

    def check_policy(self, policy: Policy) -> None:
        """ValueError for a policy that this kind of model cannot honour; most honour all."""
        return

    def set_precision(self, policy: str | Policy) -> None:
        """Compute with another policy from now on, in every layer; master weights and their gradients stay fp32."""
        set_precision(self, policy)


def set_precision(model: nn.Module, policy: str | Policy) -> None:
    """Give every layer of `model` that has a policy this one; raises if there is none to honour it.

    Layers that the policy names (`Policy.layers`) get their own. Names are those of the neural operator's modules, also
    where `model` is a wrapper around it; one that no module has raises, as nothing would honour it.
    """
    chosen = as_policy(policy)
    for module in model.modules():
        if isinstance(module, NeuralOperator):
            for part in (chosen, *(own for _, own in chosen.layers)):
                module.check_policy(part)
    holders = {module: name for module, name in _names_in_operator(model).items() if _has_policy(module)}
    if not holders:
        raise ValueError(f"{type(model).__name__} has no layer that honours a precision policy")
    for layer, _ in chosen.layers:
        if not any(name == layer or name.startswith(f"{layer}.") for name in holders.values()):
            raise ValueError(f"{type(model).__name__} has no layer {layer!r}, for which the policy has formats")
    for module, name in holders.items():
        # The operator itself remembers the whole policy, from which it can be saved.
        module.policy = chosen if isinstance(module, NeuralOperator) else chosen.of(name)  # type: ignore[assignment]


def _has_policy(module: nn.Module) -> bool:
    return hasattr(module, "policy") or isinstance(module, NeuralOperator)


def _names_in_operator(model: nn.Module) -> dict[nn.Module, str]:
    """Each module with its name in the outermost neural operator around it, or in `model` where there is none."""
    operators = [name for name, module in model.named_modules() if isinstance(module, NeuralOperator)]
    names = {}
    for name, module in model.named_modules():
        above = next((o for o in operators if not o or name == o or name.startswith(f"{o}.")), "")
        names[module] = name.removeprefix(above).removeprefix(".") if above else name
    return names
