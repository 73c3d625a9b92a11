"""Will it fit: the memory plan of a training, held against the memory that is there, before the training begins.

`train` here is `halfwave.train`: a training that asks first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from halfwave import training
from halfwave.data import Dataset
from halfwave.errors import InputError
from halfwave.measure import storage_bytes
from halfwave.numerics import free_memory_bytes
from halfwave.planner import MemoryPlan, format_bytes, plan_memory
from halfwave.precision import Policy
from halfwave.training import AnyDataset, RunResult, TrainConfig, meta_network, open_data, settle

_FLOAT = 4
_COPIES = 4
"""Of every parameter: itself, its gradient, and the two moments of AdamW."""
_MARGIN = 1.1
"""Of what is counted: blocks that were freed and that the C library keeps, in pieces."""
_SMALL = 32
"""Points a side of the grid on which one sample is planned first."""
_HOPELESS = 3
"""A training that needs so many times what is there is not planned to the byte."""


@dataclass(frozen=True)
class Words:
    """How a way out is written."""

    batch: str
    recompute: str
    force: str


OPTIONS = Words("--batch-size {}", "--recompute", "--force")
"""Of `halfwave train`."""
ARGUMENTS = Words("batch_size={}", "recompute=True", "force=True")
"""Of `halfwave.train`."""


def check_memory(config: TrainConfig, dataset: AnyDataset, words: Words = OPTIONS) -> None:
    """InputError, with the largest batch that fits, where a training needs more memory than there is.

    What is counted: the plan of a step under the greediest policy of the schedule, for every process on this machine,
    the samples that are held, and copies of the model. What is there: the least of the free memory, the control group's
    and the process's own limits; on a GPU its free memory. Of point clouds, whose activations follow from their points,
    and of modules of a program the parameters and what goes with them alone are counted; a mesh of processes is not
    (`halfwave plan --mesh`).
    """
    if config.mesh_shape is not None:
        return
    free = _free(config)
    try:
        model = meta_network(config, dataset)
        needs = _Parameters(config, model).excess(free)
        if needs is None and isinstance(dataset, Dataset) and config.module is None:
            needs = _Step(config, dataset, model, words).excess(free)
    except (RuntimeError, TypeError, ValueError):
        return  # the model cannot be built, or not be applied to the data: the trainer says why
    if needs is not None:
        size, way_out = needs
        raise InputError(
            f"training needs {size} and {format_bytes(free)} are there: {way_out}, or {words.force} to try"
        )


def train(
    config: TrainConfig | None = None,
    run_dir: str | Path | None = None,
    *,
    quiet: bool = False,
    force: bool = False,
    **settings: Any,
) -> RunResult:
    """Train to the end, or go on with the run that `run_dir` holds; a finished one returns its result at once.

    >>> halfwave.train(data=(x, y), model=halfwave.FNO(...), run_dir="runs/mine", epochs=20)
    >>> halfwave.train(data="flow.npz", model="fno", run_dir="runs/flow")

    The settings are those of a `TrainConfig`, or one of them. `data` are arrays, tensors, a `Dataset` of pairs or a
    path; `model` is a family (fno, tfno, sfno, gino, unet: its settings follow from the data), the name of a class with
    `arguments`, or a built module, which is trained in place (on one device). By default `run_dir` is
    runs/MODEL-PRECISION. A finished run goes on when more `epochs` are asked for.

    InputError, before anything is written, for a data file or model that cannot be used, a directory that cannot be
    written, a directory that holds a run with other settings or other data, and, unless `force`, a training whose plan
    needs more memory than there is, with the largest batch that fits (`halfwave.gate.check_memory` says what counts).
    """
    config = settle(config, settings)
    if not force:
        check_memory(config, open_data(config), ARGUMENTS)
    return training.train(config, run_dir, quiet=quiet)


@dataclass
class _Parameters:
    """What weights, gradients and optimizer state take, in all processes."""

    config: TrainConfig
    model: nn.Module

    def excess(self, free: int) -> tuple[str, str] | None:
        """What is needed and the way out, where that is more than `free`."""
        copies = _COPIES * (1 if self.config.strategy == "fsdp" else self.config.processes)
        size = copies * storage_bytes(self.model.parameters())
        if size <= free:
            return None
        return f"{format_bytes(size)} for its parameters alone", "fewer channels, modes or layers"


@dataclass(eq=False)
class _Step:
    """A training on fields: the samples that are held, and a step of every process on its share of a batch."""

    config: TrainConfig
    dataset: Dataset
    model: nn.Module
    words: Words = OPTIONS

    def excess(self, free: int) -> tuple[str, str] | None:
        """What is needed and the way out, where that is more than `free`.

        First from the plan of one sample on a small grid, which is quick and from which a bound and an estimate follow;
        then, where those leave it open, from that of the step itself.
        """
        if self._total(self.share * self._estimate(exact=False)) <= free:
            return None
        if self._total(self._fixed) > free:
            return f"more than {format_bytes(self._total(self._fixed))}", self._smaller
        estimate = self._total(self._fixed + self.share * (self._estimate(exact=True) - self._fixed))
        if estimate > _HOPELESS * free:
            return f"about {format_bytes(estimate)}", self._about(free)
        size = self._total(self._needed(self.share))
        return None if size <= free else (format_bytes(size), self._way_out(free))

    @property
    def share(self) -> int:
        """Samples of a batch that a process has."""
        return math.ceil(min(self.config.batch_size, self.dataset.n_train) / self.config.processes)

    @cached_property
    def _small(self) -> tuple[MemoryPlan, Policy, float]:
        """The plan of a sample on a small grid, under the greediest policy, and how many times the points there are."""
        grid = self.dataset.grid
        modes = self.config.arguments.get("n_modes", ())
        asked = modes if isinstance(modes, list) and len(modes) == len(grid) else [0] * len(grid)
        small = tuple(min(n, max(_SMALL, int(m))) for n, m in zip(grid, asked, strict=True))
        plans = [(self._plan(policy, 1, small), policy) for policy in _policies(self.config)]
        plan, policy = max(plans, key=lambda pair: pair[0].needed_bytes)
        return plan, policy, math.prod(grid) / math.prod(small)

    @property
    def _fixed(self) -> int:
        plan = self._small[0]
        return plan.parameters + plan.gradients + plan.optimizer_state

    def _estimate(self, exact: bool) -> int:
        """A step of one sample: all of the small plan times the points, or what does not grow with them apart."""
        plan, _, ratio = self._small
        fixed = self._fixed if exact else 0
        return fixed + int(ratio * (plan.needed_bytes - fixed))

    @cache  # noqa: B019  (lives as long as a question)
    def _needed(self, share: int) -> int:
        return self._plan(self._small[1], share, self.dataset.grid).needed_bytes

    def _plan(self, policy: Policy, share: int, grid: tuple[int, ...]) -> MemoryPlan:
        sample = (share, self.dataset.train.in_channels, *grid)
        options: dict[str, Any] = {"optimizer": self.config.optimizer, "recompute": self.config.recompute}
        return plan_memory(self.model, sample, policy=policy, device=_kind(self.config), **options)

    def _total(self, step: int) -> int:
        """Of all processes, beside a step: samples, a copy of the best model, that of a checkpoint being written."""
        plan, processes = self._small[0], self.config.processes
        written = 2 * (plan.parameters + plan.optimizer_state)
        each = int(_MARGIN * (max(step, written) + plan.parameters)) + self._held
        shared = (processes - 1) * self._fixed if self.config.strategy == "fsdp" else 0
        return processes * each - shared

    @property
    def _held(self) -> int:
        """Samples of a process, where they are read once and kept in main memory."""
        if not self.config.in_memory or _kind(self.config) != "cpu":
            return 0
        return sum(_sample_bytes(split) for split in (self.dataset.train, self.dataset.test) if split.lasting)

    def _way_out(self, free: int) -> str:
        """The largest batch that fits by its plan, looked for where a straight line through two plans meets `free`."""
        one = self._needed(1)
        if self._total(one) > free:
            return self._smaller
        slope = (self._needed(self.share) - one) / (self.share - 1)
        room = (free - self._total(one)) / self.config.processes / _MARGIN
        fits = max(1, min(self.share - 1, 1 + int(room / slope)))
        while self._total(self._needed(fits)) > free:
            fits -= 1
        while fits + 1 < self.share and self._total(self._needed(fits + 1)) <= free:
            fits += 1
        return f"{self.words.batch.format(fits * self.config.processes)} fits"

    def _about(self, free: int) -> str:
        """The same by the estimate, with some room left."""
        one, slope = self._total(self._estimate(exact=True)), self._estimate(exact=True) - self._fixed
        room = (0.9 * free - one) / self.config.processes / _MARGIN
        fits = (1 + int(room / slope)) * self.config.processes
        return self._smaller if room < 0 else f"{self.words.batch.format(fits)} may fit"

    @property
    def _smaller(self) -> str:
        recompute = "" if self.config.recompute else f"{self.words.recompute}, "
        return f"not even a batch of {self.config.processes} fits; {recompute}fewer channels or a smaller grid"


def _sample_bytes(split: Any) -> int:
    """Of windows of trajectories every state is held once."""
    if split.windows is not None:
        source = split.windows.source
        return _FLOAT * source.count * source.length * (source.channels + source.extra) * math.prod(split.grid)
    return _FLOAT * len(split) * (split.in_channels + split.out_channels) * math.prod(split.grid)


def _policies(config: TrainConfig) -> list[Policy]:
    return list(dict.fromkeys(policy for _, policy in config.build_schedule(_kind(config)).phases))


def _kind(config: TrainConfig) -> str:
    """The kind of device that the config's accelerator is."""
    wants_gpu = config.accelerator in ("auto", "gpu", "cuda")
    return "cuda" if wants_gpu and torch.cuda.is_available() else "cpu"


def _free(config: TrainConfig) -> int:
    """Of a GPU its own, of which every process has one; else what the machine has for all of them."""
    if _kind(config) == "cuda":
        return torch.cuda.mem_get_info()[0] * config.processes
    return free_memory_bytes()
