"""Training in time: the operator that steps, its normalizers, its loss, its noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from halfwave.data import Dataset, Normalizer, Windows
from halfwave.errors import InputError
from halfwave.models import Unrolled, Unrolling
from halfwave.training.config import TrainConfig
from halfwave.training.losses import Loss
from halfwave.training.operator import Operator


@dataclass(frozen=True)
class PerStep(Loss):
    """The mean of a loss over the steps of a window: late states count as early ones, whatever their size.

    Predictions are B x (m C) x grid, m of the k states of targets B x (k C) x grid: those of `unrolled.span`, or all
    without it.
    """

    loss: Loss
    channels: int
    unrolled: Unrolled | None = None

    def per_sample(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Errors of shape (B,)."""
        chosen = self._chosen(target)
        if prediction.shape != chosen.shape:
            raise InputError(f"a prediction of shape {tuple(prediction.shape)}: expected {tuple(chosen.shape)}")
        errors = self.loss.per_sample(self._states(prediction), self._states(chosen))
        return errors.reshape(len(target), -1).mean(dim=1)

    def counted(self, target: Tensor) -> Tensor:
        """Samples with a state that is not zero among those that have a loss."""
        return self.loss.counted(self._states(self._chosen(target))).reshape(len(target), -1).any(dim=1)

    def _chosen(self, target: Tensor) -> Tensor:
        if self.unrolled is None:
            return target
        first, last = self.unrolled.span
        return target[:, first * self.channels : last * self.channels]

    def _states(self, values: Tensor) -> Tensor:
        return values.reshape(-1, self.channels, *values.shape[2:])


def build_stepper(config: TrainConfig, dataset: Dataset, model: nn.Module, fit: bool) -> Operator:
    """The operator of a dataset of windows: one normalizer of the state for every state that goes in or comes out."""
    windows = dataset.train.windows
    assert windows is not None, "asked for only on windows"
    source = windows.source
    state = extra = None
    increments: tuple[float, ...] = ()
    if config.normalise and fit:
        state, increments = _fit_states(windows)
        extra = Normalizer.fit(_beside(windows)) if source.extra else None
    unrolling = Unrolling(
        channels=source.channels,
        history=windows.window.history,
        horizon=windows.window.horizon,
        gradients=config.unroll,
        residual=config.residual,
        increments=increments if config.residual else (),
        recompute=config.recompute_steps,
    )
    unrolled = Unrolled(model, unrolling)
    if state is None:
        return Operator(unrolled, None, None)
    return Operator(unrolled, _of_inputs(state, unrolling.history, extra), Normalizer(state.mean, state.std, True))


def _of_inputs(state: Normalizer, history: int, extra: Normalizer | None) -> Normalizer:
    parts = [state] * history + ([] if extra is None else [extra])
    return Normalizer(torch.cat([part.mean for part in parts]), torch.cat([part.std for part in parts]))


def _fit_states(windows: Windows) -> tuple[Normalizer, tuple[float, ...]]:
    """The normalizer of the states, and the standard deviation of the change in one step, in its units."""
    states = windows.source.states
    trajectories = range(windows.source.count)

    def read(index: int) -> Tensor:
        return torch.from_numpy(np.array(states.read(index, slice(None)), dtype=np.float32))

    stride = windows.window.stride
    state = Normalizer.fit(read(index) for index in trajectories)
    change = Normalizer.fit((u := read(index))[stride:] - u[:-stride] for index in trajectories)
    return state, tuple((change.std / state.std).tolist())


def _beside(windows: Windows) -> list[Tensor]:
    source = windows.source
    values = source.read_beside(np.arange(source.count))
    return [torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))]


def noisy(operator: Operator, x: Tensor, size: float, seeds: Sequence[Sequence[int]]) -> Tensor:
    """The input with normal noise on its states, of `size` times their standard deviation; the seed of each sample
    decides its noise, so that it is the same on every rank and after a resume."""
    unrolled = operator.model
    assert isinstance(unrolled, Unrolled), "noise is for states"
    cut = unrolled.unrolling.history * unrolled.unrolling.channels
    shape = (cut, *x.shape[2:])
    drawn = np.stack([np.random.default_rng(list(seed)).standard_normal(shape, dtype=np.float32) for seed in seeds])
    noise = torch.from_numpy(drawn).to(x)
    if operator.x_normalizer is not None:
        noise = noise * operator.x_normalizer.std[:cut].to(x).reshape(-1, *[1] * (x.ndim - 2))
    return torch.cat([x[:, :cut] + size * noise, x[:, cut:]], dim=1)
