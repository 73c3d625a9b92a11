"""Data that the caller holds: arrays, tensors or a `torch.utils.data.Dataset` of pairs, in place of a file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset

from halfwave.data.arrays import ArrayPair, HeldArray, PairSource
from halfwave.data.channels import ChannelRule
from halfwave.data.generator import SPLITS
from halfwave.data.readers.common import Found, ReadOptions
from halfwave.data.trajectories import MemoryStates, StatePairs, Trajectories
from halfwave.errors import InputError, described

_ACCEPTED = "a pair (x, y), a Dataset of pairs, {'x', 'y'}, {'train', 'test'} of those, or {'trajectory'}"
_BLOCK = 1 << 20


class GivenData:
    """One way in for what is not a file.

    (x, y) or {"x": .., "y": ..} of arrays or tensors; a `Dataset` whose items are such pairs, one sample each;
    {"trajectory": states N x steps x C x grid}; {"train": .., "test": ..} of any of these.
    """

    def __init__(self, value: Any) -> None:
        self.parts: dict[str, Any] = _parts(value)

    def __str__(self) -> str:
        return "; ".join(f"{name}: {_described(part)}" for name, part in self.parts.items())

    def fingerprint(self) -> dict[str, Any]:
        """Size and SHA-256 of the content; of a `Dataset`, of a few of its samples."""
        digest, size = hashlib.sha256(), 0
        for name, part in self.parts.items():
            digest.update(name.encode())
            for array in _content(part):
                digest.update(f"{array.dtype.str}{array.shape}".encode())
                raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                size += raw.nbytes
                digest.update(raw[:: max(1, raw.nbytes // (256 * _BLOCK))].tobytes())
        return {"bytes": size, "sha256": digest.hexdigest()}

    def find(self, options: ReadOptions) -> Found:
        """As a reader finds the pairs of a file."""
        metadata = {"format": "given by the program"}
        if all(isinstance(part, dict) for part in self.parts.values()):
            found = {name: _trajectories(part["trajectory"]) for name, part in self.parts.items()}
            pairs: dict[str, PairSource] = {name: StatePairs(part, options.steps) for name, part in found.items()}
            return Found(pairs, {**metadata, "steps": list(options.steps)}, None, found)
        if any(isinstance(part, dict) for part in self.parts.values()):
            raise InputError(f"data is {self}; trajectories and pairs do not go together")
        rule = options.channel_rule
        return Found({name: _source(part, rule, name) for name, part in self.parts.items()}, metadata)


class DatasetPairs:
    """A `Dataset` of pairs as a source: items are made when asked for."""

    def __init__(self, items: TorchDataset[Any]) -> None:
        self.items = items
        x, y = (_array(part, "an item") for part in _item(items, 0))
        count = len(items)  # type: ignore[arg-type]
        self.shapes = ((count, *x.shape), (count, *y.shape))

    def read(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        items = [_item(self.items, int(i)) for i in indices]
        if not items:
            return tuple(np.zeros((0, *shape[1:]), np.float32) for shape in self.shapes)  # type: ignore[return-value]
        x, y = zip(*items, strict=True)
        return np.stack([_array(v, "x") for v in x]), np.stack([_array(v, "y") for v in y])


class _Half:
    """x or y of the pairs of a `Dataset`."""

    def __init__(self, pairs: DatasetPairs, which: int) -> None:
        self.pairs, self.which = pairs, which
        self.shape = pairs.shapes[which]

    def read(self, indices: np.ndarray) -> np.ndarray:
        return self.pairs.read(indices)[self.which]


def _parts(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping) and set(value) == set(SPLITS):
        return {split: _pair_or_dataset(value[split]) for split in SPLITS}
    return {"samples": _pair_or_dataset(value)}


def _pair_or_dataset(value: Any) -> Any:
    if isinstance(value, Mapping) and set(value) == {"trajectory"}:
        return dict(value)
    if isinstance(value, Mapping) and set(value) == {"x", "y"}:
        return (value["x"], value["y"])
    if isinstance(value, tuple | list) and len(value) == 2:
        return tuple(value)
    if isinstance(value, IterableDataset) or not isinstance(value, TorchDataset):
        raise InputError(f"data is {described(value)}; accepted: a path, {_ACCEPTED}")
    if not hasattr(value, "__len__") or not len(value):
        raise InputError(f"data is {described(value)} without samples or without a length")
    return value


def _trajectories(value: Any) -> Trajectories:
    states = MemoryStates(_array(value, "trajectory"))
    if not 4 <= len(states.shape) <= 6:
        raise InputError(f"a trajectory is {described(value)}; N x steps x C x grid is expected")
    return Trajectories(states)


def _source(part: Any, rule: ChannelRule, name: str) -> PairSource:
    where = f"data ({name})"
    if not isinstance(part, tuple):
        pairs = DatasetPairs(part)
        first, second = rule.pair(_Half(pairs, 0), _Half(pairs, 1), where).shapes
        # Already N x C x grid, which is the rule for a Dataset's items: read each item once.
        if (first, second) == pairs.shapes:
            return pairs
        return rule.pair(_Half(pairs, 0), _Half(pairs, 1), where)
    x, y = (HeldArray(_array(array, which)) for array, which in zip(part, ("x", "y"), strict=True))
    found: ArrayPair = rule.pair(x, y, where)
    return found


def _item(items: TorchDataset[Any], index: int) -> tuple[Any, Any]:
    item = items[index]
    if isinstance(item, Mapping) and {"x", "y"} <= set(item):
        return item["x"], item["y"]
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    raise InputError(f"item {index} of the Dataset is {described(item)}; a pair (x, y) or {{'x', 'y'}} is expected")


def _array(value: Any, name: str) -> np.ndarray:
    array = value.detach().cpu().float().numpy() if isinstance(value, Tensor) else np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} is {described(value)}; real numbers are expected")
    return array


def _content(part: Any) -> list[np.ndarray]:
    if isinstance(part, tuple):
        return [_array(array, "data") for array in part]
    if isinstance(part, dict):
        return [_array(part["trajectory"], "data")]
    if isinstance(part, TorchDataset):
        count = len(part)  # type: ignore[arg-type]
        looked_at = sorted({0, count // 2, count - 1})
        return [np.array([count]), *(_array(v, "data") for i in looked_at for v in _item(part, i))]
    raise AssertionError("a part is a pair, a Dataset or a trajectory")


def _described(part: Any) -> str:
    if isinstance(part, tuple):
        return ", ".join(f"{name} {described(array)}" for name, array in zip(("x", "y"), part, strict=True))
    return described(part)


def is_given(value: Any) -> bool:
    """Whether a `data` argument is something else than a path."""
    return isinstance(value, tuple | list | Mapping | TorchDataset | np.ndarray | torch.Tensor)
