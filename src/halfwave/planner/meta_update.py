"""MetaUpdate: what an optimizer holds, and its update in one fused kernel, on `meta`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from halfwave.errors import InputError

# Tensors of a parameter's size that each keeps.
_MOMENTS: Mapping[str, tuple[str, ...]] = {
    "adamw": ("exp_avg", "exp_avg_sq"),
    "adam": ("exp_avg", "exp_avg_sq"),
    "momentum": ("momentum_buffer",),
    "sgd": (),
}
OPTIMIZERS = tuple(_MOMENTS)


class MetaUpdate:
    """An optimizer after its first step: torch's fused ``"adamw"`` or ``"adam"``, or SGD with and without momentum.

    torch's own classes refuse fused kernels on `meta`; their kernels do not. Fused ones need no temporaries.
    """

    def __init__(self, name: str, parameters: Mapping[str, Tensor]) -> None:
        if name not in _MOMENTS:
            raise InputError(f"unknown optimizer {name!r}: expected one of {', '.join(OPTIMIZERS)}")
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
