"""A dataset that is solved while it is used: new samples each epoch, nothing on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from halfwave.data.dataset import Dataset, Split
from halfwave.data.generator import SPLITS, Generator, pair_of
from halfwave.data.placement import Placement
from halfwave.errors import InputError


@dataclass
class LiveSource:
    """`count` samples of an epoch; epoch e uses the samples e * count .. (e + 1) * count - 1 of the generator."""

    generator: Generator
    seed: int
    split: str
    count: int
    epoch: int = 0

    def __post_init__(self) -> None:
        x, y = self.read(np.zeros(1, dtype=np.int64))
        self.shapes = (self.count, *x.shape[1:]), (self.count, *y.shape[1:])

    def read(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        numbers = [int(i) + self.epoch * self.count for i in indices]
        samples = self.generator.samples(self.seed, self.split, numbers)
        if not samples:
            return tuple(np.zeros((0, *shape[1:]), np.float32) for shape in self.shapes)  # type: ignore[return-value]
        x, y = zip(*map(pair_of, samples), strict=True)
        return np.stack(x), np.stack(y)


class LiveSplit(Split):
    """A split that is another one in each epoch."""

    lasting = False

    def __init__(self, path: Path, source: LiveSource) -> None:
        super().__init__(path, source.split, source, source.generator.domain)
        self.live = source

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch: from now on the samples are that epoch's, the same ones whenever it is set again."""
        if epoch < 0:
            raise InputError(f"epoch is {epoch}; it must not be negative")
        self.live.epoch = epoch


@dataclass(frozen=True)
class LiveDataset(Dataset):
    """A `Dataset` whose train split is new in every epoch; the test split stays."""

    train: LiveSplit

    def set_epoch(self, epoch: int) -> None:
        """`LiveSplit.set_epoch` of the train split."""
        self.train.set_epoch(epoch)


def live_dataset(generator: Generator, *, n_train: int = 120, n_test: int = 20, seed: int = 0) -> LiveDataset:
    """A dataset that `generator` solves sample by sample; by default of the size of the paper's shallow-water data."""
    if n_train < 1 or n_test < 1:
        raise InputError(f"n_train and n_test are {n_train} and {n_test}; each split needs at least 1 sample")
    path = Path(f"<{generator.name}>")
    sources = [LiveSource(generator, seed, split, n) for split, n in zip(SPLITS, (n_train, n_test), strict=True)]
    train, test = LiveSplit(path, sources[0]), Split(path, "test", sources[1], generator.domain)
    metadata = {"name": generator.name, **generator.describe(), "domain": generator.domain.to_dict(), "seed": seed}
    metadata |= {"n_train": n_train, "n_test": n_test}
    return LiveDataset(path, metadata, Placement(generator.domain), train, test)
