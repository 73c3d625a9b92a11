"""Live bytes, counted at dispatch: the one measure of memory, for real steps and for planned ones.

Every operator that PyTorch dispatches (forward, backward, optimizer, inside autograd functions and custom ops) passes
the counter. It adds each storage once, when it is first seen, and takes it off the moment it is freed, also while only
autograd holds it. So the same counter serves any model, ours or a peer's, on cpu, cuda and meta. It does not see
scratch space inside one kernel, nor what a compiled graph allocates for itself (`allocated` does).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import accumulate
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class LiveBytes(TorchDispatchMode):
    """Counts live tensor storages while active, each once, views and in-place results included in their storage.

    >>> with LiveBytes() as live:
    ...     held = live.hold(parameters)   # what exists already; anything else is counted when an operator reads it
    ...     step()
    >>> live.peak()                        # bytes
    >>> live.peak(without=held)            # the largest sum of all others

    The log of allocations and frees is kept, so that a peak can be asked for afterwards with some tensors left out:
    which storages end as gradients is only known at the end. `note(tensor)` is kept for the first tensor of each
    storage, and `mark(label)` divides the log into spans: with both, a peak can be explained. `watch` is told of every
    operator, its arguments and its result.
    """

    def __init__(
        self,
        note: Callable[[Tensor], Any] | None = None,
        watch: Callable[[Any, Any, Any], None] | None = None,
    ) -> None:
        super().__init__()
        self._watch = watch
        self.notes: dict[int, Any] = {}  # token -> what `note` said
        self._note = note
        self._marks: list[tuple[int, Any]] = []  # (position in the log, label)
        self._log: list[tuple[int, int]] = []  # (token, change in bytes), in order
        self._known: dict[int, tuple[int, int, Any]] = {}  # address of the storage -> token, bytes, weak reference
        self._tokens = 0
        self._before: dict[int, int] = {}  # token -> bytes of storages older than the counter

    def hold(self, tensors: Iterable[Tensor]) -> set[int]:
        """Count tensors that exist already as live from the beginning; returns tokens that stand for their storages."""
        return {self.token(tensor) for tensor in tensors}

    def token(self, tensor: Tensor) -> int:
        """What stands for a tensor's storage in the log; one not seen before counts as live from the beginning."""
        return self._see(tensor, older=True)

    def older(self, token: int) -> bool:
        """Whether the storage existed before the counter."""
        return token in self._before

    def peak(self, without: Collection[int] = (), granule: int = 1, until: Any = None) -> int:
        """The largest sum of live bytes so far, leaving out the storages that the tokens `without` stand for.

        Every storage counts as a multiple of `granule` bytes, as it does for an allocator that rounds. With `until`,
        the largest sum up to the first mark of this label, if there is one.
        """
        marked = (position for position, label in self._marks if until is not None and label == until)
        end = next(marked, len(self._log))
        held = {token: nbytes for token, nbytes in self._before.items() if token not in without}
        running = largest = sum(_rounded_up(nbytes, granule) for nbytes in held.values())
        for token, change in self._log[:end]:
            if token not in without:
                before = held.get(token, 0)
                held[token] = before + change
                running += _rounded_up(before + change, granule) - _rounded_up(before, granule)
                largest = max(largest, running)
        return largest

    def mark(self, label: Any) -> None:
        """Everything from here to the next mark belongs to `label`."""
        self._marks.append((len(self._log), label))

    @property
    def marks(self) -> list[tuple[Any, int]]:
        """Labels of the marks with the places on the `curve` where they begin, in order."""
        return [(label, position) for position, label in self._marks]

    def curve(self) -> list[int]:
        """The sum of live bytes at the beginning and after each allocation and free."""
        return list(accumulate((change for _, change in self._log), initial=sum(self._before.values())))

    def spans(self) -> Iterator[tuple[Any, int, int]]:
        """For each mark in order: its label, the largest sum of live bytes in its span, and the sum at its end."""
        curve, ends = self.curve(), [*(position for position, _ in self._marks[1:]), len(self._log)]
        for (_, label), start, end in zip(self._marks, [0, *ends], ends, strict=False):
            yield label, max(curve[start : end + 1]), curve[end]

    def alive_at_peak(self) -> dict[int, int]:
        """Tokens and bytes of the storages that are alive when the sum is first at its largest."""
        sums = self.curve()
        alive = dict(self._before)
        for token, change in self._log[: sums.index(max(sums))]:
            alive[token] = alive.get(token, 0) + change
        return {token: nbytes for token, nbytes in alive.items() if nbytes}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # An argument not seen before was not made by a dispatched operator: it is older than the counter.
        for tensor in _tensors((*args, *kwargs.values())):
            self._see(tensor, older=True)
        result = func(*args, **kwargs)
        for tensor in _tensors((result,)):
            self._see(tensor, older=False)
        if self._watch is not None:
            self._watch(func, args, result)
        return result

    def _see(self, tensor: Tensor, older: bool) -> int:
        storage = tensor.untyped_storage()
        address, nbytes = storage._cdata, storage.nbytes()
        known = self._known.get(address)
        if known is None:
            if self._note is not None:
                self.notes[self._tokens + 1] = self._note(tensor)
            return self._add(storage, address, nbytes, older)
        token, before, reference = known
        if before != nbytes:  # resized in place
            self._log.append((token, nbytes - before))
            self._known[address] = (token, nbytes, reference)
        return token

    def _add(self, storage: Any, address: int, nbytes: int, older: bool) -> int:
        token = self._tokens = self._tokens + 1
        # PyTorch keeps the Python object of a storage for as long as the storage itself lives, whoever holds it (a
        # saved tensor in a C++ autograd node, say), so the end of the one is the end of the other.
        reference = weakref.ref(storage, lambda _: self._drop(address, token))
        self._known[address] = (token, nbytes, reference)
        if older:
            self._before[token] = nbytes
        else:
            self._log.append((token, nbytes))
        return token

    def _drop(self, address: int, token: int) -> None:
        known = self._known.get(address)
        if known is not None and known[0] == token:
            self._log.append((token, -known[1]))
            del self._known[address]


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among the arguments of an operator, which nest in lists only."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _rounded_up(nbytes: int, granule: int) -> int:
    return -(-nbytes // granule) * granule


def storage_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the tensors' storages, each storage once."""
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())
