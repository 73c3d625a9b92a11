"""PrecisionPlan: a format for each layer and stage of a model, what it should cost, and what it was found to cost."""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from halfwave.certificates.gradient_error import GradientError
from halfwave.files import write_json
from halfwave.models import set_precision
from halfwave.precision import Policy

_WIDTH = 80


@dataclass(frozen=True)
class Choice:
    """The format of one stage of one layer.

    Attributes:
        layer: name of the module in the neural operator.
        stage: a role of the policy: forward_transform, contraction, inverse_transform, weights or pointwise.
        format: the name of its format.
        error: what this stage is expected to add to the answer's error, relative; the squares of all add up.
        bytes: what it stores for a sample; of weights, the weights.
    """

    layer: str
    stage: str
    format: str
    error: float
    bytes: float


@dataclass(frozen=True)
class PrecisionPlan:
    """What `auto_precision` chose. Errors are relative L2 errors of an answer.

    Attributes:
        policy: apply it, or train with it; `policy.layers` has what differs from layer to layer.
        choices: one for each layer and stage.
        predicted_error: by the adjoint certificate, mean over the samples that were planned on.
        measured_error: against float64, mean over held-out samples.
        usual_most: what 90 of 100 new inputs stay within, 99% sure from the held-out samples (`tolerance_bound`).
        budget: what `usual_most` had to stay within; inf where bytes or time were the limit.
        source: where the limit comes from, and what that assumes, in words.
        bytes, full_bytes: stored for a sample, weights included (see `stored_bytes`), and the same in full precision.
        time: of a forward pass of one sample, relative to full precision; None where it was not asked for.
        gradient: measured errors of gradients under the policy.
        planned_on, held_out: how many samples.
    """

    policy: Policy
    choices: tuple[Choice, ...]
    predicted_error: float
    measured_error: float
    usual_most: float
    budget: float
    source: str
    bytes: int
    full_bytes: int
    time: float | None
    gradient: GradientError
    planned_on: int
    held_out: int

    @property
    def met(self) -> bool:
        """Is what was measured on held-out samples within the budget, for 90 of 100 new inputs?"""
        return self.usual_most <= self.budget

    @property
    def loss_scaling(self) -> bool:
        """Train with loss scaling? As measured: gradients underflow without it."""
        return self.gradient.loss_scaling

    def apply(self, model: nn.Module) -> None:
        """Give the model the planned formats, layer by layer; `save` and `load` of a model keep them."""
        set_precision(model, self.policy)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; figures that are not finite become None."""
        values = asdict(self) | {"policy": self.policy.to_dict(), "met": self.met, "loss_scaling": self.loss_scaling}
        finite: dict[str, Any] = _finite(values)
        return finite

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON: `halfwave train --policy` reads it."""
        write_json(path, self.to_dict())

    def __str__(self) -> str:
        lines = [f"precision plan: {self.bytes / self.full_bytes:.2f} of full precision's stored bytes"]
        lines += textwrap.wrap(self.source, _WIDTH, initial_indent="  ", subsequent_indent="  ")
        heads = ("layer", "stage", "format", "error", "bytes")
        rows = [(c.layer, c.stage, c.format, f"{c.error:.1e}", f"{c.bytes:,.0f}") for c in self.choices]
        widths = [max(map(len, column)) + 2 for column in zip(heads, *rows, strict=True)]
        padded = [[cell.ljust(w) for cell, w in zip(row, widths, strict=True)] for row in (heads, *rows)]
        table = ["".join(row).rstrip() for row in padded]
        return "\n".join([*lines, "", *table, "", *textwrap.wrap(self._verdict(), _WIDTH)])

    def _verdict(self) -> str:
        where = f"{self.held_out} held-out samples" if self.held_out else "the samples themselves, none being left"
        text = (
            f"Error of the answer: {self.predicted_error:.2%} predicted, {self.measured_error:.2%} measured on {where} "
            f"(90 of 100 new inputs within {self.usual_most:.2%}); of the gradients {self.gradient.best:.2%}"
        )
        text += ", with loss scaling (they underflow without it)." if self.loss_scaling else "."
        if self.time is not None:
            text += f" Time: {self.time:.2f} of full precision's."
        if not self.met:
            text += " That is above the budget: no candidate is wider than fp32, so this is the best there is."
        return text


def _finite(value: Any) -> Any:
    """Lists for tuples, and None for inf and nan, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
