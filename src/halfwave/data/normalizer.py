"""Per-channel normalisation, fitted on the train split alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halfwave.data.dataset import Split
from halfwave.errors import InputError


@dataclass(frozen=True)
class Normalizer:
    """encode(v) = (v - mean) / std per channel; decode is its inverse.

    v is B x C x grid (any number of grid axes); `mean` and `std` are C float32 values, fitted without units: data times
    a factor have both times that factor. A channel that never changes has its own value for std, or where that is zero
    the size of the largest channel, so that encoding it gives zeros and not NaN.
    """

    mean: Tensor
    std: Tensor
    repeats: bool = False
    """Whether a tensor may hold several fields of these channels one after the other, such as states in time."""

    def __post_init__(self) -> None:
        if self.mean.ndim != 1 or self.mean.shape != self.std.shape:
            raise InputError(
                f"mean and std have shapes {tuple(self.mean.shape)} and {tuple(self.std.shape)}; C is expected"
            )
        if not (torch.isfinite(self.mean).all() and torch.isfinite(self.std).all() and (self.std > 0).all()):
            raise InputError("the mean of a normalizer must be finite and its std positive")

    def encode(self, v: Tensor) -> Tensor:
        mean, std = self._shaped(v)
        return (v - mean) / std

    def decode(self, v: Tensor) -> Tensor:
        mean, std = self._shaped(v)
        return v * std + mean

    def _shaped(self, v: Tensor) -> tuple[Tensor, Tensor]:
        fields = v.shape[1] // len(self.mean) if self.repeats and v.ndim > 1 else 1
        if v.ndim < 2 or fields < 1 or v.shape[1] != fields * len(self.mean):
            raise InputError(f"a normalizer of {len(self.mean)} channels was given a tensor of shape {tuple(v.shape)}")
        shape = (-1, *[1] * (v.ndim - 2))
        mean, std = (self.mean.to(v), self.std.to(v)) if fields == 1 else (t.to(v).repeat(fields) for t in self._both)
        return mean.reshape(shape), std.reshape(shape)

    @property
    def _both(self) -> tuple[Tensor, Tensor]:
        return self.mean, self.std

    def state(self) -> dict[str, Any]:
        """JSON-able."""
        repeats = {"repeats": True} if self.repeats else {}
        return {"mean": self.mean.tolist(), "std": self.std.tolist(), **repeats}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Normalizer:
        try:
            mean, std = (torch.tensor(state[key], dtype=torch.float32) for key in ("mean", "std"))
            return cls(mean, std, bool(state.get("repeats", False)))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"not the state of a normalizer: {error}") from error

    @classmethod
    def fit(cls, batches: Iterable[Tensor]) -> Normalizer:
        """Mean and standard deviation over everything but the channels, in one pass."""
        moments = _Moments()
        for batch in batches:
            moments.add(batch)
        return moments.normalizer()


Gather = Callable[[Tensor], Tensor]
"""A row of numbers to those of all processes that share the fields, one after the other: (n,) to (P, n)."""


def fit_normalizers(split: Split, batch_size: int = 64, gather: Gather | None = None) -> tuple[Normalizer, Normalizer]:
    """The normalizers of x and of y, reading `batch_size` samples at a time. Give it the train split only.

    Where the split has pieces of fields, `gather` brings the moments of all pieces together.
    """
    x_moments, y_moments = _Moments(), _Moments()
    for start in range(0, len(split), batch_size):
        x, y = split[start : start + batch_size]
        x_moments.add(x)
        y_moments.add(y)
    if gather is not None:
        x_moments, y_moments = (_Moments.merged(gather(moments.row())) for moments in (x_moments, y_moments))
    return x_moments.normalizer(), y_moments.normalizer()


class _Moments:
    """Mean and sum of squared deviations per channel, merged batch by batch in float64 (Chan, Golub, LeVeque 1979)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = self.squares = torch.zeros(())

    def add(self, batch: Tensor) -> None:
        values = batch.to(torch.float64).movedim(1, 0).flatten(1)
        mean = values.mean(dim=1)
        self._merge(values.shape[1], mean, ((values - mean[:, None]) ** 2).sum(dim=1))

    def _merge(self, added: int, mean: Tensor, squares: Tensor) -> None:
        total = self.count + added
        shift = mean - self.mean
        self.squares = self.squares + squares + shift**2 * (self.count * added / total)
        self.mean = self.mean + shift * (added / total)
        self.count = total

    def row(self) -> Tensor:
        """All that it knows, in one row of float64."""
        return torch.cat([torch.tensor([float(self.count)], dtype=torch.float64), self.mean, self.squares])

    @classmethod
    def merged(cls, rows: Tensor) -> _Moments:
        """Of all values together, from the rows of their parts."""
        made = cls()
        for row in rows:
            mean, squares = row[1:].chunk(2)
            made._merge(int(row[0]), mean, squares)
        return made

    def normalizer(self) -> Normalizer:
        if self.count == 0:
            raise InputError("a normalizer cannot be fitted to no data")
        std = (self.squares / self.count).sqrt()
        size = self.mean.abs()
        largest = torch.maximum(size, std).max()
        instead = torch.where(size > 0, size, largest if largest > 0 else torch.ones_like(largest))
        return Normalizer(self.mean.float(), torch.where(std > 1e-7 * size, std, instead).float())
