"""The order of samples: a function of the seed and the epoch alone, so that any step can be found again."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def epoch_order(seed: int, epoch: int, samples: int) -> Tensor:
    """A permutation of the samples, the same on every rank and in every resumed run."""
    return torch.from_numpy(np.random.default_rng([seed, epoch]).permutation(samples))


def cut(order: Tensor, batch_size: int) -> list[Tensor]:
    """Consecutive batches; the last may be smaller."""
    return list(order.split(batch_size))


def share(batch: Tensor, rank: int, ranks: int) -> Tensor:
    """The samples of a batch that belong to one of `ranks`: without overlap, together all, empty for some if few."""
    return batch[rank::ranks]
