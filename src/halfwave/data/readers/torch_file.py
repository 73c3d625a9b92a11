"""neuraloperator's `.pt` files: tensors `x` and `y`, N x grid or N x C x grid; or a list of cars.

Its Burgers files have x on the line and y in space and time, on times x line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halfwave.data.arrays import MAPPED_LIMIT, ArrayPair, LazyArray, WithChannel
from halfwave.data.claims import check_memory
from halfwave.data.point_dataset import PointDataset
from halfwave.data.readers.car_list import is_car_list, read_car_list
from halfwave.data.readers.common import Found, ReadOptions
from halfwave.data.readers.torch_content import TorchContent, require_tensor
from halfwave.data.refusals import reading
from halfwave.data.trajectories import MemoryStates, StatePairs, Trajectories
from halfwave.errors import InputError


class TorchArray:
    """One tensor of the file, mapped into memory and not loaded, anew in each process."""

    def __init__(self, content: TorchContent, key: str, tensor: Tensor) -> None:
        self.content, self.key = content, key
        self.shape = tuple(tensor.shape)
        self._tensor: Tensor | None = tensor
        self._touched = 0

    def read(self, indices: np.ndarray) -> np.ndarray:
        self.content.check()
        with reading(self.content.path, self.key):
            if self._tensor is None or self._touched > MAPPED_LIMIT:
                self._tensor, self._touched = _named_tensor(self.content, self.content.load(), self.key), 0
            values = self._tensor[torch.from_numpy(indices)]
            self._touched += values.numel() * values.element_size()
            return values.to(torch.float32).numpy()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tensor": None}


@dataclass(frozen=True)
class AlongTime:
    """N x C x line -> N x C x T x line, the same at all times: the input of an answer in space and time."""

    array: LazyArray
    times: int

    @property
    def shape(self) -> tuple[int, ...]:
        n, c, line = self.array.shape
        return (n, c, self.times, line)

    def read(self, indices: np.ndarray) -> np.ndarray:
        values = self.array.read(indices)[:, :, None]
        return np.broadcast_to(values, (*values.shape[:2], self.times, values.shape[-1]))


def read_torch(path: Path, options: ReadOptions) -> Found | PointDataset:
    """Only tensors are unpickled: a file with anything else in it is refused, never run."""
    source = TorchContent(path)
    content = source.load()
    if is_car_list(content):
        source.check()
        return read_car_list(path, content, options)
    tensors, metadata = _named(content, path), {"format": "neuraloperator .pt"}
    if "trajectory" in tensors and options.x_key is None:
        states = _named_tensor(source, tensors, "trajectory")
        check_memory(f"{path}: 'trajectory'", 4 * states.numel())
        source.check()
        found = Trajectories(MemoryStates(states.float().numpy()))
        pairs = StatePairs(found, options.steps)
        return Found({"samples": pairs}, {**metadata, "steps": list(options.steps)}, None, {"samples": found})
    keys = options.choose_pair(list(tensors), path)
    x, y = (TorchArray(source, key, _named_tensor(source, tensors, key)) for key in keys)
    if options.channel_axis is None and _is_space_time(x.shape, y.shape):
        line: LazyArray = x if len(x.shape) == 3 else WithChannel(x)
        space_time: LazyArray = y if len(y.shape) == 4 else WithChannel(y)
        note = {
            **metadata,
            "keys": list(keys),
            "note": f"{keys[0]} is repeated along time, the first axis of {keys[1]}",
        }
        return Found({"samples": ArrayPair(AlongTime(line, y.shape[-2]), space_time)}, note)
    samples = options.channel_rule.pair(x, y, f"{path}: '{keys[0]}'")
    return Found({"samples": samples}, {**metadata, "keys": list(keys)})


def _is_space_time(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    """neuraloperator's Burgers files: x is N (x 1) x line and y N (x 1) x time x line, of at least 8 times."""
    without = x[:1] + x[2:] if len(x) == 3 and x[1] == 1 else x
    answer = y[:1] + y[2:] if len(y) == 4 and y[1] == 1 else y
    return len(without) == 2 and len(answer) == 3 and answer[2] == without[1] and answer[1] >= 8


def _named(content: Any, path: Path) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        kind = type(content).__name__
        raise InputError(f"{path} holds a {kind}; a dictionary of tensors or a list of cars is expected")
    return content


def _named_tensor(source: TorchContent, content: Any, key: str) -> Tensor:
    return require_tensor(_named(content, source.path)[key], f"{source.path}: '{key}'")
