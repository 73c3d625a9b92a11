"""The state of a run beside its tensors: where it is, as one JSON object, and the random states of its process."""

from __future__ import annotations

import math
import random
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halfwave.training.records import EpochMetrics


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
    rows: list[EpochMetrics] = field(default_factory=list)

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
        return cls(**{**values, "rows": [EpochMetrics(**row) for row in values["rows"]]})


def seed_all(seed: int) -> None:
    """Seed torch (every device), numpy and Python."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  the global generator is what third-party code draws from
    random.seed(seed)


def random_states() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Everything that decides the next random numbers of this process."""
    tensors = {"torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors |= {f"cuda{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    name, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)  # noqa: NPY002
    version, internal, gauss_next = random.getstate()
    return tensors, {
        "numpy": [name, np.asarray(keys).tolist(), position, has_gauss, gauss],
        "python": [version, list(internal), gauss_next],
    }


def restore_random_states(tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    torch.set_rng_state(tensors["torch"])
    for i in range(torch.cuda.device_count()):
        if f"cuda{i}" in tensors:  # a run may move to a machine with other devices
            torch.cuda.set_rng_state(tensors[f"cuda{i}"], i)
    name, keys, *rest = values["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002
    version, internal, gauss_next = values["python"]
    random.setstate((version, tuple(internal), gauss_next))
