"""The adjoint certificate: the error of a model's answer in any format, from one run in float64.

Every rounding of a value z adds a small error δ. To first order the answer f changes by Σ J_z δ_z, and for random signs
s on the relative answer, g_z = J_z^T s / ||f|| is one backward pass. With E(s s^T) = 1 and roundings of mean 0,

    E ||Δf||² / ||f||²  =  E_s [ Σ_known (g·δ)²  +  Σ_z g_z² ulp(z)²/12 ]

where δ of weights, transform matrices and inputs is known exactly and that of everything computed is not. The sums are
kept by binade of z (see `taps`), so any policy is answered from them without running it.

It is an estimate, not a bound. It assumes that roundings are independent of each other with mean 0 (Higham and Mary
2019, doi:10.1137/18M1226312; true of stochastic rounding, Connolly, Higham and Mary 2021, doi:10.1137/20M1334796),
that sums inside products are in fp32 and do not count, and that errors are small enough for the first order
(`remainder` estimates what follows). `upper` gives a level of confidence under these assumptions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.certificates.roundings import Holder, Rounding, roundings, variances
from halfwave.certificates.samples import Sample, Samples, call, each_sample
from halfwave.certificates.taps import KNOWN_FORMATS, Constants, RoundingPoint, Tape, TappedArithmetic, recording
from halfwave.errors import InputError
from halfwave.models import names_in_operator, set_precision, trial_run
from halfwave.numerics import FORMATS, Arithmetic, Format, plainly
from halfwave.precision import ROLES, Policy, PolicyModule, Resolved, as_policy
from halfwave.spectral import SpectralConv

PROBES = 2
_LEAST_PASSES = 3  # over all samples: with two, one case in thirty was off by more than a factor of 2
_PRIOR = 2.0  # samples' worth of the belief that known errors are as good as independent
_STEP = 1e-4  # of a weight's rms, for the second derivative


@dataclass(frozen=True)
class Sensitivities:
    """What the roundings of a model can do to its answer on N samples.

    Attributes:
        points: where the model can round.
        holders: its layers by name.
        squares: (points, N, binades), mean over probes of Σ g² by binade of the value.
        largest, sizes: (points, N), the largest modulus, and how many numbers.
        aligned: (points, N, probes, ways), Σ g δ of known values in each known format, native and wide; 0 elsewhere.
        spread: (points, N, ways), mean over probes of Σ g² δ² of known values.
        curvature: of the answer: a first-order change of relative size p has one of about curvature p² with it.
    """

    points: tuple[RoundingPoint, ...]
    holders: Mapping[str, Holder]
    squares: Tensor
    largest: Tensor
    sizes: Tensor
    aligned: Tensor
    spread: Tensor
    curvature: float
    _tables: dict[Format, Tensor] = field(default_factory=dict, compare=False, repr=False)

    def predict(self, policy: str | Policy) -> Tensor:
        """The expected relative L2 error of each answer (N,) under a policy; inf where a value overflows."""
        return self._squares(policy).sum(0).sqrt()

    def shares(self, policy: str | Policy) -> dict[tuple[str, str], Tensor]:
        """The error (N,) that each layer and stage makes by itself; their squares add up to that of `predict`."""
        found: dict[tuple[str, str], Tensor] = {}
        for point, square in zip(self.points, self._squares(policy), strict=True):
            key = (point.module, point.role)
            found[key] = found[key] + square if key in found else square
        return {key: total.sqrt() for key, total in found.items()}

    def upper(self, policy: str | Policy, confidence: float = 0.99) -> Tensor:
        """What an error (N,) stays below with this probability over the roundings, the second order included.

        Uniform errors are sub-Gaussian of their own variance, so with t = -log(1 - confidence)
        P( ||e||² > E||e||² (1 + 2 sqrt(t) + 2 t) ) <= 1 - confidence (Hsu, Kakade and Zhang 2012,
        doi:10.1214/ECP.v17-2079, with all of the covariance in one direction, the worst case). Few probes may put one
        sample's estimate too low: that of all samples together takes its place where it is larger.
        """
        if not 0 < confidence < 1:
            raise InputError(f"confidence must lie between 0 and 1, got {confidence!r}")
        t = -math.log1p(-confidence)
        predicted = self.predict(policy)
        expected = torch.maximum(predicted, predicted.square().mean().sqrt())
        first = expected * math.sqrt(1 + 2 * math.sqrt(t) + 2 * t)
        return first + self.remainder(first)

    def remainder(self, error: Tensor) -> Tensor:
        """The second-order part (N,) that comes with a first-order error, curvature error²: an estimate."""
        return self.curvature * error.square()

    def _squares(self, policy: str | Policy) -> Tensor:
        """(points, N): the expected square of the error that each rounding makes of the answer."""
        groups = self._groups(as_policy(policy))
        alignment = self._alignment(groups)
        squares = torch.zeros_like(self.largest)
        for group in groups:
            if group.way is None:
                expected = self._computed(group.format)[group.numbers]
            else:
                expected = alignment * self.spread[group.numbers, :, group.way]
            squares[group.numbers] = expected.masked_fill(self.largest[group.numbers] > group.format.largest, math.inf)
        return squares

    def _groups(self, policy: Policy) -> list[_Group]:
        """The points that are rounded, by what rounds them."""
        found: dict[tuple[Format, int | None], list[int]] = {}
        for number, rounding in enumerate(roundings(self.points, self.holders, policy)):
            if rounding is not None:
                way = _way(rounding) if self.points[number].known else None
                found.setdefault((rounding.format, way), []).append(number)
        return [_Group(format, way, torch.tensor(numbers)) for (format, way), numbers in found.items()]

    def _alignment(self, groups: Sequence[_Group]) -> float:
        """E (Σ g·δ)² over Σ g²δ², all known errors together: pooled over samples and probes, as each has its own signs.

        Errors of weights are what they are, and the same at every grid point: they may add up or cancel.
        """
        known = [group for group in groups if group.way is not None]
        if not known:
            return 1.0
        sums = torch.stack([self.aligned[group.numbers, :, :, group.way].sum(0) for group in known]).sum(0)
        spread = torch.stack([self.spread[group.numbers, :, group.way].sum(0) for group in known]).sum(0)
        ratio = (sums.square().mean(1) / spread).nan_to_num(nan=1.0).mean()
        return float((sums.numel() * ratio + _PRIOR) / (sums.numel() + _PRIOR))

    def _computed(self, format: Format) -> Tensor:
        """(points, N): the squares of all points in a format, for values that are not known beforehand."""
        if format not in self._tables:
            self._tables[format] = self.squares @ variances(format)
        return self._tables[format]


@dataclass(frozen=True)
class _Group:
    """Points that are rounded to one format; `way` is where sums of known errors stand, None for computed values."""

    format: Format
    way: int | None
    numbers: Tensor


def _way(rounding: Rounding) -> int | None:
    same = [i for i, name in enumerate(KNOWN_FORMATS) if FORMATS[name].precision == rounding.format.precision]
    return same[0] + rounding.wide * len(KNOWN_FORMATS) if same else None


def predict_error(model: nn.Module, x: Samples, policy: str | Policy, probes: int | None = None) -> Tensor:
    """The predicted relative L2 error (N,) of the model's answers on `x` under a policy, see `Sensitivities`."""
    return sensitivities(model, x, probes=probes, policy=policy).predict(policy)


def sensitivities(
    model: nn.Module,
    x: Samples,
    *,
    probes: int | None = None,
    generator: torch.Generator | None = None,
    policy: str | Policy | None = None,
) -> Sensitivities:
    """Run a copy of the model in float64 on each sample and differentiate its relative answer along random signs.

    Args:
        model: a neural operator, or a wrapper around one: the answer is what the wrapper makes of it. Not changed.
        x: a batch of inputs, or samples one by one.
        probes: backward passes for each sample; None for 2, or 3 for a single sample. The spread of one sample's
            estimate falls as their square root.
        generator: of the signs; None for one of seed 0.
        policy: whose stabilizers act, in a model that has not computed yet; None for the model's own.
    """
    if probes is not None and probes < 1:
        raise InputError(f"probes must be a positive integer, got {probes!r}")
    signs = torch.Generator().manual_seed(0) if generator is None else generator
    tapped = _tapped_copy(model, policy)
    samples = list(each_sample(x))
    if not samples:
        raise InputError("there is no sample: a certificate needs at least one")
    with torch.compiler.set_stance("force_eager"):  # a compiled graph has no taps
        count = max(PROBES, math.ceil(_LEAST_PASSES / len(samples))) if probes is None else probes
        tapes = [_record(tapped, sample, count, signs) for sample in samples]
        return _collect(tapped, tapes, _curvature(tapped.model, samples[0], tapes[0].answer))


@dataclass(frozen=True)
class _Tapped:
    """The model in float64, with taps in every layer, and its layers as they round."""

    model: nn.Module
    holders: dict[str, Holder]
    constants: Constants = field(default_factory=dict)


def _tapped_copy(model: nn.Module, policy: str | Policy | None) -> _Tapped:
    copy = deepcopy(model).eval()
    names = names_in_operator(copy)
    if policy is not None:
        set_precision(copy, policy)
    layers = {name: m for name, m in copy.named_modules() if isinstance(m, PolicyModule)}
    if not layers:
        raise InputError(f"{type(model).__name__} has no layer that honours a precision policy")
    masters = {name: (m.masters.dtype, m.masters.device) for name, m in layers.items()}
    stabilizers = {m: m.stabilizer for m in layers.values() if isinstance(m, SpectralConv)}
    set_precision(copy, "double")
    copy.double().requires_grad_(False)
    for conv, stabilizer in stabilizers.items():
        conv.settle_on(stabilizer)
    holders = {}
    for name, module in layers.items():
        fft = None
        if isinstance(module, SpectralConv):
            fft = _Backends(module.transform)
            module.register_forward_pre_hook(fft.see)
            module.transform = _by_products(module.transform)
        holders[name] = Holder(names[module], *masters[name], fft)
        vars(module)["resolved"] = partial(_tapped_roles, name)
    return _Tapped(copy, holders)


def _tapped_roles(name: str, device: torch.device) -> Resolved:
    double = FORMATS["fp64"]
    roles = {role: TappedArithmetic(double, torch.float64, module=name, role=role) for role in ROLES}
    return Resolved(**roles, masters=torch.float64)


def _by_products(transform: Any) -> Any:
    """The transform by matrices, which has a tap wherever some arithmetic rounds, unless all run an FFT."""
    return replace(transform, backend="gemm") if transform.backend == "auto" else transform


class _Backends:
    """Whether a convolution's transform is an FFT, in an arithmetic on the grid that it got."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform
        self.grid: tuple[int, ...] = ()
        self.device = torch.device("cpu")

    def see(self, _: nn.Module, args: tuple[Any, ...]) -> None:
        self.grid, self.device = tuple(args[0].shape[2:]), args[0].device

    def __call__(self, arith: Arithmetic) -> bool:
        backend: str = self.transform.plan(self.grid, arith, self.device).backend
        return backend == "fft"


def _record(tapped: _Tapped, sample: Sample, probes: int, signs: torch.Generator) -> Tape:
    """One sample: its answer, and as many backward passes as there are probes."""
    with recording(tapped.constants, probes) as tape, plainly(), trial_run(tapped.model), torch.enable_grad():
        answer = call(tapped.model, sample, Tensor.double)
        tape.answer = answer.detach()
        size = tape.answer.norm()
        if not bool(size > 0):
            raise InputError("the model answers 0: there is no relative error")
        for probe in range(probes):
            sign = torch.randint(0, 2, answer.shape, generator=signs, dtype=answer.dtype).to(answer.device)
            tape.differentiate(answer, (2 * sign - 1) / size, last=probe == probes - 1)
    return tape


@torch.no_grad()
def _curvature(model: nn.Module, sample: Sample, answer: Tensor) -> float:
    """||f''(h, h)|| / 2 over ||f' h||² / ||f|| for a random change h of the weights; `answer` is with h = 0.

    Of the weights, not of the input: points of a cloud would leave a neighbourhood or enter one, and the answer would
    jump, which is no derivative. The weights are left where they were, but for rounding in float64.
    """
    weights = [torch.view_as_real(p) if p.is_complex() else p for p in model.parameters()]
    drawn = torch.Generator().manual_seed(0)
    noise = [torch.randn(w.shape, generator=drawn, dtype=w.dtype).to(w.device) for w in weights]
    change = [n * w.square().mean().sqrt() for w, n in zip(weights, noise, strict=True)]

    def moved(step: float) -> Tensor:
        torch._foreach_add_(weights, change, alpha=step)
        return call(model, sample, Tensor.double)

    with trial_run(model):
        above, below = moved(_STEP), moved(-2 * _STEP)
        torch._foreach_add_(weights, change, alpha=_STEP)
    first, second = (above - below).norm() / 2, (above + below - 2 * answer).norm() / 2
    return float(second * answer.norm() / first.square()) if bool(first > 0) else 0.0


def _collect(tapped: _Tapped, tapes: Sequence[Tape], curvature: float) -> Sensitivities:
    points = tuple(tapes[0].points)
    if any(tuple(tape.points) != points for tape in tapes):
        raise InputError("the samples take different ways through the model: give those of one shape together")
    return Sensitivities(
        points,
        tapped.holders,
        torch.stack([tape.squares() for tape in tapes], dim=1),
        torch.stack([tape.largest() for tape in tapes], dim=1),
        torch.stack([tape.sizes() for tape in tapes], dim=1),
        torch.stack([tape.aligned() for tape in tapes], dim=1),
        torch.stack([tape.spread() for tape in tapes], dim=1),
        curvature,
    )
