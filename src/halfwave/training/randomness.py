"""All random states of a process, as tensors and JSON."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor


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
