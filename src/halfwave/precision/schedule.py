"""Schedule: which policy at which point of training.

The paper's: the first 25% of training in mixed precision, the middle 50% with AMP only, the last 25% in full. Coarse
updates are good enough while they are large; late ones are small, and precision counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from halfwave.precision.policy import Policy, as_policy


@dataclass(frozen=True)
class Schedule:
    """Phases of training, each a fraction of it and a policy; fractions are positive and sum to 1.

    A phase holds the half-open interval [start, end) of progress in [0, 1], so its edge belongs to the next one.
    """

    phases: tuple[tuple[float, Policy], ...]

    def __init__(self, phases: Sequence[tuple[float, str | Policy]]) -> None:
        checked = tuple((float(fraction), as_policy(policy)) for fraction, policy in phases)
        fractions = [fraction for fraction, _ in checked]
        # Asked so that NaN, which compares with nothing, does not pass.
        if not checked or not all(fraction > 0 for fraction in fractions) or not abs(sum(fractions) - 1) <= 1e-6:
            raise ValueError(f"schedule fractions must be positive and sum to 1, got {fractions}")
        object.__setattr__(self, "phases", checked)

    @classmethod
    def paper(cls, dtype: str | None = None) -> Schedule:
        """25% mixed, 50% amp, 25% full."""
        return cls([(f, Policy.named(name, dtype)) for f, name in ((0.25, "mixed"), (0.5, "amp"), (0.25, "full"))])

    @classmethod
    def constant(cls, policy: str | Policy) -> Schedule:
        return cls([(1.0, policy)])

    def phase_at(self, progress: float) -> int:
        """Index of the phase at `progress`, the share of training that is done."""
        if not 0 <= progress <= 1:
            raise ValueError(f"progress must be in [0, 1], got {progress}")
        ends = accumulate(fraction for fraction, _ in self.phases)
        # A hair of slack: 0.25 + 0.5 in floating point must not hold back a phase for one step.
        return next((i for i, end in enumerate(ends) if progress < end - 1e-9), len(self.phases) - 1)

    def policy_at(self, progress: float) -> Policy:
        return self.phases[self.phase_at(progress)][1]

    def to_dict(self) -> dict[str, Any]:
        return {"phases": [[fraction, policy.to_dict()] for fraction, policy in self.phases]}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Schedule:
        return cls([(fraction, Policy.from_dict(policy)) for fraction, policy in values["phases"]])

    def __str__(self) -> str:
        return ", then ".join(f"{fraction:.0%} {policy.name}" for fraction, policy in self.phases)
