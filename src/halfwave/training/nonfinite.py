"""What to do when a loss is inf or NaN: find where it began, say what would help, name the next safer policy."""

from __future__ import annotations

import torch

from halfwave.errors import InputError
from halfwave.measure import RangeMonitor
from halfwave.precision import Policy
from halfwave.training.clouds import Inputs
from halfwave.training.operator import Operator


class NonFiniteError(InputError):
    """Training met inf or NaN and could not go on; the last checkpoint is from before."""


_SAFER = {"mixed": "amp", "half": "full", "amp": "full"}


def safer(policy: Policy) -> Policy | None:
    """The next safer policy: mixed, then amp, then full; None after that."""
    if not any(format.half for format in policy.formats):
        return None
    half = policy.pointwise if policy.format("pointwise").half else None
    return Policy.named(_SAFER.get(policy.name, "full"), half, policy.stabilizer)


def promote(policy: Policy, left: list[str]) -> Policy:
    """`policy`, or the first safer one whose name is not among those left behind."""
    while policy.name in left and (next_one := safer(policy)) is not None:
        policy = next_one
    return policy


def diagnose(operator: Operator, x: Inputs) -> str:
    """One clause that names the first layer, stage and format with inf or NaN when an operator is applied to `x`."""
    model = operator.model
    broken = next((name for name, p in model.named_parameters() if not bool(torch.isfinite(p.detach()).all())), None)
    if broken is not None:
        return f"the weights {broken} are non-finite since the update before (gradients overflowed)"
    monitor = RangeMonitor(model)
    with monitor, torch.no_grad():
        operator(x)
    first = monitor.first_nonfinite
    if first is None:
        return "every layer is finite in the forward pass: the loss itself or its gradients overflowed"
    return f"first in {first.layer}, stage {first.stage}, format {first.format}{_help(first.stage, first.format)}"


def _help(stage: str, format: str) -> str:
    if format not in ("fp16", "fp8_e4m3", "fp8_e5m2"):
        return ""
    if stage == "forward_transform":
        return "; stabilizer=tanh, backend=gemm or dtype=bf16 would help"
    return "; dtype=bf16, or precision=amp or full, would help"
