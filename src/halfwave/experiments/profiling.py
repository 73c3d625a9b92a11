"""Where the time and the memory of a training step go: by part, by module and by kernel, as the paper's appendix shows.

Time is torch's profiler's. Every module that computes, and every stage of a spectral convolution, is a named range in
the forward pass; a node of the backward pass carries the sequence number of the forward operator that made it, and so
belongs to that operator's module. Each event counts with its own time, without that of the events inside it, so that
shares add up to 1. Memory is counted at dispatch (`LiveBytes`), in a step of its own.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.profiler import ProfilerActivity, profile, record_function

from halfwave.data import generate, open_any, sample_shapes
from halfwave.errors import InputError
from halfwave.files import written_aside
from halfwave.models import build_model, set_precision
from halfwave.numerics import describe_cpu
from halfwave.precision import Policy, PolicyModule
from halfwave.recipes import Recipe
from halfwave.training import TrainConfig
from halfwave.training.clouds import Clouds, Inputs, Targets, tensors_of
from halfwave.training.engine import build_optimizer
from halfwave.training.losses import Loss, build_loss
from halfwave.training.measures import LiveBytes, training_step
from halfwave.training.problem import build_operator, problem_of
from halfwave.training.ranges import is_spectral, wrap_stages

PARTS = (
    "transforms",
    "contraction",
    "rest of spectral conv",
    "pointwise",
    "copies and casts",
    "loss",
    "update",
    "other",
)
PYTHON = "(Python and dispatch)"

_RANGE = "halfwave:"
_BACKWARD = "autograd::engine::evaluate_function"
_COPIES = frozenset(f"aten::{op}" for op in ("copy_", "_to_copy", "to", "clone", "contiguous", "cat", "fill_", "zero_"))
_STAGES = {"forward_transform": "transforms", "inverse_transform": "transforms", "contraction": "contraction"}
_POINTS = 2000  # of the memory curve in the result file


@dataclass(frozen=True)
class Work:
    """A training step that can be run: a model with its loss, optimizer and batch, and what it is, for the record."""

    model: nn.Module
    loss: Callable[..., Tensor]
    optimizer: Optimizer
    batch: tuple[Inputs, Targets]
    setting: dict[str, Any]


def build_work(
    recipe: Recipe,
    *,
    precision: str | Policy = "mixed",
    batch: int | None = None,
    grid: int | None = None,
    device: torch.device | str = "cpu",
) -> Work:
    """The training step of a recipe: on random fields, as its cost does not depend on what fields hold, or on bodies.

    `grid` is the resolution of the recipe's generator (points a side, or latitudes), on point clouds that of the latent
    grid; `batch` the samples. InputError for sizes that the model cannot take.
    """
    config = TrainConfig.of(recipe, recipe.generator, **({} if batch is None else {"batch_size": batch}))
    build = _on_fields if recipe.domain.has_grid else _on_clouds
    model, loss, example, sides = build(recipe, config, grid, torch.device(device))
    policy = precision if isinstance(precision, Policy) else Policy.named(precision, device=device)
    set_precision(model, policy)
    setting = {
        "recipe": recipe.name,
        "model": recipe.model,
        "policy": policy.to_dict(),
        "grid": list(sides),
        "batch": config.batch_size,
        "device": str(torch.device(device)),
        "machine": torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else describe_cpu(),
        "torch": torch.__version__,
    }
    return Work(model, loss, build_optimizer(model, config), example, setting)


_Step = tuple[nn.Module, Loss, tuple[Inputs, Targets], tuple[int, ...]]


def _on_fields(recipe: Recipe, config: TrainConfig, grid: int | None, device: torch.device) -> _Step:
    """Model, loss, a batch of random fields, and the grid."""
    x_shape, y_shape = sample_shapes(recipe.resized(grid).build_generator())
    sides = x_shape[1:]
    _check_modes(recipe, sides)
    model = build_model(config.model, config.model_arguments(x_shape[0], y_shape[0])).to(device)
    x, y = (torch.randn(config.batch_size, *shape, device=device) for shape in (x_shape, y_shape))
    return model, build_loss(config.loss, recipe.domain), (x, y), sides


def _on_clouds(recipe: Recipe, config: TrainConfig, grid: int | None, device: torch.device) -> _Step:
    """Operator, loss, a batch of real bodies (neighbourhoods decide the cost), and the latent grid."""
    if grid is not None:
        config = config.model_copy(update={"latent_resolution": grid})
    generator = recipe.build_generator()
    with TemporaryDirectory() as folder:
        path = generate(generator, Path(folder) / "bodies.h5", n_train=config.batch_size, n_test=1)
        dataset = open_any(path)
        problem = problem_of(dataset)
        problem.check(config)
        operator = build_operator(config, dataset).to(device)
        x, y = problem.samples(config, operator)[0][: config.batch_size]
    sides = tuple(x.latent_queries.shape[:3]) if isinstance(x, Clouds) else ()
    return operator, problem.loss(config), (x.to(device), y.to(device)), sides


def profile_work(work: Work, steps: int = 3, trace: str | Path | None = None) -> dict[str, Any]:
    """Profile `steps` training steps after two that are not counted; JSON-able. `trace` gets the Chrome trace.

    Seconds are per step. Keys: the setting's, `seconds`, `spectral_share`, `parts`, `modules`, `kernels` (largest
    first) and `memory`.
    """
    if steps < 1:
        raise InputError(f"steps must be at least 1, got {steps}")
    cuda = work.setting["device"].startswith("cuda")
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # its notes on starting and stopping are not for users
    with _ranges(work) as loss:
        for _ in range(2):
            training_step(work.model, loss, work.optimizer, work.batch)
        with profile(activities=activities) as profiler:
            for _ in range(steps):
                training_step(work.model, loss, work.optimizer, work.batch)
            if cuda:
                torch.cuda.synchronize()
    if trace is not None:
        with written_aside(trace) as aside:
            profiler.export_chrome_trace(str(aside))
    times = _Times(profiler.events() or [], work.model, cuda, steps)
    return {
        "kind": "profile",
        **work.setting,
        "steps": steps,
        "seconds": times.total,
        "spectral_share": times.spectral_share,
        "parts": times.parts(),
        "modules": times.modules(),
        "kernels": times.kernels(),
        "memory": measure_memory(work),
    }


def measure_memory(work: Work) -> dict[str, Any]:
    """Live bytes through one training step, in the order of allocations and frees.

    `live_bytes` is the curve, thinned to the largest value of each stretch; `phases` says where forward, backward and
    update begin on it; `held_bytes` are parameters, optimizer state and batch, which are there all the time.
    """
    with _Timeline() as live, ExitStack() as hooks:
        state = [t for values in work.optimizer.state.values() for t in values.values() if isinstance(t, Tensor)]
        batch = [tensor for side in work.batch for tensor in tensors_of(side)]
        held = [*work.model.parameters(), *work.model.buffers(), *state, *batch]
        live.hold(held)
        work.optimizer.zero_grad(set_to_none=True)
        forward = work.model.register_forward_pre_hook(lambda *_: live.begin("forward"))
        update = work.optimizer.register_step_pre_hook(lambda *_: live.begin("update"))
        hooks.callback(forward.remove)
        hooks.callback(update.remove)

        def loss(prediction: Tensor, target: Any) -> Tensor:
            value = work.loss(prediction, target)
            live.begin("backward")
            return value

        training_step(work.model, loss, work.optimizer, work.batch)
    curve = live.curve()
    stretch = -(-len(curve) // _POINTS)
    return {
        "peak_bytes": max(curve),
        "held_bytes": sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in held}.values()),
        "events": len(curve),
        "phases": [{"name": name, "start": start / len(curve)} for name, start in live.phases],
        "live_bytes": [max(curve[i : i + stretch]) for i in range(0, len(curve), stretch)],
    }


class _Timeline(LiveBytes):
    """Live bytes with the moments at which phases begin."""

    def __init__(self) -> None:
        super().__init__()
        self.phases: list[tuple[str, int]] = []

    def begin(self, phase: str) -> None:
        self.phases.append((phase, len(self._log)))

    def curve(self) -> list[int]:
        """The sum of live bytes after each allocation and free."""
        return list(accumulate((change for _, change in self._log), initial=sum(self._before.values())))


def _check_modes(recipe: Recipe, sides: tuple[int, ...]) -> None:
    modes = recipe.arguments.get("n_modes")
    if modes is not None and any(n > side for n, side in zip(modes, sides, strict=True)):
        grid = " x ".join(map(str, sides))
        raise InputError(f"a grid of {grid} is too small for n_modes {list(modes)}: expected as many points as modes")


@contextmanager
def _ranges(work: Work) -> Iterator[Callable[..., Tensor]]:
    """While active the modules and stages of the model are named ranges of the profiler; yields the loss as one."""
    with ExitStack() as undo:
        for name, module in work.model.named_modules():
            if isinstance(module, PolicyModule):
                _name_module(module, f"{_RANGE}module:{name}", undo)
            if is_spectral(module):
                undo.callback(wrap_stages(module, partial(_named, name)))

        def loss(prediction: Tensor, target: Any) -> Tensor:
            with record_function(f"{_RANGE}loss:"):
                return work.loss(prediction, target)

        yield loss


def _name_module(module: nn.Module, label: str, undo: ExitStack) -> None:
    entered: list[record_function] = []

    def enter(*_: Any) -> None:
        entered.append(record_function(label))
        entered[-1].__enter__()

    def leave(*_: Any) -> None:
        entered.pop().__exit__(None, None, None)

    undo.callback(module.register_forward_pre_hook(enter).remove)
    undo.callback(module.register_forward_hook(leave, always_call=True).remove)


def _named(module: str, stage: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def named(*arguments: Any, **options: Any) -> Tensor:
        with record_function(f"{_RANGE}{stage}:{module}"):
            return function(*arguments, **options)

    return named


@dataclass(frozen=True)
class _Place:
    """Where an event belongs: what kind of range (module, a stage, loss, update), of which module, in which pass."""

    kind: str
    module: str
    backward: bool


_NOWHERE = _Place("", "", False)


class _Times:
    """Own times of the profiler's events, each in its place."""

    def __init__(self, events: Iterable[Any], model: nn.Module, cuda: bool, steps: int) -> None:
        self.events = list(events)
        self.steps, self.cuda = steps, cuda
        self.spectral = {name for name, module in model.named_modules() if is_spectral(module)}
        self._makers, self._numbers = _makers(self.events)
        self._places: dict[int, _Place] = {}
        self.rows = [(e.name, self._place(e), self._own(e)) for e in self.events if not _on_device(e)]

    @property
    def total(self) -> float:
        return sum(seconds for _, _, seconds in self.rows)

    @property
    def spectral_share(self) -> float:
        """What the spectral convolutions take, their copies included."""
        inside = sum(seconds for _, place, seconds in self.rows if place.module in self.spectral)
        return inside / self.total if self.total > 0 else 0.0

    def parts(self) -> list[dict[str, Any]]:
        sums: dict[str, float] = dict.fromkeys(PARTS, 0.0)
        for name, place, seconds in self.rows:
            sums[self._part(name, place)] += seconds
        return [self._row(part, sums[part]) for part in PARTS]

    def modules(self) -> list[dict[str, Any]]:
        """Forward and backward seconds of each module, without those of the modules inside it."""
        passes: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for _, place, seconds in self.rows:
            label = place.module or ("(model)" if place.kind == "module" else f"({place.kind or 'rest'})")
            passes[label][place.backward] += seconds
        rows = [
            {**self._row(name, sum(both)), "forward": both[0], "backward": both[1]} for name, both in passes.items()
        ]
        return sorted(rows, key=lambda row: -row["seconds"])

    def kernels(self) -> list[dict[str, Any]]:
        """Seconds and calls of each kernel (on a CPU: operator) per step."""
        sums: Counter[str] = Counter()
        calls: Counter[str] = Counter()
        if self.cuda:
            found = [(k.name, k.duration * 1e-6 / self.steps) for e in self.events for k in e.kernels]
        else:
            found = [(name if "::" in name and not _is_frame(name) else PYTHON, t) for name, _, t in self.rows]
        for name, seconds in found:
            sums[name] += seconds
            calls[name] += 1
        return [
            {**self._row(name, seconds), "calls": None if name == PYTHON else calls[name] / self.steps}
            for name, seconds in sums.most_common()
        ]

    def _row(self, name: str, seconds: float) -> dict[str, Any]:
        return {"name": name, "seconds": seconds, "share": seconds / self.total if self.total > 0 else 0.0}

    def _own(self, event: Any) -> float:
        micro = event.self_device_time_total if self.cuda else event.self_cpu_time_total
        return micro * 1e-6 / self.steps

    def _place(self, event: Any) -> _Place:
        known = self._places.get(id(event))
        if known is None:
            known = self._places[id(event)] = self._find_place(event)
        return known

    def _find_place(self, event: Any) -> _Place:
        if event.name.startswith(_RANGE):
            kind, _, module = event.name.removeprefix(_RANGE).partition(":")
            # A block that is computed again in the backward pass is the backward pass's time.
            outer = event.cpu_parent
            return _Place(kind, module, outer is not None and self._place(outer).backward)
        if event.name.startswith("Optimizer."):
            return _Place("update", "", False)
        if event.name.startswith(_BACKWARD):
            if "AccumulateGrad" in event.name and event.cpu_parent is None:
                return _Place("gradients", "", True)
            maker = self._maker(event.fwd_thread or event.thread, event.sequence_nr)
            if maker is not None:
                place = self._place(maker)
                return _Place(place.kind, place.module, True)
        parent = event.cpu_parent
        if parent is None:
            return _Place("", "", event.name.startswith(_BACKWARD))
        return self._place(parent)

    def _maker(self, thread: int, number: int) -> Any:
        """The operator that made a node; one that makes several (views of its inputs first) has the number before."""
        numbers = self._numbers.get(thread, [])
        position = bisect_right(numbers, number)
        return self._makers[thread][numbers[position - 1]] if number >= 0 and position else None

    def _part(self, name: str, place: _Place) -> str:
        if place.kind in ("loss", "update"):
            return place.kind
        if name in _COPIES:
            return "copies and casts"
        if place.kind in _STAGES:
            return _STAGES[place.kind]
        if place.module in self.spectral:
            return "rest of spectral conv"
        return "pointwise" if place.module else "other"


def _makers(events: list[Any]) -> tuple[dict[int, dict[int, Any]], dict[int, list[int]]]:
    """By thread: the operator that made each node, by the node's number, and the numbers in order.

    Operators are recorded with the number of the next node. Of several with one number the last made the node, as it
    went up after it. Numbers only grow; a smaller one is that of a node that is being evaluated.
    """
    makers: dict[int, dict[int, Any]] = defaultdict(dict)
    numbers: dict[int, list[int]] = defaultdict(list)
    for event in sorted(events, key=lambda e: e.time_range.start):
        number, known = event.sequence_nr, numbers[event.thread]
        if number < 0 or (known and number < known[-1]) or _evaluates(event, number):
            continue
        if not known or number > known[-1]:
            known.append(number)
        makers[event.thread][number] = event
    return makers, numbers


def _evaluates(event: Any, number: int) -> bool:
    """Does the event belong to the evaluation of the node with this number?"""
    while event is not None:
        if event.name.startswith(_BACKWARD) and event.sequence_nr == number:
            return True
        event = event.cpu_parent
    return False


def _is_frame(name: str) -> bool:
    """The engine's own frames around a node: their own time is dispatch."""
    return name.startswith("autograd::")


def _on_device(event: Any) -> bool:
    return event.device_type != torch.autograd.DeviceType.CPU
