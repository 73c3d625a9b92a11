"""plan_precision: for each layer and stage the cheapest format that the data, or a tolerance, allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.certificates.data_error import estimate_data_error
from halfwave.certificates.norms import largest_rms
from halfwave.certificates.observing import core_of, fno_blocks, observe, refuse_points, run_as
from halfwave.certificates.precision_plan import Choice, PrecisionPlan, Refusal
from halfwave.certificates.stages import Stage, layers_of, stages_of
from halfwave.data import Dataset, Split, open_dataset
from halfwave.errors import InputError
from halfwave.models import NeuralOperator, trial_run
from halfwave.numerics import FORMATS, Format, get_format, multiplies_natively
from halfwave.precision import ROLES, Policy
from halfwave.spectral import FourierTransform

CANDIDATES = ("fp16", "bf16", "fp32")
"""Formats that tensors are really stored in here; fp8 and tf32 exist as rounding and save nothing yet."""


def plan_precision(
    model: nn.Module,
    data: Tensor | str | Path | Dataset | Split,
    tolerance: float | None = None,
    *,
    formats: Sequence[str] = CANDIDATES,
    samples: int = 4,
) -> PrecisionPlan:
    """Choose a format for each layer and stage: the cheapest whose error stays below what is tolerated anyway.

    A format must hold the values of the stage with room to spare (overflow, underflow), and its error must be below the
    tolerance: by the bound where that is small enough to decide, else as measured on the samples with all else in
    float64. Then the whole policy is measured together; while the answer's error is above the tolerance, and lowered
    stages have a part in it, every choice is held to half as much as before. Cheap is first what takes fewer bytes,
    then what the device multiplies natively, then what is more accurate. No weights are changed; a trained model gives
    the figures that matter.

    Args:
        model: an `FNO`, `TFNO`, `SFNO` or `UNet`, or a wrapper around one. It is copied, not changed.
        data: inputs (N, C, *grid), or a dataset, or its file (then the train split's inputs).
        tolerance: relative error allowed; by default the discretization error of the data (`estimate_data_error`).
            An SFNO needs it, as that estimate is not made on the sphere.
        formats: candidates, fp32 always included. fp8 formats are planned by the bytes that hardware would store.
        samples: how many of the inputs are looked at.
    """
    candidates = _ordered(formats, next((p.device for p in model.parameters()), torch.device("cpu")))
    if tolerance is not None and not (0 < tolerance < math.inf):
        raise InputError(f"tolerance must be a positive number, got {tolerance}")
    core, x = _prepare(model, _read(data, samples))
    tolerance, source = _tolerance(core, x, tolerance)
    stabilizer = core.policy.stabilizer if isinstance(core, NeuralOperator) else "auto"
    # The model's own stabilizer is part of its function; one that a format brings with it is part of the error.
    exact = run_as(core, Policy.uniform("fp64", stabilizer))
    stages = [_Weighed(stage, candidates) for stage in stages_of(exact, x.double(), stabilizer)]
    reference = observe(exact, x, []).output
    share = 1.0
    while True:
        choices = tuple(stage.choose(tolerance * share) for stage in stages)
        policy = _policy(choices, candidates, stabilizer)
        error = _together(core, x, policy, reference)
        # A lowered stage without an error (weights of zero) costs nothing: no limit would change it.
        costs = [choice.error for choice in choices if choice.format != "fp32" and choice.error > 0]
        if error <= tolerance or not costs:
            return PrecisionPlan(policy, choices, tolerance, source, share, error, tuple(x.shape[2:]), len(x))
        share /= 2
        while tolerance * share >= max(costs):  # the same choices, and the same answer
            share /= 2


class _Weighed:
    """A stage and what is known of it in each format, worked out once."""

    def __init__(self, stage: Stage, candidates: tuple[Format, ...]) -> None:
        self.stage, self.candidates = stage, candidates
        self.bounded, self.measured = cache(stage.bounded), cache(stage.measured)
        self.out_of_range, self.largest = cache(stage.out_of_range), stage.largest

    def choose(self, limit: float) -> Choice:
        """The first candidate within the limit; fp32 where none is."""
        refused: list[Refusal] = []
        for format in self.candidates:
            last = format.name == "fp32"
            bad = self.out_of_range(format)
            if bad is not None and not last:
                refused.append(Refusal(format.name, None, bad))
                continue
            bound = self.bounded(format)
            useful = bound is not None and bound <= limit
            error = bound if useful and bound is not None else self.measured(format)
            if error <= limit or last:
                kind = "bound" if useful else "measured"
                name, role = self.stage.layer, self.stage.role
                return Choice(name, role, format.name, error, kind, limit, self.largest, tuple(refused))  # type: ignore[arg-type]
            refused.append(Refusal(format.name, error, f"measured error {error:.1e}"))
        raise AssertionError("fp32 is always a candidate")


def _ordered(formats: Sequence[str], device: torch.device) -> tuple[Format, ...]:
    """Cheapest first, up to fp32; a string would be a sequence of letters."""
    if isinstance(formats, str) or not formats:
        raise InputError(f"formats must be a list of format names, got {formats!r}")
    chosen = {get_format(name) for name in formats} | {FORMATS["fp32"]}
    if FORMATS["fp64"] in chosen:
        raise InputError("formats has fp64: weights are fp32, expected formats that are not wider")

    def cost(format: Format) -> tuple[int, bool, int]:
        width = 4 if format.dtype is None else format.dtype.itemsize
        return width, not multiplies_natively(format, device.type), -format.precision

    ordered = sorted(chosen, key=cost)
    return tuple(ordered[: ordered.index(FORMATS["fp32"]) + 1])


def _read(data: Tensor | str | Path | Dataset | Split, samples: int) -> Tensor:
    if samples < 1:
        raise InputError(f"samples must be at least 1, got {samples}")
    if isinstance(data, Tensor):
        x = data[:samples]
    else:
        opened = open_dataset(data) if isinstance(data, str | Path) else data
        split = opened.train if isinstance(opened, Dataset) else opened
        x = split[:samples][0]
    if x.ndim < 3 or not x.numel() or not x.is_floating_point():
        raise InputError(f"data has shape {tuple(x.shape)}, {x.dtype}: expected fields (samples, channels, *grid)")
    if not bool(x.isfinite().all()):
        raise InputError("data hold inf or nan: there is nothing to plan for")
    return x.detach().float()


def _prepare(model: nn.Module, x: Tensor) -> tuple[nn.Module, Tensor]:
    """The operator inside `model` and what it gets from `x`."""
    operators = [module for module in model.modules() if isinstance(module, NeuralOperator)]
    inner = operators[0] if operators else model
    refuse_points(inner, "plan_precision")
    if not layers_of(inner) or "" in layers_of(inner):
        raise InputError(f"{type(inner).__name__} has no layers to plan: expected an FNO, TFNO, SFNO or UNet")
    channels = getattr(inner, "in_channels", x.shape[1])
    if channels != x.shape[1]:
        raise InputError(f"data have {x.shape[1]} channels and the model takes {channels}")
    x = x.to(next(model.parameters()).device)
    try:
        core, inputs = core_of(model, x)
        with torch.no_grad(), trial_run(core):
            core(inputs[:1])
    except (RuntimeError, ValueError) as error:
        raise InputError(f"the model cannot be applied to the data: {str(error).splitlines()[0]}") from error
    return core, inputs


def _tolerance(core: nn.Module, x: Tensor, tolerance: float | None) -> tuple[float, str]:
    if tolerance is not None:
        return float(tolerance), "given"
    transforms = [block.conv.transform for block in fno_blocks(core).values()]
    if not all(isinstance(transform, FourierTransform) for transform in transforms):
        raise InputError("the discretization error of data on the sphere is not estimated: give a tolerance")
    found = estimate_data_error(x, transforms[0].n_modes if transforms else None)
    return float(found), f"discretization error of the data, an estimate ({found.method})"


def _policy(choices: tuple[Choice, ...], candidates: tuple[Format, ...], stabilizer: str) -> Policy:
    """The safest format of each role over the layers, and the layers that differ from it."""
    roles: dict[str, Any] = {
        role: _covering([FORMATS[c.format] for c in choices if c.stage == role], candidates).name for role in ROLES
    }
    common = Policy(**roles, stabilizer=stabilizer, name="planned")
    own = {}
    for layer in dict.fromkeys(choice.layer for choice in choices):
        formats = {choice.stage: choice.format for choice in choices if choice.layer == layer}
        policy = common.with_(**formats, name="planned")
        if policy != common:
            own[layer] = policy
    return Policy(**roles, stabilizer=stabilizer, name="planned", layers=tuple(own.items()))


def _covering(chosen: list[Format], candidates: tuple[Format, ...]) -> Format:
    """The cheapest candidate as precise and as wide in range as all of these; fp32 where there is none."""

    def covers(format: Format, other: Format) -> bool:
        return (
            format.precision >= other.precision
            and format.largest >= other.largest
            and format.smallest_normal <= other.smallest_normal
        )

    if not chosen:
        return FORMATS["fp32"]
    return next(format for format in candidates if all(covers(format, other) for other in chosen))


def _together(core: nn.Module, x: Tensor, policy: Policy, reference: Tensor) -> float:
    """The relative error of the answer under the whole policy."""
    answer = observe(run_as(core, policy), x, []).output
    error, size = largest_rms(answer.double() - reference), largest_rms(reference)
    if not math.isfinite(error):
        return math.inf
    return error / size if size > 0 else (0.0 if error == 0 else math.inf)
