"""The least time that a step's work can take on this machine: a lower bound, not an estimate.

    t >= max( sum over formats of FLOP / best rate + sum over activations of elements / best rate,  bytes / bandwidth )

*Work* is counted on the plain way of the same model (`numerics.plainly`), where nothing is recomputed: multiplications
and additions of products, convolutions and FFTs, and the elements of GELU and its derivative. *Bytes* are those that
must pass the memory: what is kept from the forward pass for the backward pass is written and read, AdamW reads four and
writes three numbers a parameter. *Rates* are the best of several shapes and repetitions, each at its quickest: no
operation of a step can be faster than the fastest of its kind. That of the memory is of a copy no larger than what is
moved, so that whatever stays in a cache may.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from halfwave.measure.clocks import best_seconds
from halfwave.numerics import FORMATS, multiplies_natively, plainly

# Rows, inner and columns of products: the large ones that a library is tuned for, and the tall ones of transforms.
_SHAPES = ((256, 256, 256), (2048, 512, 512), (4096, 512, 512), (65536, 128, 64), (8192, 64, 64), (512, 2048, 512))
_SIZES = (1 << 16, 1 << 20, 1 << 24, 1 << 27)
_GELU = {"aten::gelu": "gelu", "aten::gelu_backward": "gelu_backward"}


@dataclass(frozen=True)
class MachineRates:
    """What this machine reaches at most: products in each format (FLOP/s), GELU (elements/s), and memory.

    `memory` has bytes/s of tensors of several sizes in bytes, smallest first.
    """

    fp32: float
    bf16: float
    gelu: float
    gelu_backward: float
    memory: tuple[tuple[int, float], ...]

    def memory_rate(self, nbytes: int) -> float:
        """Of the largest tensors that are no larger than this."""
        return max([rate for size, rate in self.memory if size <= nbytes][-1:] or [self.memory[0][1]])


def measure_rates() -> MachineRates:
    """The best of several shapes and repetitions of each."""
    x = torch.randn(1 << 15)
    native = multiplies_natively(FORMATS["bf16"], "cpu")  # elsewhere one small product tells that it is slow
    return MachineRates(
        fp32=max(_product_rate(shape, torch.float32) for shape in _SHAPES),
        bf16=max(_product_rate(shape, torch.bfloat16) for shape in (_SHAPES if native else _SHAPES[:1])),
        gelu=x.numel() / best_seconds(lambda: torch.nn.functional.gelu(x), 20, at_least=0.05),
        gelu_backward=x.numel() / best_seconds(lambda: torch.ops.aten.gelu_backward(x, x), 20, at_least=0.05),
        memory=tuple((size, _memory_rate(size)) for size in _SIZES),
    )


def _memory_rate(size: int) -> float:
    source, target = torch.zeros(size // 4), torch.zeros(size // 4)
    copied = 2.0 * size / best_seconds(lambda: target.copy_(source), at_least=0.02)
    return max(copied, size / best_seconds(source.sum, at_least=0.02))


def _product_rate(shape: tuple[int, int, int], dtype: torch.dtype) -> float:
    rows, inner, columns = shape
    a, b = torch.randn(rows, inner, dtype=dtype), torch.randn(inner, columns, dtype=dtype)
    out = torch.empty(rows, columns, dtype=dtype)
    return 2.0 * rows * inner * columns / best_seconds(lambda: torch.mm(a, b, out=out), 3, at_least=0.05)


@dataclass
class Work:
    """What a step has to do."""

    flops: float = 0.0
    elements: dict[str, float] = field(default_factory=dict)
    kept_bytes: int = 0
    parameter_bytes: int = 0

    def least_seconds(self, rates: MachineRates, half: bool) -> float:
        """On a machine of these rates; with `half`, products may run in whatever is faster."""
        products = self.flops / (max(rates.fp32, rates.bf16) if half else rates.fp32)
        activations = sum(count / getattr(rates, name) for name, count in self.elements.items())
        moved = 7 * self.parameter_bytes + 2 * self.kept_bytes
        return max(products + activations, moved / rates.memory_rate(self.parameter_bytes + self.kept_bytes))


def count_work(step: Callable[[], object], model: nn.Module, *, trains: bool = True) -> Work:
    """The work of one call of `step`, which applies `model`; with `trains`, it updates the weights as well."""
    kept = _Kept({p.untyped_storage()._cdata for p in model.parameters()})
    with saved_tensors_hooks(kept.note, lambda tensor: tensor):
        step()
    with plainly(), _Counter() as counter:
        step()
    parameters = sum(p.nbytes for p in model.parameters()) if trains else 0
    return Work(counter.flops, counter.elements, kept.nbytes, parameters)


class _Kept:
    """Bytes of the storages that the forward pass keeps, parameters apart, each storage once."""

    def __init__(self, known: set[int]) -> None:
        self._known, self._held, self.nbytes = known, [], 0  # type: ignore[var-annotated]

    def note(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._known:
            self._known.add(storage._cdata)
            self._held.append(tensor)  # so that its address is not given to another
            self.nbytes += storage.nbytes()
        return tensor


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.flops, self.elements = 0.0, dict.fromkeys(_GELU.values(), 0.0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.flops += product_flops(func, args, kwargs or {}, result)
        if func._schema.name in _GELU:
            self.elements[_GELU[func._schema.name]] += result.numel()
        return result


def product_flops(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    """Multiplications and additions of a product, convolution or FFT (2.5 n log2 n of a real one); 0 for the others."""
    counted = flop_registry.get(func._overloadpacket)
    if counted is not None:
        return int(counted(*args, **kwargs, out_val=result))
    if "_fft_" in func._schema.name:
        real = max((t for t in tree_leaves((args, result)) if isinstance(t, Tensor)), key=lambda t: t.numel())
        points = math.prod(real.shape[axis] for axis in args[1])
        return int(2.5 * real.numel() * math.log2(max(2, points)))
    return 0
