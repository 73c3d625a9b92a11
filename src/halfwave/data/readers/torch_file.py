"""neuraloperator's `.pt` files: a dictionary of tensors `x` and `y`, N x grid or N x C x grid."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halfwave.data.arrays import MAPPED_LIMIT
from halfwave.data.readers.common import Found, choose_pair, pair
from halfwave.errors import InputError


class TorchArray:
    """One tensor of the file, mapped into memory and not loaded, anew in each process."""

    def __init__(self, path: Path, key: str, tensor: Tensor) -> None:
        self.path, self.key = path, key
        self.shape = tuple(tensor.shape)
        self._tensor: Tensor | None = tensor
        self._touched = 0

    def read(self, indices: np.ndarray) -> np.ndarray:
        if self._tensor is None or self._touched > MAPPED_LIMIT:
            self._tensor, self._touched = _load(self.path)[self.key], 0
        values = self._tensor[torch.from_numpy(indices)]
        self._touched += values.numel() * values.element_size()
        return values.to(torch.float32).numpy()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tensor": None}


def read_torch(path: Path) -> Found:
    """Only tensors are unpickled (`weights_only`): a file with anything else in it is refused, never run."""
    tensors = _load(path)
    keys = choose_pair(list(tensors), path)
    arrays = [_array(path, key, tensors[key]) for key in keys]
    return Found({"samples": pair(*arrays)}, {"format": "neuraloperator .pt"})


def _load(path: Path) -> dict[str, Any]:
    try:
        content = _load_tensors(path)
    except pickle.UnpicklingError as error:
        raise InputError(f"{path} holds pickled objects other than tensors; they are not loaded") from error
    except Exception as error:  # torch reports damage in many ways
        raise InputError(f"{path} is truncated or not a file of tensors") from error
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise InputError(f"{path} holds a {type(content).__name__}; a dictionary of tensors is expected")
    return content


def _load_tensors(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about pickle protocols; what cannot be read raises
        try:
            return torch.load(path, weights_only=True, map_location="cpu", mmap=True)
        except RuntimeError:  # files of before torch 1.6 cannot be mapped
            return torch.load(path, weights_only=True, map_location="cpu")


def _array(path: Path, key: str, tensor: Any) -> TorchArray:
    if not isinstance(tensor, Tensor) or tensor.is_sparse or tensor.is_complex():
        kind = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise InputError(f"{path}: '{key}' is {kind}; a dense tensor of real numbers is expected")
    return TorchArray(path, key, tensor)
