"""MatrixCache: the most recently used constant matrices, within a limit of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

import torch
from torch import Tensor

from halfwave.numerics import untransformed

Key = TypeVar("Key", bound=Hashable)


class MatrixCache(Generic[Key]):
    """Matrices by key, built by `build` when missing, at most `limit` bytes of them (but always the latest one)."""

    def __init__(self, limit: int, build: Callable[[Key], Tensor]) -> None:
        self.limit = limit
        self.held = 0
        self._build = build
        self._entries: OrderedDict[Key, Tensor] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Key) -> Tensor:
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                # Outside inference mode and transforms of torch.func: the same matrix must serve training later.
                with untransformed(), torch.inference_mode(False), torch.no_grad():
                    found = self._build(key)
                self._entries[key] = found
                self.held += found.nbytes
                while self.held > self.limit and len(self._entries) > 1:
                    self.held -= self._entries.popitem(last=False)[1].nbytes
            self._entries.move_to_end(key)
            return found
