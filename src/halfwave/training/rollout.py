"""Rollouts: a trained stepper applied to its own answers, against the trajectories of a file.

Errors are relative L2 of a state; the correlation of two states is that of their deviations from the mean; the
correlation time is when its mean over trajectories falls below 0.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from halfwave.data import Trajectories, Window
from halfwave.errors import InputError
from halfwave.models import Unrolled
from halfwave.training.operator import Operator
from halfwave.training.spectra import Spectrum

CORRELATED = 0.8
QUANTILES = (0.1, 0.5, 0.9)
_BLOWN_UP = 100.0
"""Times the size of the largest true state: no state of the system is like that."""


@dataclass(frozen=True)
class Blowup:
    """A rollout that left every bound: in which trajectory, at which step, how large."""

    trajectory: int
    step: int
    size: float

    def __str__(self) -> str:
        return f"trajectory {self.trajectory} blew up at step {self.step}: max |u| is {self.size:.3g}"


@dataclass(frozen=True)
class RolloutResult:
    """Figures over time, step 1 first; states are those of the file's units."""

    steps: int
    interval: float
    """Time of one step."""
    errors: list[list[float]]
    """Relative L2 error of each trajectory at each step, N lists."""
    correlations: list[float]
    """Mean over trajectories."""
    spectra: dict[str, Any]
    blowup: Blowup | None
    shown: tuple[np.ndarray, np.ndarray]
    """Truth and prediction of the first trajectory, steps x C x grid."""

    @property
    def mean_errors(self) -> list[float]:
        return [float(value) for value in np.mean(self.errors, axis=0)]

    @property
    def quantiles(self) -> dict[str, list[float]]:
        return {f"{q:g}": np.quantile(self.errors, q, axis=0).tolist() for q in QUANTILES}

    @property
    def correlation_time(self) -> float:
        """In time; that of the whole rollout where it never fell below."""
        return self.interval * crossing(self.correlations, CORRELATED)

    def to_dict(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "interval": self.interval,
            "mean_error": self.mean_errors,
            "quantiles": self.quantiles,
            "correlation": self.correlations,
            "correlation_time": self.correlation_time,
            "correlated": len(self.correlations) > 0 and min(self.correlations) >= CORRELATED,
            "spectra": self.spectra,
            "blowup": None if self.blowup is None else asdict(self.blowup),
        }


def crossing(values: list[float], level: float) -> float:
    """Steps until a falling curve, 1 at step 0, is below a level; between steps along a line."""
    before = 1.0
    for step, value in enumerate(values):
        if value < level:
            return step + (before - level) / max(before - value, 1e-12)
        before = value
    return float(len(values))


def stepper_of(model: nn.Module) -> tuple[Operator, Unrolled]:
    """The operator of a run that was trained in time; InputError for any other."""
    operator = model if isinstance(model, Operator) else Operator(model, None, None)
    if not isinstance(operator.model, Unrolled):
        raise InputError("the model was not trained to step in time: train it with --horizon on trajectories")
    return operator, operator.model


@torch.no_grad()
def roll_out(model: nn.Module, x: Tensor, steps: int) -> Iterator[Tensor]:
    """The next `steps` states from x (B x (h C + E) x grid), each B x C x grid, in the units of the data."""
    operator, unrolled = stepper_of(model)
    encoded = x if operator.x_normalizer is None else operator.x_normalizer.encode(x)
    for state in islice(unrolled.roll(encoded), steps):
        yield state if operator.y_normalizer is None else operator.y_normalizer.decode(state)


def start_of(source: Trajectories, window: Window, indices: np.ndarray) -> Tensor:
    """The first histories of some trajectories, with what rides along."""
    span = slice(0, 1 + (window.history - 1) * window.stride, window.stride)
    spans = [source.states.read(int(i), span) for i in indices]
    states = np.stack(spans).reshape(len(indices), -1, *source.grid)
    return torch.from_numpy(np.concatenate([states, source.read_beside(indices)], axis=1).astype(np.float32))


def truth_of(source: Trajectories, window: Window, indices: np.ndarray, steps: int) -> Tensor:
    """The states after those histories, B x steps x C x grid."""
    first = window.history * window.stride
    span = slice(first, first + (steps - 1) * window.stride + 1, window.stride)
    return torch.from_numpy(np.stack([source.states.read(int(i), span) for i in indices]).astype(np.float32))


def longest_rollout(source: Trajectories, window: Window) -> int:
    """Steps from the first history to the end of the trajectories."""
    return (source.length - 1) // window.stride - window.history + 1


def evaluate_rollout(
    model: nn.Module,
    source: Trajectories,
    window: Window,
    steps: int | None = None,
    *,
    interval: float = 1.0,
    spectrum: Spectrum | None = None,
    batch_size: int = 8,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> RolloutResult:
    """Roll out from the beginning of every trajectory and compare with it; ends early when a rollout blows up."""
    most = longest_rollout(source, window)
    steps = most if steps is None else steps
    if not 1 <= steps <= most:
        raise InputError(f"a rollout of {steps} steps: expected 1 to {most}, which the trajectories have")
    device = next(model.parameters()).device
    model.eval()
    errors: list[np.ndarray] = []
    correlations: list[np.ndarray] = []
    blowup, shown, kept = None, None, steps
    spectrum = spectrum or Spectrum()
    for begin in range(0, source.count, batch_size):
        indices = np.arange(begin, min(begin + batch_size, source.count))
        truth = truth_of(source, window, indices, steps)
        predicted = _states(model, start_of(source, window, indices).to(device), steps, truth, begin)
        if isinstance(predicted[1], Blowup):
            blowup = predicted[1] if blowup is None or predicted[1].step < blowup.step else blowup
        states = predicted[0]
        kept = min(kept, states.shape[1])
        truth = truth[:, : states.shape[1]]
        errors.append(_relative(states, truth))
        correlations.append(_correlation(states, truth))
        spectrum.add(truth, states)
        if shown is None:
            shown = truth[0].numpy(), states[0].numpy()
        progress(int(indices[-1]) + 1, source.count)
    assert shown is not None, "there is at least one trajectory"
    return RolloutResult(
        steps=kept,
        interval=interval * window.stride,
        errors=[row[:kept].tolist() for part in errors for row in part],
        correlations=np.concatenate([part[:, :kept] for part in correlations]).mean(axis=0).tolist(),
        spectra=spectrum.to_dict(),
        blowup=blowup,
        shown=shown,
    )


def _states(model: nn.Module, x: Tensor, steps: int, truth: Tensor, first: int) -> tuple[Tensor, Blowup | None]:
    """States B x (up to steps) x C x grid: those before a blow-up."""
    limit = _BLOWN_UP * float(truth.abs().max())
    states: list[Tensor] = []
    for step, state in enumerate(roll_out(model, x, steps), start=1):
        sizes = state.abs().flatten(1).amax(dim=1)
        wild = ~(sizes <= limit)  # also where it is NaN
        if bool(wild.any()):
            worst = int(wild.nonzero()[0])
            return _stack(states, truth), Blowup(first + worst, step, float(sizes[worst]))
        states.append(state.float().cpu())
    return _stack(states, truth), None


def _stack(states: list[Tensor], like: Tensor) -> Tensor:
    return torch.stack(states, dim=1) if states else like[:, :0]


def _relative(states: Tensor, truth: Tensor) -> np.ndarray:
    """B x steps."""
    norms = [torch.linalg.vector_norm(u.double().flatten(2), dim=2) for u in (states - truth, truth)]
    return (norms[0] / norms[1].clamp_min(1e-30)).numpy()


def _correlation(states: Tensor, truth: Tensor) -> np.ndarray:
    """B x steps."""
    a, b = (u.double().flatten(2) for u in (states, truth))
    a, b = a - a.mean(dim=2, keepdim=True), b - b.mean(dim=2, keepdim=True)
    below = torch.linalg.vector_norm(a, dim=2) * torch.linalg.vector_norm(b, dim=2)
    return ((a * b).sum(dim=2) / below.clamp_min(1e-30)).numpy()
