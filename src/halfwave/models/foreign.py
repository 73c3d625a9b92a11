"""Foreign: a module of anybody's under a precision policy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from halfwave.models.base import NeuralOperator
from halfwave.precision import Policy, PolicyModule


class Foreign(PolicyModule):
    """A module that knows no policy, from fields B x C x grid to fields B x O x grid.

    Where the policy has pointwise products in fp16 or bf16 it runs under `torch.autocast`, which is what `amp` means;
    its answer is fp32. It has no spectral layers of this library's, so a policy that would be half in those alone is
    refused: nothing would honour it. `interop.convert` gives other libraries' operators such layers. Layers of this
    library inside it have the policy as anywhere.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.policy = Policy.named("full")

    @property
    def name(self) -> str:
        """The class of the module, as configs and files call it."""
        return foreign_name(self.module)

    def adopt(self, policy: Policy) -> None:
        """ValueError for a policy that changes nothing of this module and for formats that autocast lacks."""
        own = policy.format("pointwise").name
        if own not in _AUTOCAST:
            raise ValueError(f"{self.name} runs in fp32, fp16 or bf16 (torch.autocast), not in {own}")
        inside = any(isinstance(part, PolicyModule) for part in self.module.modules())
        if own == "fp32" and not inside and policy.name != "full":
            raise ValueError(
                f"{self.name} has no layer that precision {policy.name} acts on: expected full, amp or mixed "
                f"(halfwave.interop.convert gives operators of other libraries spectral layers)"
            )
        self.policy = policy

    def forward(self, x: Tensor, **more: Any) -> Tensor:
        """(B, C, *grid) to (B, O, *grid) as the module has it, in fp32; `more` is handed on."""
        dtype = _AUTOCAST[self.policy.format("pointwise").name]
        if dtype is None:
            return self.module(x, **more)
        with torch.autocast(x.device.type, dtype):
            return self.module(x, **more).float()


_AUTOCAST: dict[str, torch.dtype | None] = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}


def foreign_name(module: nn.Module) -> str:
    return f"module:{type(module).__name__}"


def under_policy(module: nn.Module) -> nn.Module:
    """The module itself if it is one of this library's operators, or else within a `Foreign`."""
    return module if isinstance(module, NeuralOperator | Foreign) else Foreign(module)
