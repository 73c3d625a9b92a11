"""Where a run is: everything of its state that is not a tensor, as one JSON object."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from halfwave.training.records import Row


@dataclass
class Position:
    """The point between two updates at which a checkpoint stands.

    `epoch` epochs are complete and `batch` batches of the next one; the sums run over those batches.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    """Updates done, skipped ones included."""
    phase: int = 0
    """Phase of the precision schedule."""
    skipped: int = 0
    """Updates skipped for non-finite values, in the whole run."""
    skips_in_a_row: int = 0
    loss_sum: float = 0.0
    samples: int = 0
    zero_targets: int = 0
    """Train samples of this epoch that have no loss, as their target is zero."""
    seconds: float = 0.0
    """Time in this epoch."""
    measured: dict[str, list[int]] = field(default_factory=dict)
    """Per policy: peak and activation bytes of an update, and the update that was measured."""
    promoted: list[str] = field(default_factory=list)
    """Policies that gave non-finite values and were left for a safer one."""
    best: float | None = None
    stale: int = 0
    """Evaluations since the best."""
    status: str = "running"
    rows: list[Row] = field(default_factory=list)

    def start_epoch(self) -> None:
        """Close the epoch: the next one begins at its first batch, with empty sums."""
        self.epoch += 1
        self.batch = self.samples = self.zero_targets = 0
        self.loss_sum = self.seconds = 0.0

    def note_error(self, error: float | None) -> bool:
        """Take note of a test error, if there was an evaluation; True if it is the best so far."""
        if error is None:
            return False
        improved = math.isfinite(error) and (self.best is None or error < self.best)
        self.best = error if improved else self.best
        self.stale = 0 if improved else self.stale + 1
        return improved

    @property
    def mean_loss(self) -> float:
        return self.loss_sum / self.samples if self.samples else float("nan")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Position:
        return cls(**values)
