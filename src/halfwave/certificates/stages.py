"""One stage of one layer by itself: what a format does to it while all else is exact.

A `Stage` knows the values that pass through it in the float64 model, and answers for each format: does it hold them,
what error is guaranteed, what error is measured. Errors are relative to the layer's answer: of a spectral stage to the
convolution's, of a pointwise one to the block's, as rms over the grid and l2 over channels, worst sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from halfwave.certificates.conv_bound import bound_conv, weight_norms
from halfwave.certificates.network_bound import ConvolutionErrors, bound_block_output, bound_mlp, covers
from halfwave.certificates.norms import largest_rms
from halfwave.certificates.observing import Observation, observe, refuse_scaling
from halfwave.certificates.remarks import CLOSE_TO_OVERFLOW, MUCH_UNDERFLOW
from halfwave.models import ChannelMLP, FNOBlock, NeuralOperator, trial_run
from halfwave.numerics import Format, arithmetic, arithmetic_of, round_to
from halfwave.precision import SPECTRAL_ROLES, Policy, PolicyModule, get_stabilizer
from halfwave.spectral import FourierTransform, SpectralConv, narrow_range


@dataclass(frozen=True)
class Stage:
    """A stage of a layer of the float64 model.

    Attributes:
        layer: name of the layer whose policy decides.
        role: of the policy.
        values: what passes through in float64, in and out.
        exact: the answer that errors are relative to.
        run: the answer with this role in a format.
        bound: a guaranteed bound on the norm of its error; None where no theorem covers the layer.
        sums: how many values are added up before they are scaled, in a format (more than 1 in an FFT).
    """

    layer: str
    role: str
    values: tuple[Tensor, ...]
    exact: Tensor
    run: Callable[[Format], Tensor]
    bound: Callable[[Format], float | None]
    sums: Callable[[Format], int] = lambda _: 1

    @property
    def largest(self) -> float:
        """The largest modulus of its values."""
        return max(float(v.abs().max()) for v in self.values)

    def out_of_range(self, format: Format) -> str | None:
        """Why the format cannot hold the values, in words, or None if it can."""
        reach = self.largest * self.sums(format)
        if not reach <= CLOSE_TO_OVERFLOW * format.largest:
            return f"values to {reach:.2g} and {format} ends at {format.largest:.2g}"
        lost = max(_underflow(v, format) for v in self.values)
        return f"underflow takes up to {lost:.2g} times what rounding does" if lost > MUCH_UNDERFLOW else None

    def measured(self, format: Format) -> float:
        """The relative error on these samples; inf where the answer is not finite."""
        error = largest_rms(self.run(format).double() - self.exact)
        return self._relative(error) if math.isfinite(error) else math.inf

    def bounded(self, format: Format) -> float | None:
        """The relative bound."""
        found = self.bound(format)
        return None if found is None else self._relative(found)

    def _relative(self, error: float) -> float:
        size = largest_rms(self.exact)
        return error / size if size > 0 else (0.0 if error == 0 else math.inf)


def _underflow(values: Tensor, format: Format) -> float:
    """What underflow can take over what rounding can: eta sqrt(count) / (u ||v||); zeros lose nothing."""
    sizes = values.abs()
    low = (sizes < format.smallest_normal) & (sizes > 1e-13 * sizes.max())
    size = format.unit_roundoff * float(sizes.norm())
    return format.smallest_subnormal / 2 * math.sqrt(int(low.sum())) / size if size > 0 else 0.0


def layers_of(model: nn.Module) -> dict[str, PolicyModule]:
    """The layers that compute under a policy: the outermost modules with one below the operator."""
    found: dict[str, PolicyModule] = {}
    for name, module in model.named_modules():
        inner = any(name.startswith(f"{outer}.") for outer in found)
        if isinstance(module, PolicyModule) and not isinstance(module, NeuralOperator) and not inner:
            found[name] = module
    return found


def stages_of(model: nn.Module, x: Tensor, stabilizer: str) -> Iterator[Stage]:
    """Every stage of the float64 `model` on `x`, in the order in which layers are held."""
    refuse_scaling(model)
    layers = layers_of(model)
    convs = [f"{name}.conv" for name, layer in layers.items() if isinstance(layer, FNOBlock)]
    seen = observe(model, x, [*layers, *convs])
    for name, layer in layers.items():
        if isinstance(layer, FNOBlock):
            yield from _spectral_stages(name, layer.conv, seen, stabilizer)
        yield _pointwise_stage(name, layer, seen)


def _spectral_stages(name: str, conv: SpectralConv, seen: Observation, stabilizer: str) -> Iterator[Stage]:
    x, y = seen.inputs[f"{name}.conv"], seen.outputs[f"{name}.conv"]
    grid = tuple(x.shape[2:])
    exact = Policy.uniform("fp64", stabilizer)
    v, v_hat, y_hat = _spectra(conv, x)
    weights = tuple(p.detach() for p in conv.weight.parameters())
    passing = {
        "forward_transform": (v, v_hat),
        "contraction": (v_hat, y_hat),
        "inverse_transform": (y_hat, y),
        "weights": weights,
    }
    size, norms = largest_rms(v), weight_norms(conv, grid)

    def under(role: str, format: Format) -> Policy:
        return exact.with_(**{role: format.name})

    def run(role: str, format: Format) -> Tensor:
        with _policy(conv, under(role, format)), torch.no_grad():
            result: Tensor = conv(x)
        return result

    def bound(role: str, format: Format) -> float | None:
        if not isinstance(conv.transform, FourierTransform):
            return None
        with _policy(conv, under(role, format)):
            # A stabilizer changes the function, which no bound on rounding covers.
            found = bound_conv(conv, grid, x.device, size, norms) if conv.stabilizer == "none" else None
        return None if found is None else found.value

    def sums(role: str, format: Format) -> int:
        transform, arith = conv.transform, arithmetic(format, x.device.type)
        fft = isinstance(transform, FourierTransform) and transform.plan(grid, arith, x.device).backend == "fft"
        return math.prod(grid) if fft and role == "forward_transform" and narrow_range(format) else 1

    for role in SPECTRAL_ROLES:
        yield Stage(
            name,
            role,
            passing[role],
            y,
            lambda format, role=role: run(role, format),  # type: ignore[misc]
            lambda format, role=role: bound(role, format),  # type: ignore[misc]
            lambda format, role=role: sums(role, format),  # type: ignore[misc]
        )


@torch.no_grad()
def _spectra(conv: SpectralConv, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The stabilised input, its spectrum, and the contracted one, in float64."""
    v = get_stabilizer(conv.stabilizer)(x)
    exact = arithmetic_of("fp64", x.device.type)
    v_hat = conv.transform.forward(v, exact)
    y_hat = conv.weight.contract(v_hat, conv.transform.weight_slices(tuple(x.shape[2:])), exact, exact)
    return v, v_hat, y_hat


def _pointwise_stage(name: str, layer: PolicyModule, seen: Observation) -> Stage:
    x, y = seen.inputs[name], seen.outputs[name]
    exact = Policy.uniform("fp64")

    def run(format: Format) -> Tensor:
        with _policy(layer, exact.with_(pointwise=format.name)), torch.no_grad():
            result: Tensor = layer(x)
        return result

    def bound(format: Format) -> float | None:
        # The layer holds its input in the format: that rounding is measured, and follows as an error that enters.
        rounded = round_to(x, format)
        entered = largest_rms(rounded - x)
        if not math.isfinite(entered) or not covers(layer):
            return None
        held = Observation(seen.output, {**seen.inputs, name: rounded}, seen.outputs)
        with _policy(layer, exact.with_(pointwise=format.name)):
            if isinstance(layer, FNOBlock):
                return bound_block_output(layer, name, held, entered, ConvolutionErrors(0.0, ()))
            return bound_mlp(layer, rounded, entered) if isinstance(layer, ChannelMLP) else None

    return Stage(name, "pointwise", (x, y), y, run, bound)


@contextmanager
def _policy(layer: PolicyModule, policy: Policy) -> Iterator[None]:
    """While active, a layer (not its parts, but for the norms of a block) has another policy."""
    norms = layer.norms if isinstance(layer, FNOBlock) else None
    holders = [layer, *(norm for norm in norms or () if isinstance(norm, PolicyModule))]
    before = [holder.policy for holder in holders]
    for holder in holders:
        holder.adopt(policy)
    try:
        with trial_run(layer):
            yield
    finally:
        for holder, own in zip(holders, before, strict=True):
            holder.adopt(own)
