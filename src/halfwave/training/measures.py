"""Exact measures of a training step: live bytes counted at dispatch, and throughput.

Every operator that PyTorch dispatches (forward, backward, optimizer, inside autograd functions and custom ops) passes
the counter. It adds each storage once, when it is first seen, and takes it off the moment it is freed, also while only
autograd holds it. So the same counter serves any model, ours or a peer's, on cpu, cuda and meta. It does not see
scratch space inside one kernel, nor what a compiled graph allocates for itself: measure eager models.
"""

from __future__ import annotations

import statistics
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class StepMeasure:
    """What one training step holds at most.

    `activation_bytes` is the largest sum of live bytes that are not parameters, gradients, optimizer state or batch.
    """

    peak_memory_bytes: int
    activation_bytes: int
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    batch_bytes: int


class LiveBytes(TorchDispatchMode):
    """Counts live tensor storages while active, each once, views and in-place results included in their storage.

    >>> with LiveBytes() as live:
    ...     held = live.hold(parameters)   # what exists already; anything else is counted when an operator reads it
    ...     step()
    >>> live.peak()                        # bytes
    >>> live.peak(without=held)            # the largest sum of all others

    The log of allocations and frees is kept, so that a peak can be asked for afterwards with some tensors left out:
    which storages end as gradients is only known at the end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._log: list[tuple[int, int]] = []  # (token, change in bytes), in order
        self._known: dict[int, tuple[int, int, Any]] = {}  # address of the storage -> token, bytes, weak reference
        self._tokens = 0
        self._before: dict[int, int] = {}  # token -> bytes of storages older than the counter

    def hold(self, tensors: Iterable[Tensor]) -> set[int]:
        """Count tensors that exist already as live from the beginning; returns tokens that stand for their storages."""
        return {self._see(tensor, older=True) for tensor in tensors}

    def peak(self, without: Collection[int] = ()) -> int:
        """The largest sum of live bytes so far, leaving out the storages that the tokens `without` stand for."""
        running = sum(nbytes for token, nbytes in self._before.items() if token not in without)
        largest = running
        for token, change in self._log:
            if token not in without:
                running += change
                largest = max(largest, running)
        return largest

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # An argument not seen before was not made by a dispatched operator: it is older than the counter.
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, Tensor):
                self._see(leaf, older=True)
        result = func(*args, **kwargs)
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._see(leaf, older=False)
        return result

    def _see(self, tensor: Tensor, older: bool) -> int:
        storage = tensor.untyped_storage()
        address, nbytes = storage._cdata, storage.nbytes()
        known = self._known.get(address)
        if known is None:
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


def storage_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the tensors' storages, each storage once."""
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


def training_step(model: nn.Module, loss: Callable[..., Tensor], optimizer: Optimizer, batch: Batch) -> None:
    """The step that is measured: gradients cleared, forward, loss, backward, update."""
    optimizer.zero_grad(set_to_none=True)
    loss(model(batch[0]), batch[1]).backward()
    optimizer.step()


def measure_step(model: nn.Module, loss: Callable[..., Tensor], optimizer: Optimizer, batch: Batch) -> StepMeasure:
    """Run one whole training step and count its bytes.

     An optimizer makes its state at its first step, so call this after one step for the figures of a long run
    .
    """
    return measure(lambda: training_step(model, loss, optimizer, batch), model, optimizer, batch)


def measure(step: Callable[[], Any], model: nn.Module, optimizer: Optimizer, batch: Sequence[Tensor]) -> StepMeasure:
    """Count the bytes of `step()`, which trains `model` on `batch` and leaves its gradients in place."""
    with LiveBytes() as live:
        held = live.hold(_parts(model, optimizer, batch))
        live.hold(model.buffers())
        step()
        # Twice: the gradients of the step before are freed in the step, its own and a new state are made in it.
        held |= live.hold(_parts(model, optimizer, batch))
    return StepMeasure(
        peak_memory_bytes=live.peak(),
        activation_bytes=live.peak(without=held),
        parameter_bytes=storage_bytes(model.parameters()),
        gradient_bytes=storage_bytes(_gradients(model)),
        optimizer_bytes=storage_bytes(_state(optimizer)),
        batch_bytes=storage_bytes(batch),
    )


def samples_per_second(step: Callable[[], Any], samples: int, steps: int = 10, warm_up: int = 2) -> float:
    """Median throughput of `step()`, a whole training step on `samples` samples in memory, after `warm_up` calls."""
    for _ in range(warm_up):
        step()
    return samples / statistics.median(_timed(step) for _ in range(steps))


def _timed(step: Callable[[], Any]) -> float:
    synchronize()
    start = time.perf_counter()
    step()
    synchronize()
    return time.perf_counter() - start


def synchronize() -> None:
    """Wait for the GPU, where there is one: its clock is not ours."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def take_allocator_peak(device: torch.device) -> int | None:
    """The CUDA allocator's own peak since the last call: it also sees scratch space and compiled graphs."""
    if device.type != "cuda":
        return None
    peak = torch.cuda.max_memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    return peak


def _parts(model: nn.Module, optimizer: Optimizer, batch: Sequence[Tensor]) -> list[Tensor]:
    return [*model.parameters(), *_gradients(model), *_state(optimizer), *batch]


def _gradients(model: nn.Module) -> list[Tensor]:
    return [p.grad for p in model.parameters() if p.grad is not None]


def _state(optimizer: Optimizer) -> Iterator[Tensor]:
    for values in optimizer.state.values():
        yield from (value for value in values.values() if isinstance(value, Tensor))
