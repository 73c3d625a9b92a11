"""Windows: every (start, horizon) of every trajectory as a sample, read when asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from halfwave.data.arrays import HeldArray, PairSource, Rows
from halfwave.data.trajectories import MemoryStates, StatePairs, States, Trajectories
from halfwave.errors import InputError


@dataclass(frozen=True)
class Window:
    """A span of a trajectory: `history` states to see, `horizon` states to predict, every `stride`-th of the file's."""

    history: int = 1
    horizon: int = 1
    stride: int = 1

    def __post_init__(self) -> None:
        for name in ("history", "horizon", "stride"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; at least 1 is needed")

    @property
    def length(self) -> int:
        """States of the file from the first to the last."""
        return (self.history + self.horizon - 1) * self.stride + 1


@dataclass(frozen=True)
class SomeStates:
    """Trajectories start .. stop-1."""

    states: States
    start: int
    stop: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.stop - self.start, *self.states.shape[1:])

    def read(self, index: int, steps: slice) -> np.ndarray:
        return self.states.read(index + self.start, steps)


@dataclass(frozen=True)
class _SomeArrays:
    """Rows start .. stop-1 of what rides along."""

    source: Trajectories
    start: int
    stop: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.stop - self.start, self.source.extra, *self.source.grid)

    def read(self, indices: np.ndarray) -> np.ndarray:
        return self.source.read_beside(indices + self.start)


@dataclass(frozen=True)
class Windows:
    """Pairs (x, y) of one window each: the history and what rides along, N x (h C + E) x grid; the states after it,
    N x (k C) x grid. The windows of one trajectory follow each other and none reaches into the next."""

    source: Trajectories
    window: Window
    each: int = field(init=False)
    """Windows of a trajectory."""

    def __post_init__(self) -> None:
        each = self.source.length - self.window.length + 1
        if each < 1:
            raise InputError(
                f"a history of {self.window.history} and a horizon of {self.window.horizon} at a stride of "
                f"{self.window.stride} span {self.window.length} states; trajectories have {self.source.length}"
            )
        object.__setattr__(self, "each", each)

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        source, count = self.source, self.source.count * self.each
        x = self.window.history * source.channels + source.extra
        return (count, x, *source.grid), (count, self.window.horizon * source.channels, *source.grid)

    def read(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        owners, cut = indices // self.each, self.window.history
        spans = [self._states(int(i), int(t)) for i, t in zip(owners, indices % self.each, strict=True)]
        states = np.stack(spans) if spans else np.zeros((0, cut + self.window.horizon, *self.source.states.shape[2:]))
        x, y = (part.reshape(len(indices), -1, *self.source.grid) for part in (states[:, :cut], states[:, cut:]))
        return np.concatenate([x, self.source.read_beside(owners)], axis=1) if self.source.extra else x, y

    def _states(self, index: int, start: int) -> np.ndarray:
        return self.source.states.read(index, slice(start, start + self.window.length, self.window.stride))

    def in_memory(self) -> Windows:
        """The same with all states read: once each, and not once for every window that they are in."""
        source = self.source
        states = np.stack([source.states.read(i, slice(None)) for i in range(source.count)]).astype(np.float32)
        beside = HeldArray(source.read_beside(np.arange(source.count))) if source.extra else None
        return Windows(Trajectories(MemoryStates(states), beside), self.window)


def windows_of(source: PairSource, window: Window) -> Windows:
    """The windows of the trajectories of which `source` has pairs, or some rows of them."""
    if isinstance(source, StatePairs):
        return Windows(source.source, window)
    assert isinstance(source, Rows), "a split of trajectories is a run of them"
    whole = windows_of(source.source, window).source
    beside = _SomeArrays(whole, source.start, source.stop) if whole.extra else None
    return Windows(Trajectories(SomeStates(whole.states, source.start, source.stop), beside), window)
