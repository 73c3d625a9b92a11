"""Certificate: what a precision policy does to a model's answers, in figures and in words.

Every figure says of which kind it is. *Measured*: a difference between runs on these inputs, which says nothing of
others. *Guaranteed*: a theorem at the norms of these inputs; no rounding can exceed it. *Estimate*: from the
sensitivities of a float64 run, with a level of confidence under stated assumptions. *Finite-sample*: true of a new
input with a stated probability, if it comes from where these came from.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from halfwave.certificates.convolution_certificate import ConvolutionCertificate
from halfwave.certificates.error_change import Kind, TestErrors
from halfwave.certificates.finite_sample import ConformalBound, conformal_bound, needed
from halfwave.certificates.grid_crossover import Crossover
from halfwave.certificates.percent_text import percent
from halfwave.certificates.resolution import Resolution
from halfwave.precision import Policy

_WIDTH = 80
_LABEL = 38
_SHOWN = 2  # concerns that are printed: the whole fits on 25 lines
_DIGITS: dict[Kind | None, str] = {
    None: ", and more digits would help more than a finer grid",
    "raises": ", and more digits would help more than a finer grid",
    "hardly": ", but more digits would hardly lower the test error",
    "lowers": ", but more digits would not lower the test error",
    "cannot tell": "",
}
"""What follows from it where rounding costs more than the grid: little, if the model's own error hides both."""


@dataclass(frozen=True)
class Certificate:
    """The whole model, and the verdict. Errors are relative L2 norms of the answer, one number per sample.

    Attributes:
        policy: what was certified.
        model: its class.
        alpha: how often a new input may be above `conformal()`, and `predicted_upper` below the truth.
        grid: of the inputs; None for point clouds.
        predicted_error: an estimate without running the policy: the root of the expected square.
        predicted_upper: an estimate of what the error stays below with probability 1 - alpha over the roundings.
        measured_error: the answer under the policy against float64.
        fp32_error: measured: the answer in fp32 against float64.
        answer_bound: guaranteed and loose (errors align in every layer); None where no theorem composes.
        convolutions: each spectral convolution, measured and guaranteed; none in a U-Net.
        resolution: the error of the grid itself, of the first few samples.
        test_errors: where the true answers were given.
        stabilizer_change: measured: what the stabilizer changes in the float64 answer; 0 without one.
        concerns: sentences about overflow, underflow, bounds that are missing or do not exclude much.
        notes: sentences on how to read the figures.
    """

    policy: Policy
    model: str
    alpha: float
    grid: tuple[int, ...] | None
    predicted_error: Tensor
    predicted_upper: Tensor
    measured_error: Tensor
    fp32_error: Tensor
    answer_bound: Tensor | None
    convolutions: tuple[ConvolutionCertificate, ...]
    resolution: Resolution
    test_errors: TestErrors | None
    stabilizer_change: float
    concerns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        return len(self.measured_error)

    @property
    def crossover(self) -> Crossover | None:
        """(m*, low, high): the points a side up to which the grid costs more than rounding; None: `no_crossover`."""
        return self.resolution.crossover

    @property
    def no_crossover(self) -> str:
        """Why there is no crossover; empty where there is one."""
        return self.resolution.reason

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which kinds of certificate this model gets, strongest first."""
        certain = [c.guaranteed is not None and c.bound is not None and c.bound.guaranteed for c in self.convolutions]
        guaranteed = ("guaranteed bound",) if certain and all(certain) else ()
        return (*guaranteed, "estimate with confidence", "finite-sample")

    @property
    def finite(self) -> bool:
        return bool(self.measured_error.isfinite().all())

    @property
    def holds(self) -> bool:
        """Is the answer finite, and every sample below each of its own bounds, where there are any?"""
        bound = self.answer_bound
        below = bound is None or bool((self.measured_error <= bound).all())
        return self.finite and below and all(conv.holds for conv in self.convolutions)

    def conformal(self, scores: Tensor | Sequence[float] | None = None) -> ConformalBound:
        """What a new input stays below with probability 1 - alpha: by these samples, or by the `scores` of others.

        A score is ||f_half(x) - f_full(x)|| / ||f_full(x)||, as `measured_error` has it. Infinite below 1/alpha - 1
        samples, which its text says.
        """
        return conformal_bound(self.measured_error if scores is None else scores, self.alpha)

    @property
    def verdict(self) -> str:
        """Is it safe, and what limits the answer? First of all the error against the truth, where that is known."""
        if not self.finite:
            return f"Under {self._name} the answer is not finite: this precision cannot be used here."
        change = "" if self.test_errors is None else self.test_errors.sentence(self._name)
        moves = f"{'It' if change else self._name} moves the answer by {percent(self.measured_error.mean())}."
        return " ".join(part for part in (change, moves, self._comparison(), self._standing()) if part)

    def _comparison(self) -> str:
        own, limits = self.resolution.own, self.resolution.limits
        if own is None or limits is None:
            return f"It is not compared with a grid's error: {self.no_crossover}."
        if limits == "grid":
            more = f"The grid costs at least {percent(own.low.mean())}, more than rounding in every sample compared"
            return f"{more}." if self._change == "raises" else f"{more}: rounding is not what limits this answer."
        if limits == "rounding":
            larger = f"The grid costs at most {percent(own.high.mean())}: rounding is the larger of these two"
            return f"{larger}{_DIGITS[self._change]}."
        if own.known:
            why = "their ranges overlap"
        else:
            why = "the grids that can be compared do not show how fast its error falls; finer inputs would"
        return f"Cannot tell whether the grid or rounding costs more: {why}."

    @property
    def _change(self) -> Kind | None:
        """What the policy does to the error against the truth; None where that is not known."""
        return None if self.test_errors is None else self.test_errors.kind

    def _standing(self) -> str:
        if not self.holds:
            return "A measured error exceeds its bound: an assumption of the bounds does not hold here."
        if self.concerns:
            return f"{len(self.concerns)} concerns, below." if len(self.concerns) > 1 else "One concern, below."
        return "Nothing overflowed."

    def to_dict(self) -> dict[str, Any]:
        """JSON-able, the verdict included; figures that are not finite become None."""
        conformal = self.conformal()
        values = {
            **{name: value for name, value in vars(self).items() if name != "resolution"},
            "samples": self.samples,
            "policy": self.policy.to_dict(),
            "kinds": self.kinds,
            "verdict": self.verdict,
            "holds": self.holds,
            "conformal": {"bound": float(conformal), "alpha": self.alpha, "samples": self.samples},
            "convolutions": [conv.to_dict() for conv in self.convolutions],
            "test_errors": None if self.test_errors is None else self.test_errors.to_dict(),
            **self.resolution.to_dict(),
        }
        plain: dict[str, Any] = _plain(values)
        return plain

    def __str__(self) -> str:
        where = "point clouds" if self.grid is None else f"a grid of {_sides(self.grid)}"
        lines = [f"Is {self._name} safe for this {self.model}? {self.samples} samples on {where}", ""]
        lines += [f"{label:<{_LABEL}} {text}" for label, text in self._rows()]
        lines += ["", *_paragraph("Verdict: " + self.verdict)]
        for text in self.concerns[:_SHOWN]:
            lines += _paragraph("Concern: " + text)
        if len(self.concerns) > _SHOWN:
            lines.append(f"Concern: and {len(self.concerns) - _SHOWN} more, in `concerns`")
        return "\n".join(lines)

    def _rows(self) -> Iterator[tuple[str, str]]:
        """What a person asks, and the answer."""
        yield (
            "Rounding moves an answer by",
            f"{percent(self.measured_error.mean())} (worst {_worst(self.measured_error)})",
        )
        yield "  predicted without running it", f"{percent(self.predicted_error.mean())} (estimate)"
        yield "  full precision (fp32) moves it by", percent(self.fp32_error.mean())
        yield f"{_often(self.alpha)} new inputs stay below", self._conformal_text()
        if self.test_errors is not None:
            yield from self.test_errors.rows()
        yield from self._grid_rows()
        yield "One layer's transforms can round by", self._guarantee()

    def _conformal_text(self) -> str:
        bound = self.conformal()
        if not bound.finite:
            few = f"give {needed(self.alpha)} samples or more" if bound.rank > bound.samples else "an answer overflowed"
            return f"unknown: {few}"
        return f"{percent(float(bound))} (inputs like these)"

    def _grid_rows(self) -> Iterator[tuple[str, str]]:
        own, crossover = self.resolution.own, self.crossover
        if own is not None:
            low, high = (float(end.mean()) for end in (own.low, own.high))
            between = f"{percent(low)} to {percent(high)}" if math.isfinite(high) else f"{percent(low)} at least"
            yield "The grid itself costs", f"{between} ({len(own.low)} samples)"
        if crossover is not None:
            yield "Rounding is the smaller error up to", f"{_grid_text(crossover)} points a side"

    def _guarantee(self) -> str:
        bounds = [conv.guaranteed for conv in self.convolutions]
        known = [bound for bound in bounds if bound is not None]
        if not known or len(known) < len(bounds):
            return "no guarantee: no theorem covers them" if bounds else "no guarantee: it has none"
        word = "guaranteed" if "guaranteed bound" in self.kinds else "an estimate"
        measured = max(float(conv.measured.max()) for conv in self.convolutions)
        return f"at most {percent(max(float(b.max()) for b in known))}, {word} (seen {percent(measured)})"

    @property
    def _name(self) -> str:
        return f"{self.policy.name} ({_half_format(self.policy)})"


def _half_format(policy: Policy) -> str:
    """The narrowest of its formats."""
    formats = {policy.format(role) for role in ("forward_transform", "contraction", "inverse_transform", "pointwise")}
    return min(formats, key=lambda format: (format.precision, format.name)).name


def _grid_text(crossover: Crossover) -> str:
    high = f"to {crossover.high:.0f}" if math.isfinite(crossover.high) and crossover.high < 1e6 else "or more"
    return (
        f"{crossover.m:.0f} (from {crossover.low:.0f} {high})" if crossover.m < 1e6 else f"{crossover.low:.0f} or more"
    )


def _plain(value: Any) -> Any:
    """Lists for tuples and tensors, and None for inf and nan, which JSON does not have."""
    if isinstance(value, Tensor):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _worst(errors: Tensor) -> str:
    return percent(errors.max())


def _often(alpha: float) -> str:
    return f"{100 * (1 - alpha):.4g} of 100"


def _sides(grid: tuple[int, ...]) -> str:
    return " x ".join(map(str, grid))


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ")
