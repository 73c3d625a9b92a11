"""ContractionSettings: how a layer wants its contraction planned, handed from its constructor to the planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from halfwave.numerics import compiling, constant_when_compiled, kind_of, nominal, portable
from halfwave.spectral.plan import COMPLEX_MODES, OBJECTIVES, ComplexMode, ContractionPlan, Objective, plan_contraction

# Temporaries of one slice on a CPU. Every slice adds to the gradients of all factors, so slices pay below the size of
# the last cache only.
CONTRACTION_SLICE_BYTES = 16 << 20


@dataclass(frozen=True)
class ContractionSettings:
    """What to save, how complex numbers are handled, what all may take; see `plan_contraction`.

    Attributes:
        objective: order of the tensors for the fewest ``"flops"`` or the least ``"memory"``.
        complex_mode: options ``"A"``, ``"B"`` or ``"C"`` of the paper.
        memory_limit: bytes of operands, result, their gradients and temporaries together.
    """

    objective: Objective = "flops"
    complex_mode: ComplexMode = "C"
    memory_limit: int | None = None

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ValueError(f"unknown objective {self.objective!r}: expected one of {', '.join(OBJECTIVES)}")
        if self.complex_mode not in COMPLEX_MODES:
            raise ValueError(f"unknown complex_mode {self.complex_mode!r}: expected one of {', '.join(COMPLEX_MODES)}")
        limit = self.memory_limit
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
            raise ValueError(f"memory_limit must be a positive number of bytes or None, got {limit!r}")

    def plan(self, equation: str, operands: Sequence[Tensor], format: str) -> ContractionPlan:
        """The plan for pair tensors with their pair axis before the last index, on their device."""
        return self.plan_sizes(equation, [(*t.shape[:-2], t.shape[-1]) for t in operands], format, operands[0].device)

    def plan_sizes(
        self, equation: str, sizes: list[tuple[int, ...]], format: str, device: torch.device
    ) -> ContractionPlan:
        """The same from sizes without the pair axis."""
        # Slices that fit a cache on a CPU; elsewhere, for the compiler and in a portable program, one piece.
        in_slices = kind_of(device) == "cpu" and not compiling() and not portable()
        return _planned(
            equation,
            [tuple(nominal(n) for n in shape) for shape in sizes],
            self.objective,
            self.complex_mode,
            self.memory_limit,
            format,
            CONTRACTION_SLICE_BYTES if in_slices else None,
        )


DEFAULT = ContractionSettings()


@constant_when_compiled
def _planned(
    equation: str,
    sizes: list[tuple[int, ...]],
    objective: Objective,
    complex_mode: ComplexMode,
    memory_limit: int | None,
    format: str,
    slice_bytes: int | None,
) -> ContractionPlan:
    """The plan; a constant for the compiler, which would trace the search otherwise."""
    return plan_contraction(equation, sizes, objective, complex_mode, memory_limit, format, slice_bytes)
