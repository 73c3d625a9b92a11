"""Program: an operator as it leaves Python, fields in and fields out, with its normalizers and weights inside."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from halfwave.export.half_storage import StoredWeights
from halfwave.export.shapes import Shapes, choose_shapes
from halfwave.models import NeuralOperator, set_precision
from halfwave.numerics import Portable, portably
from halfwave.precision import Policy, as_policy
from halfwave.training import Operator

Weights = Literal["fp32", "fp16"]
WEIGHTS = ("fp32", "fp16")


class Program(nn.Module):
    """x (B, C, *grid) to y (B, O, *grid), computed portably (`numerics.portable`).

    Attributes:
        reference: the same operator as ordinary torch runs it, with the weights as they are stored.
        shapes: of its input.
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

    def interpreted(self) -> Program:
        """This program for runtimes that run it operator by operator."""
        self.mode = Portable(free_grid=self.shapes.free_grid, interpreted=True)
        return self.prepare()

    @property
    def policy(self) -> Policy:
        return _policy_of(self.reference)


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
    _check_policy(_policy_of(operator))
    return Program(operator, shapes, weights).eval().prepare()


def _policy_of(operator: Operator) -> Policy:
    bare = operator.model
    assert isinstance(bare, NeuralOperator)
    return bare.policy


def _check_policy(policy: Policy) -> None:
    if policy.emulated:
        emulated = ", ".join(sorted(f.name for f in policy.formats if f.emulated))
        raise ValueError(f"a policy with {emulated} cannot be exported: no runtime rounds to that; give another policy")
