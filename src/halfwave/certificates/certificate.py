"""Certificate: what a precision policy does to a model on some inputs, in figures and in words.

Every figure says what it is. *Measured* ones are differences between runs on these inputs: they say nothing about
other inputs. *Bounds* are theorems at the norms of these inputs: no rounding can exceed them.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Any

from halfwave.precision import Policy
from halfwave.theory import Bound

_WIDTH = 80


@dataclass(frozen=True)
class BlockCertificate:
    """One FNO block. Norms are rms over the grid and l2 over channels; each figure is the largest over the samples.

    Attributes:
        name: of the block in the model.
        pipeline: where its spectral convolution rounds.
        stabilizer: what acts on its input before the transform.
        input_norm, input_peak: rms norm and largest modulus of what the transform got.
        r2, ra: norms of its weights, and of their moduli.
        conv_norm: of the convolution's answer in float64.
        conv_error: measured: the convolution under the policy against float64 on the input that it really got.
        conv_bound: the guaranteed bound on `conv_error`; None where no theorem covers the layer.
        output_norm: of the block's answer in the float64 model.
        output_error, output_error_fp32: measured: the block's answer against the float64 model's, all layers so far.
        output_bound: a valid and loose bound on `output_error`; None where there is none.
        discretization: measured: the float64 model's answer against itself at every second grid point.
        underflow: measured: what underflow can take from the kept coefficients, over what rounding can.
        finite: nothing in the block's answers was inf or nan.
    """

    name: str
    pipeline: str
    stabilizer: str
    input_norm: float
    input_peak: float
    r2: float
    ra: float
    conv_norm: float
    conv_error: float
    conv_bound: Bound | None
    output_norm: float
    output_error: float
    output_error_fp32: float
    output_bound: float | None
    discretization: float | None
    underflow: float
    finite: bool


@dataclass(frozen=True)
class Certificate:
    """The whole model, and the verdict.

    Attributes:
        policy: what was certified.
        grid, half_grid: of the inputs, and of every second point of them.
        samples: how many inputs.
        blocks: one entry for each FNO block.
        output_norm: of the float64 model's answer (largest over samples, as all figures here).
        precision_error: measured: the answer under the policy against float64.
        fp32_error: measured: the answer in fp32 against float64.
        output_bound: a valid and loose bound on `precision_error`; None where there is none.
        discretization_error: measured: float64 on this grid against float64 on every second point, on common points.
        samples_below: in how many samples the precision error is below the discretization error.
        stabilizer_change: measured: what the stabilizer changes in the float64 answer; 0 without one.
        concerns: sentences about overflow, underflow, bounds that are missing or do not exclude much.
        notes: sentences on how to read the figures.
    """

    policy: Policy
    grid: tuple[int, ...]
    half_grid: tuple[int, ...]
    samples: int
    blocks: tuple[BlockCertificate, ...]
    output_norm: float
    precision_error: float
    fp32_error: float
    output_bound: float | None
    discretization_error: float
    samples_below: int
    stabilizer_change: float
    concerns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def below_discretization(self) -> bool:
        """Is the measured precision error below the measured discretization error, in every sample?"""
        return self.samples_below == self.samples

    @property
    def holds(self) -> bool:
        """Is every measured error below its bound (where there is one)?"""
        pairs = [(block.conv_error, block.conv_bound) for block in self.blocks]
        pairs += [(block.output_error, block.output_bound) for block in self.blocks]  # type: ignore[misc]
        pairs.append((self.precision_error, self.output_bound))  # type: ignore[arg-type]
        return all(bound is None or error <= float(bound) for error, bound in pairs)

    @property
    def verdict(self) -> str:
        """One sentence on precision against discretization, one on bounds and range."""
        return f"{self._comparison()} {self._standing()}"

    def _comparison(self) -> str:
        if not math.isfinite(self.precision_error):
            return f"Under {self.policy.name} the answer is not finite: this precision cannot be used here."
        precision = _percent(self.precision_error, self.output_norm)
        grid = _percent(self.discretization_error, self.output_norm)
        side = "below" if self.below_discretization else "not below"
        count = f"{self.samples_below} of {self.samples} samples"
        ratio = _ratio(self.precision_error, self.discretization_error)
        advice = (
            "rounding is not what limits this answer"
            if self.below_discretization
            else "more digits would help more than a finer grid"
        )
        return (
            f"Measured: precision costs {precision} of the answer, the grid {grid}; precision is {ratio} times "
            f"the discretization error, {side} it ({count}): {advice}."
        )

    def _standing(self) -> str:
        if not self.holds:
            return "A measured error exceeds its bound: an assumption of the bounds does not hold here."
        if self.concerns:
            return f"Concerns: {len(self.concerns)}, listed below." if len(self.concerns) > 1 else "One concern, below."
        return "Every measured error is below its bound; nothing overflowed; no concern."

    def to_dict(self) -> dict[str, Any]:
        """JSON-able, the verdict included; figures that are not finite become None."""
        values = {**vars(self), "policy": self.policy.to_dict(), "verdict": self.verdict, "holds": self.holds}
        values["below_discretization"] = self.below_discretization
        values["blocks"] = [_block_dict(block) for block in self.blocks]
        plain: dict[str, Any] = _plain(values)
        return plain

    def __str__(self) -> str:
        lines = [f"certificate: {self.samples} samples on {_sides(self.grid)}"]
        lines += textwrap.wrap(f"policy {self.policy}", _WIDTH, initial_indent="  ", subsequent_indent="  ")
        lines += [
            "",
            "errors relative to the norm of the exact value (rms over the grid, l2 over",
            "channels, worst sample); M: measured on these inputs, B: bound, a guarantee",
            "",
            _row("", "conv", "conv", "output", "output", "output", "half grid"),
            _row("block", "M", "B", "M", "M in fp32", "B, loose", "M"),
        ]
        lines += [_block_row(block) for block in self.blocks]
        scale = self.output_norm
        lines += [
            _row(
                "answer",
                "",
                "",
                _relative(self.precision_error, scale),
                _relative(self.fp32_error, scale),
                _relative(self.output_bound, scale),
                _relative(self.discretization_error, scale),
            ),
            "",
        ]
        lines += _paragraphs(("verdict: " + self.verdict, *("concern: " + text for text in self.concerns)))
        lines += _paragraphs("note: " + text for text in self.notes)
        return "\n".join(lines)


def _block_dict(block: BlockCertificate) -> dict[str, Any]:
    values = {key: value for key, value in vars(block).items() if key != "conv_bound"}
    bound = block.conv_bound
    values["conv_bound"] = None if bound is None else bound.value
    values["conv_theorem"] = None if bound is None else bound.theorem
    values["conv_assumptions"] = [] if bound is None else list(bound.assumptions)
    return values


def _plain(value: Any) -> Any:
    """Lists for tuples, and None for inf and nan, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _block_row(block: BlockCertificate) -> str:
    conv, out = block.conv_norm, block.output_norm
    return _row(
        block.name,
        _relative(block.conv_error, conv),
        _relative(None if block.conv_bound is None else block.conv_bound.value, conv),
        _relative(block.output_error, out),
        _relative(block.output_error_fp32, out),
        _relative(block.output_bound, out),
        _relative(block.discretization, out),
    )


def _row(*cells: str) -> str:
    first, *rest = cells
    return f"{first:<13}" + "".join(f"{cell:>11}" for cell in rest)


def _relative(value: float | None, scale: float) -> str:
    if value is None:
        return "-"
    return f"{value / scale:.1e}" if scale > 0 else f"{value:.1e} abs"


def _percent(value: float, scale: float) -> str:
    return f"{100 * value / scale:.2g}%" if scale > 0 else f"{value:.2g}"


def _ratio(value: float, other: float) -> str:
    return f"{value / other:.2g}" if other > 0 else "infinitely many"


def _sides(grid: tuple[int, ...]) -> str:
    return " x ".join(map(str, grid))


def _paragraphs(texts: Any) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(text, _WIDTH, subsequent_indent="  ")]
