"""PrecisionPlan: a format for each layer and stage of a model, with the reason of each choice."""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from torch import nn

from halfwave.files import write_json
from halfwave.models import set_precision
from halfwave.numerics import FORMATS
from halfwave.precision import Policy
from halfwave.spectral import narrow_range

_WIDTH = 80


@dataclass(frozen=True)
class Refusal:
    """Why a cheaper format was not taken: its error, or (then None) that it cannot hold the values."""

    format: str
    error: float | None
    why: str

    @property
    def short(self) -> str:
        return f"{self.format} {'range' if self.error is None else f'{self.error:.1e}'}"


@dataclass(frozen=True)
class Choice:
    """The format of one stage of one layer.

    Attributes:
        layer: name of the module in the model.
        stage: a role of the policy: forward_transform, contraction, inverse_transform, weights or pointwise.
        format: the cheapest candidate that holds the stage's values and whose error is within the limit.
        error: what this stage alone in this format changes, relative to the layer's answer.
        kind: ``"bound"``, a guarantee for inputs of this size, or ``"measured"`` on the samples.
        limit: what the error had to stay below.
        largest: the largest modulus that the stage met.
        refused: why each cheaper format was not taken.
    """

    layer: str
    stage: str
    format: str
    error: float
    kind: Literal["bound", "measured"]
    limit: float
    largest: float
    refused: tuple[Refusal, ...] = ()

    @property
    def met(self) -> bool:
        """False where even the last candidate's error is above the limit."""
        return self.error <= self.limit

    @property
    def reason(self) -> str:
        """One line."""
        side = "within" if self.met else "above"
        text = (
            f"{self.format}, {self.kind} error {self.error:.1e} {side} {self.limit:.1e}, values to {self.largest:.2g}"
        )
        return "; ".join([f"{self.layer} {self.stage}: {text}", *(f"not {r.format}: {r.why}" for r in self.refused)])


@dataclass(frozen=True)
class PrecisionPlan:
    """What `plan_precision` chose.

    Attributes:
        policy: apply it, or train with it. Its roles are the safest over the layers; layers that need less have a
            policy of their own in `policy.layers`.
        choices: one for each layer and stage.
        tolerance: largest relative error that was allowed.
        source: where the tolerance comes from, in words.
        share: the part of the tolerance that each single choice was held to, so that all together stay within it.
        error: measured: the answer under the whole policy against float64, relative to its norm.
        grid, samples: of the data that it was planned on.
    """

    policy: Policy
    choices: tuple[Choice, ...]
    tolerance: float
    source: str
    share: float
    error: float
    grid: tuple[int, ...]
    samples: int

    @property
    def met(self) -> bool:
        """Is the measured error of the answer within the tolerance?"""
        return self.error <= self.tolerance

    @property
    def loss_scaling(self) -> bool:
        """Train with loss scaling? Gradients are small, and some format here has a narrow range."""
        return any(narrow_range(FORMATS[c.format]) for c in self.choices if c.stage != "weights")

    @property
    def reasons(self) -> tuple[str, ...]:
        """One line for each choice."""
        return tuple(choice.reason for choice in self.choices)

    def apply(self, model: nn.Module) -> None:
        """Give the model the planned formats, layer by layer."""
        set_precision(model, self.policy)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; figures that are not finite become None."""
        choices = [{**asdict(c), "reason": c.reason, "met": c.met} for c in self.choices]
        return {
            "policy": self.policy.to_dict(),
            "tolerance": self.tolerance,
            "source": self.source,
            "share": self.share,
            "error": _finite(self.error),
            "met": self.met,
            "loss_scaling": self.loss_scaling,
            "grid": list(self.grid),
            "samples": self.samples,
            "choices": [_finite(choice) for choice in choices],
        }

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON: `halfwave train --policy` reads it."""
        write_json(path, self.to_dict())

    def __str__(self) -> str:
        grid = " x ".join(map(str, self.grid))
        lines = [f"precision plan: {self.samples} samples on {grid}"]
        lines += _wrapped(f"tolerance {self.tolerance:.1e}: {self.source}")
        lines += _wrapped(f"policy {self.policy}")
        widths = [max(len(text) for text in column) + 1 for column in zip(*map(_cells, self.choices), strict=True)]
        heads = ("layer", "stage", "format", "error", "", "values", "not (error)")
        widths = [max(width, len(head) + 1) for width, head in zip(widths, heads, strict=True)]
        for cells in (heads, *map(_cells, self.choices)):
            line = "".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
            lines += textwrap.wrap(line.rstrip(), _WIDTH, subsequent_indent=" " * 20)
        lines.insert(-len(self.choices) - 1, "")
        lines += ["", *_wrapped(self._verdict())]
        return "\n".join(lines)

    def _verdict(self) -> str:
        side = "within" if self.met else "above"
        text = (
            "errors: of that stage alone, relative to its layer's answer; M: measured on these samples, B: bound. "
            f"All together, measured: {self.error:.1e} of the answer, {side} the tolerance."
        )
        if self.share < 1:
            text += f" Each choice was held to {self.share:.2g} of it, so that they stay within it together."
        if not self.met:
            text += " No candidate is wider than fp32, so this is the best there is."
        if self.loss_scaling:
            text += " Gradients were not measured; with formats of a narrow range train with loss scaling."
        return text


def _cells(c: Choice) -> tuple[str, ...]:
    """A row of the table; the whole reason is `Choice.reason`."""
    refused = ", ".join(refusal.short for refusal in c.refused)
    return c.layer, c.stage, c.format, f"{c.error:.1e}", c.kind[0].upper(), f"{c.largest:.1e}", refused


def _finite(value: Any) -> Any:
    """Lists for tuples, and None for inf and nan, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ")
