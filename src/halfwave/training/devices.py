"""One process or several: launching and interrupting them, with lightning-fabric, and what DDP and FSDP do to a model.

`ddp` keeps a whole model in each process and averages gradients; `fsdp` also shards parameters, gradients and optimizer
state (torch's fully_shard), on any device that the process group serves, gloo on CPU included. Under torchrun the
processes are there already; otherwise they are spawned here.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from halfwave.errors import InputError
from halfwave.models import blocks_of
from halfwave.optimizers import is_sharded
from halfwave.training.operator import Operator

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Strategy = Literal["auto", "ddp", "fsdp"]
_CAUGHT = (signal.SIGINT, signal.SIGTERM)


class WorkerError(InputError):
    """One of several processes failed or was killed; the run stands at its last checkpoint."""


def under_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_spawned(devices: int, strategy: Strategy) -> bool:
    """Whether the processes of a run are started by this one, which then computes nothing itself."""
    return not under_torchrun() and (devices != 1 or strategy != "auto")


def launch(function: Callable[..., Any], accelerator: str, devices: int, strategy: Strategy, *arguments: Any) -> Any:
    """Call ``function(fabric, *arguments)`` in every process; returns what the first one returns."""
    if not is_spawned(devices, strategy):
        here = int(os.environ["LOCAL_WORLD_SIZE"]) if under_torchrun() else 1
        fabric = _fabric(accelerator, here, "ddp" if under_torchrun() else "auto")
        fabric.launch()
        return function(fabric, *arguments)
    fabric = _fabric(accelerator, devices, "ddp_spawn")
    with _signals_for_workers():
        try:
            return fabric.launch(function, *arguments)
        except ProcessExitedException as error:
            raise WorkerError(_killed(error)) from None
        except ProcessRaisedException as error:
            raise WorkerError(_raised(error)) from None


def _fabric(accelerator: str, devices: int, strategy: str) -> Fabric:
    try:
        nodes = int(os.environ.get("GROUP_WORLD_SIZE", "1")) if under_torchrun() else 1
        from lightning_fabric import Fabric  # here: it brings the compiler along, which only training needs

        return Fabric(accelerator=accelerator, devices=devices, strategy=strategy, num_nodes=nodes)
    except (ValueError, RuntimeError) as error:
        raise InputError(f"cannot use accelerator {accelerator!r} with {devices} devices: {_first(error)}") from error


@contextlib.contextmanager
def _signals_for_workers() -> Iterator[None]:
    """Pass the first SIGINT or SIGTERM on to the workers as one SIGTERM; a second SIGINT kills them."""
    asked: list[int] = []

    def catch(number: int, frame: FrameType | None) -> None:
        workers = multiprocessing.active_children()
        for worker in workers:
            if worker.pid is not None:
                os.kill(worker.pid, signal.SIGKILL if asked else signal.SIGTERM)
        asked.append(number)

    before = {number: signal.signal(number, catch) for number in _CAUGHT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interrupts(contextlib.AbstractContextManager["Interrupts"]):
    """While active, SIGINT and SIGTERM ask the loop to save and stop by `requested`; a second SIGINT stops at once.

    Outside the main thread signals are left as they are. A `worker` (one of several processes) ignores SIGINT: a
    terminal sends it to all of them, and the parent passes one request on.
    """

    def __init__(self, worker: bool = False) -> None:
        self.requested = False
        self._worker = worker
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._catch) for number in _CAUGHT}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self._worker:
            return
        if number == signal.SIGINT and self.requested:
            raise KeyboardInterrupt
        self.requested = True


def _killed(error: ProcessExitedException) -> str:
    how = f"was killed by {error.signal_name}" if error.signal_name else f"ended with exit code {error.exit_code}"
    return f"process {error.error_index} of the run {how}: the same command resumes from the last checkpoint"


def _raised(error: ProcessRaisedException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    own = [line for line in lines if re.match(r"halfwave\.[\w.]*Error: ", line)]
    reason = own[-1].split(": ", 1)[1] if own else lines[-1].strip()
    return reason if own else f"process {error.error_index} of the run failed: {reason}"


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def distribute(fabric: Fabric, operator: Operator, strategy: Strategy) -> nn.Module:
    """The module to call in training; with fsdp the operator's own parameters become sharded in place.

    Each block is sharded by itself, so that no process ever holds the whole parameters of more than one.
    """
    if strategy != "fsdp":
        return fabric.setup_module(operator)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    operator.to(fabric.device)
    mesh = init_device_mesh(fabric.device.type, (fabric.world_size,))
    for block in blocks_of(operator.model):
        fully_shard(block, mesh=mesh)
    fully_shard(operator, mesh=mesh)
    return operator


def whole(tensor: Tensor) -> Tensor:
    """A tensor with all of its shards. Every process must call this together."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def like(tensor: Tensor, whole_tensor: Tensor) -> Tensor:
    """`whole_tensor` laid out as `tensor` is, on the same device."""
    if is_sharded(tensor):
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(whole_tensor.to(tensor.device), tensor.device_mesh, tensor.placements)
    return whole_tensor.to(tensor.device)


def add_up(fabric: Fabric, value: Tensor) -> Tensor:
    """The sum of a tensor over all processes."""
    if fabric.world_size == 1:
        return value
    total = fabric.all_reduce(value.to(fabric.device), reduce_op="sum")
    assert isinstance(total, Tensor)
    return total
