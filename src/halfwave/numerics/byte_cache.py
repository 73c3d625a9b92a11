"""ByteCache: the most recently used values, within a limit of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

import torch

from halfwave.numerics.kernel import untransformed


class Sized(Protocol):
    """What says how many bytes it takes: a tensor, a graph."""

    @property
    def nbytes(self) -> int: ...


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value", bound=Sized)


class ByteCache(Generic[Key, Value]):
    """Values by key, at most `limit` bytes of them; the one not used for longest goes first.

    The `at_least` latest ones stay whatever their size: without them, what is needed in every step and is larger than
    the limit would be built in every step. Threads may share a cache. A copy, or a pickled one, starts empty.
    """

    def __init__(self, limit: int, at_least: int = 0) -> None:
        self.limit, self.at_least, self.held = limit, at_least, 0
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key, build: Callable[[Key], Value]) -> Value:
        """The value of `key`, from `build(key)` where it is not held."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            # Outside inference mode and transforms of torch.func: the same value must serve training later.
            with untransformed(), torch.inference_mode(False), torch.no_grad():
                value = build(key)
            if self.at_least or value.nbytes <= self.limit:
                self._values[key] = value
                self.held += value.nbytes
            while self.held > self.limit and len(self._values) > self.at_least:
                self.held -= self._values.popitem(last=False)[1].nbytes
            return value

    def __reduce__(self) -> tuple[Any, ...]:
        return ByteCache, (self.limit, self.at_least)
