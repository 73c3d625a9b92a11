"""PolicyModule: what every layer and model that computes under a precision policy is."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.precision.policy import Policy, as_policy
from halfwave.precision.resolved import Resolved

# Kinds of devices whose autocast torch has.
_AUTOCAST = ("cpu", "cuda", "mps", "xpu")


class PolicyModule(nn.Module):
    """A module whose formats are those of its `policy`, and of nothing else.

    An ambient `torch.autocast` is switched off inside: it would narrow products that the policy has in fp32.
    """

    policy: Policy

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for kind in _AUTOCAST:
            if torch.is_autocast_enabled(kind):
                with torch.autocast(kind, enabled=False):
                    return self(*args, **kwargs)
        self.settle()
        return nn.Module.__call__(self, *args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Each class calls by code of its own: the compiler keeps its graphs, and what it has seen, by code."""
        super().__init_subclass__(**kwargs)
        call = PolicyModule.__call__
        code = call.__code__.replace(co_name=f"call_{cls.__qualname__}")
        cls.__call__ = FunctionType(code, call.__globals__, call.__name__)  # type: ignore[method-assign]

    def set_precision(self, policy: str | Policy) -> None:
        """Compute with another policy from now on; the master weights stay."""
        self.adopt(as_policy(policy))
        warn_of([self])

    def adopt(self, policy: Policy) -> None:
        """Take over a policy without a word; `set_precision` says what there is to say."""
        self.policy = policy

    def settle(self) -> None:
        """The module is about to compute: what it has chosen by itself is part of its function from now on."""
        return

    def concern(self) -> str | None:
        """What a user should know of the policy in this module."""
        return None

    def resolved(self, device: torch.device) -> Resolved:
        """The policy on a device, for the weights as they are."""
        return self.policy.on(device, self.masters.dtype)

    @property
    def masters(self) -> Tensor:
        """One of the weights: its dtype and device stand for all of them."""
        found = _first_parameter(self)
        if found is None:
            raise ValueError(f"{type(self).__name__} has no parameters to take a dtype and a device from")
        return found


def _first_parameter(module: nn.Module) -> Tensor | None:
    """The first of `module.parameters()`, without the search that this prepares: it is asked for in every call."""
    for parameter in module._parameters.values():
        if parameter is not None:
            return parameter
    below = (_first_parameter(child) for child in module._modules.values() if child is not None)
    return next((found for found in below if found is not None), None)


def warn_of(modules: Iterable[PolicyModule]) -> None:
    """One warning for each concern, however many modules share it."""
    for concern in dict.fromkeys(module.concern() for module in modules):
        if concern is not None:
            warnings.warn(concern, stacklevel=3)
