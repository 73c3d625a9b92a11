"""What is known of a tensor on its way through a pipeline: a bound on its exact norm, one on its error, its format."""

from __future__ import annotations

import math
from dataclasses import dataclass

from halfwave.numerics import Format
from halfwave.theory.pipeline import Pipeline
from halfwave.theory.roundoff import holds


@dataclass(frozen=True)
class State:
    """Attributes: norm N >= ||exact||, error E >= ||computed - exact||, the format of the computed one (None: any)."""

    norm: float
    error: float
    format: Format | None

    def through(self, alpha: float, relative: float, absolute: float) -> State:
        """A linear stage of norm alpha: N' = alpha N, E' = alpha E + relative (N + E) + absolute."""
        error = alpha * self.error + relative * (self.norm + self.error) + absolute
        return State(alpha * self.norm, error, self.format)


def cast(state: State, target: Format, chosen: Pipeline, entries: float) -> State:
    """Round to `target`: u'(N + E), and eta for each of the real `entries` (counted as the norm counts them).

    Exact where the format of the tensor is part of `target`, but for subnormal numbers that are flushed. The
    accumulator's own rounding of a sum that is then cast is charged where the sum was.
    """
    unit = chosen.unit(target)
    if state.format is not None and holds(target, state.format):
        return state.through(1.0, 0.0, unit.per_addition * math.sqrt(entries))
    moved = state.through(1.0, unit.relative, unit.absolute * math.sqrt(entries))
    return State(moved.norm, moved.error, target)
