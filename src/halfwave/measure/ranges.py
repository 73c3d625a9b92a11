"""Range monitor: what values pass through each layer and stage, and where the first inf or NaN was.

While it is off it does not exist: watching stands in front of the layers only between `__enter__` and `__exit__`.
Spectral convolutions are seen stage by stage (forward transform, contraction, inverse transform), other leaf layers
by their output (pointwise).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.numerics import FORMATS
from halfwave.precision import PolicyModule

Watch = Callable[[str, Tensor], None]
Wrap = Callable[[str, Callable[..., Tensor]], Callable[..., Tensor]]


@dataclass
class Range:
    """What has been seen of one stage of one layer.

    `underflowed` is the share of values below the smallest normal number of the format, zeros included: what the
    format cannot hold with full precision. `first_nonfinite` is the step of the first inf or NaN, if there was one.
    """

    layer: str
    stage: str
    format: str
    largest: float = 0.0
    underflowed: float = 0.0
    values: int = 0
    first_nonfinite: int | None = None

    def add(self, tensor: Tensor, step: int) -> None:
        values = tensor.detach()
        size = values.abs()
        finite = torch.isfinite(size)
        if self.first_nonfinite is None and not bool(finite.all()):
            self.first_nonfinite = step
        if values.numel():
            self.largest = max(self.largest, float(torch.where(finite, size, 0).max()))
            small = int((size < FORMATS[self.format].smallest_normal).sum())
            self.underflowed = (self.underflowed * self.values + small) / (self.values + values.numel())
            self.values += values.numel()


class RangeMonitor(AbstractContextManager["RangeMonitor"]):
    """Watches a model while active.

    >>> with RangeMonitor(model) as monitor:
    ...     model(x)
    >>> monitor.first_nonfinite, monitor.ranges
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.step = 0
        self.ranges: dict[tuple[str, str], Range] = {}
        self.first_nonfinite: Range | None = None
        self._undo: list[Callable[[], Any]] = []

    def __enter__(self) -> RangeMonitor:
        for name, module in self.model.named_modules():
            if is_spectral(module):
                self._undo.append(watch_stages(module, partial(self._see, name, module)))
            elif _computes(module) and module is not self.model and not _inside_spectral(self.model, name):
                handle = module.register_forward_hook(partial(self._output, name))
                self._undo.append(handle.remove)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._undo:
            self._undo.pop()()

    def rows(self) -> list[dict[str, Any]]:
        """One JSON-able row per layer and stage, in the order in which they ran."""
        return [asdict(r) for r in self.ranges.values()]

    def restore(self, rows: list[dict[str, Any]]) -> None:
        """Go on from the rows of a checkpoint."""
        self.ranges = {(row["layer"], row["stage"]): Range(**row) for row in rows}
        seen = [r for r in self.ranges.values() if r.first_nonfinite is not None]
        self.first_nonfinite = min(seen, key=lambda r: r.first_nonfinite or 0, default=None)

    def _output(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            self._see(name, module, "pointwise", output)

    def _see(self, name: str, module: nn.Module, stage: str, tensor: Tensor) -> None:
        if not tensor.is_floating_point():
            return
        known = self.ranges.get((name, stage))
        if known is None:
            known = self.ranges[name, stage] = Range(name, stage, _format_of(module, stage, tensor))
        known.add(tensor, self.step)
        if self.first_nonfinite is None and known.first_nonfinite is not None:
            self.first_nonfinite = known


def is_spectral(module: nn.Module) -> bool:
    """A spectral convolution: it has a transform, and a weight that contracts."""
    return hasattr(getattr(module, "transform", None), "inverse") and hasattr(
        getattr(module, "weight", None), "contract"
    )


def watch_stages(module: nn.Module, watch: Watch) -> Callable[[], None]:
    """Report the result of each stage of a spectral convolution to `watch(stage, result)`; returns what undoes it."""

    def watched(stage: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def call(*arguments: Any, **options: Any) -> Tensor:
            result = function(*arguments, **options)
            watch(stage, result)
            return result

        return call

    return wrap_stages(module, watched)


def wrap_stages(module: nn.Module, wrap: Wrap) -> Callable[[], None]:
    """Put `wrap(stage, function)` in place of each stage of a spectral convolution; returns what undoes it."""
    transform: Any = module.transform
    weight: Any = module.weight

    def undo() -> None:
        module.transform = transform
        del weight.contract

    module.transform = _Wrapped(transform, wrap)  # type: ignore[assignment]
    weight.contract = wrap("contraction", weight.contract)
    return undo


class _Wrapped:
    """A transform whose two directions are wrapped; everything else is the transform's own."""

    def __init__(self, transform: Any, wrap: Wrap) -> None:
        self._transform = transform
        self.forward = wrap("forward_transform", transform.forward)
        self.inverse = wrap("inverse_transform", transform.inverse)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transform, name)


def _computes(module: nn.Module) -> bool:
    """A leaf, or a module that computes under a policy itself; other containers only pass values on."""
    return isinstance(module, PolicyModule) or not any(True for _ in module.children())


def _inside_spectral(model: nn.Module, name: str) -> bool:
    parts = name.split(".")
    return any(is_spectral(model.get_submodule(".".join(parts[:i]))) for i in range(1, len(parts)))


def _format_of(module: nn.Module, stage: str, tensor: Tensor) -> str:
    if isinstance(module, PolicyModule):
        return getattr(module.resolved(tensor.device), stage).format.name
    return next((f.name for f in FORMATS.values() if f.dtype is tensor.dtype), str(tensor.dtype))
