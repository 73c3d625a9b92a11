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

Watch = Callable[[str, Tensor], None]


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
    transform: Any = module.transform
    weight: Any = module.weight
    contract = weight.contract

    def contracted(*arguments: Any, **options: Any) -> Tensor:
        result = contract(*arguments, **options)
        watch("contraction", result)
        return result

    def undo() -> None:
        module.transform = transform
        del weight.contract

    module.transform = _Watched(transform, watch)  # type: ignore[assignment]
    weight.contract = contracted
    return undo


class _Watched:
    """A transform that reports what it returns; everything else is the transform's own."""

    def __init__(self, transform: Any, watch: Watch) -> None:
        self._transform, self._watch = transform, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transform, name)

    def forward(self, *arguments: Any, **options: Any) -> Tensor:
        result = self._transform.forward(*arguments, **options)
        self._watch("forward_transform", result)
        return result

    def inverse(self, *arguments: Any, **options: Any) -> Tensor:
        result = self._transform.inverse(*arguments, **options)
        self._watch("inverse_transform", result)
        return result


def _computes(module: nn.Module) -> bool:
    """A leaf, or a module that computes under a policy itself; other containers only pass values on."""
    return hasattr(module, "policy") or not any(True for _ in module.children())


def _inside_spectral(model: nn.Module, name: str) -> bool:
    parts = name.split(".")
    return any(is_spectral(model.get_submodule(".".join(parts[:i]))) for i in range(1, len(parts)))


def _format_of(module: nn.Module, stage: str, tensor: Tensor) -> str:
    policy = getattr(module, "policy", None)
    if policy is not None:
        return policy.format(stage).name
    return next((f.name for f in FORMATS.values() if f.dtype is tensor.dtype), str(tensor.dtype))
