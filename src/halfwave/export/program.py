"""Program: an operator as it leaves Python, fields in and fields out, with its normalizers and weights inside."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from halfwave.export.shapes import Shapes, choose_shapes
from halfwave.models import NeuralOperator, set_precision
from halfwave.numerics import Portable, portably
from halfwave.precision import Policy, as_policy
from halfwave.training import Operator

Weights = Literal["fp32", "fp16"]
WEIGHTS = ("fp32", "fp16")
# Stored weights are scaled by a power of two so that the largest lies below this: fp16 ends at 65504, and what is far
# smaller than the largest keeps its bits.
_LARGEST = 2.0**15


class StoredWeights(nn.Module):
    """Parameters in fp16, each with a power of two that brings it back: w = 2^e h.

    Half the bytes of a file. Products are not taken in fp16: the weights are widened first, once where a runtime folds
    constants.
    """

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.names, self.scales = tuple(parameters), []
        for number, value in enumerate(parameters.values()):
            scale = _scale_of(value)
            self.scales.append(scale)
            self.register_buffer(f"w{number}", (value / scale).half())

    def restored(self) -> dict[str, Tensor]:
        """The parameters by name, in fp32."""
        found = zip(self.names, self.buffers(), self.scales, strict=True)
        return {name: half.float() * scale for name, half, scale in found}


class Program(nn.Module):
    """x (B, C, *grid) to y (B, O, *grid), computed portably (`numerics.portable`).

    Attributes:
        reference: the same operator as ordinary torch runs it, with the weights as they are stored.
        shapes: of its input.
        rounding: what storing the weights changed, relative to the largest weight.
    """

    def __init__(self, operator: Operator, shapes: Shapes, weights: Weights) -> None:
        super().__init__()
        self.shapes, self.mode = shapes, Portable(free_grid=shapes.free_grid)
        self.stored: StoredWeights | None = None
        if weights == "fp16":
            self.stored = StoredWeights(dict(operator.named_parameters()))
            operator.load_state_dict(self.stored.restored(), strict=False)
            # Not a submodule: its parameters would be written to the file as well.
            object.__setattr__(self, "reference", operator)
        else:
            self.reference = operator

    def forward(self, x: Tensor) -> Tensor:
        with portably(self.mode):
            if self.stored is None:
                out: Tensor = self.reference(x)
            else:
                out = functional_call(self.reference, self.stored.restored(), (x,))
        return out

    @torch.no_grad()
    def prepare(self) -> Program:
        """Make the constants, by running once; from then on none may be missing."""
        self.mode.sealed = False
        self(torch.zeros(self.shapes.example))
        self.mode.sealed = True
        return self

    @property
    def policy(self) -> Policy:
        policy: Policy = self.reference.model.policy
        return policy


def build_program(
    model: nn.Module,
    grid: Sequence[int] | None = None,
    dynamic: Sequence[str] = ("batch",),
    weights: Weights = "fp32",
    policy: str | Policy | None = None,
) -> Program:
    """The program of a model, or of an `Operator` with its normalizers; the model itself is left as it is.

    ValueError, one line, for a model or a policy that cannot leave Python.
    """
    if weights not in WEIGHTS:
        raise ValueError(f"unknown weights {weights!r}: expected one of {', '.join(WEIGHTS)}")
    bare = model.model if isinstance(model, Operator) else model
    if not isinstance(bare, NeuralOperator):
        raise ValueError(f"a {type(bare).__name__} cannot be exported: expected a model of halfwave, or an Operator")
    shapes = choose_shapes(bare, grid, dynamic)
    operator = copy.deepcopy(model if isinstance(model, Operator) else Operator(bare, None, None))
    operator.eval().requires_grad_(False).to("cpu")
    if policy is not None:
        set_precision(operator, as_policy(policy))
    _check_policy(operator.model.policy)
    return Program(operator, shapes, weights).eval().prepare()


def _check_policy(policy: Policy) -> None:
    if policy.emulated:
        emulated = ", ".join(sorted(f.name for f in policy.formats if f.emulated))
        raise ValueError(f"a policy with {emulated} cannot be exported: no runtime rounds to that; give another policy")


def _scale_of(value: Tensor) -> float:
    largest = float(value.abs().max()) if value.numel() else 0.0
    return 2.0 ** math.ceil(math.log2(largest / _LARGEST)) if largest > 0 else 1.0
