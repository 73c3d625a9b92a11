"""ConvolutionCertificate: the error of one spectral convolution beside what no rounding can exceed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from halfwave.theory import Bound


@dataclass(frozen=True)
class ConvolutionCertificate:
    """The convolution of one block; tensors have an entry for each sample, relative to that sample's own norm.

    Norms are rms over the grid and l2 over channels.

    Attributes:
        name: of its block in the model.
        pipeline: where it rounds.
        stabilizer: what acts on its input before the transform.
        measured: its answer under the policy against float64 on the input that it really got.
        guaranteed: the bound on `measured`, of each sample by itself; None where no theorem covers the layer.
        bound: that of the sample with the largest input, in absolute terms, with its theorem and assumptions. Where one
            of them is not known to hold on this device, `bound.guaranteed` is False and the bound an estimate.
        output_error: the whole block's answer against the float64 model's, all layers so far.
        output_bound: valid and loose bounds on `output_error`; None where there are none.
        grid: of its input.
        input_peak: the largest modulus of what the transform got.
        r2, ra: norms of its weights, and of their moduli.
        underflow: what underflow can take from the kept coefficients, over what rounding can.
        finite: nothing in the block's answers was inf or nan.
    """

    name: str
    pipeline: str
    stabilizer: str
    measured: Tensor
    guaranteed: Tensor | None
    bound: Bound | None
    output_error: Tensor
    output_bound: Tensor | None
    grid: tuple[int, ...]
    input_peak: float
    r2: float
    ra: float
    underflow: float
    finite: bool

    @property
    def holds(self) -> bool:
        """Is every sample below its own bounds, where there are any?"""
        pairs = ((self.measured, self.guaranteed), (self.output_error, self.output_bound))
        return all(bound is None or bool((error <= bound).all()) for error, bound in pairs)

    def to_dict(self) -> dict[str, Any]:
        values = {key: value for key, value in vars(self).items() if key != "bound"}
        bound = self.bound
        values["theorem"] = None if bound is None else bound.theorem
        values["assumptions"] = [] if bound is None else list(bound.assumptions)
        values["is_guaranteed"] = bound is not None and bound.guaranteed
        return values


def joined(parts: Sequence[ConvolutionCertificate]) -> ConvolutionCertificate:
    """The same convolution on several parts of the samples."""
    bounds = [part.bound for part in parts]
    known = [bound for bound in bounds if bound is not None]
    return replace(
        parts[0],
        measured=torch.cat([part.measured for part in parts]),
        guaranteed=_cat([part.guaranteed for part in parts]),
        bound=max(known, key=float) if len(known) == len(bounds) else None,
        output_error=torch.cat([part.output_error for part in parts]),
        output_bound=_cat([part.output_bound for part in parts]),
        input_peak=max(part.input_peak for part in parts),
        underflow=max(part.underflow for part in parts),
        finite=all(part.finite for part in parts),
    )


def _cat(values: Sequence[Tensor | None]) -> Tensor | None:
    known = [value for value in values if value is not None]
    return torch.cat(known) if known and len(known) == len(values) else None
