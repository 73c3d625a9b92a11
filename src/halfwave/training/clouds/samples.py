"""Point clouds as the trainer asks for them: batches of encoded geometries and their pressures."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from halfwave.data import PointSample, PointSplit, resolve_index
from halfwave.domains import Cloud
from halfwave.training.clouds.encoder import CloudEncoder
from halfwave.training.clouds.packed import Clouds, Pressures


class CloudSamples:
    """Batches of a split: `samples[[3, 0]]` is (Clouds, Pressures) of two geometries.

    The distance field of a geometry is computed the first time it is asked for, and kept: 1 MB on a latent grid of 64
    points a side. With `in_memory` the clouds are kept too, all read (and so checked) now.
    """

    def __init__(self, split: PointSplit, encoder: CloudEncoder, in_memory: bool = False) -> None:
        self.split, self.encoder = split, encoder
        self._kept = list(split) if in_memory else None
        self._distances: dict[int, Tensor] = {}

    @property
    def windows(self) -> None:
        return None

    @property
    def domain(self) -> Cloud:
        return Cloud()

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: Any) -> tuple[Clouds, Pressures]:
        numbers = [int(number) for number in resolve_index(index, len(self))[0]]
        samples = [self._sample(number) for number in numbers]
        distances = [self._distance(*pair) for pair in zip(numbers, samples, strict=True)]
        clouds = self.encoder.collate(samples, distances)
        values = torch.cat([sample.pressure for sample in samples]).unsqueeze(1)
        return clouds, Pressures(values, torch.cat([sample.areas for sample in samples]), clouds.offsets)

    def set_epoch(self, epoch: int) -> None:
        return

    def _sample(self, number: int) -> PointSample:
        return self.split[number] if self._kept is None else self._kept[number]

    def _distance(self, number: int, sample: PointSample) -> Tensor:
        if number not in self._distances:
            self._distances[number] = self.encoder.distance(sample)
        return self._distances[number]
