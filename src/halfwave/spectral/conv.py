"""SpectralConv: (K v)(x) = F^-1( R · T_K (F v) )(x) + b, under a precision policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from halfwave.numerics import Arithmetic
from halfwave.precision import Policy, PolicyModule, Resolved, as_policy, get_stabilizer, resolve_stabilizer
from halfwave.spectral.build import WeightSettings
from halfwave.spectral.contraction_settings import ContractionSettings
from halfwave.spectral.factorized import Implementation
from halfwave.spectral.fields import check_field
from halfwave.spectral.fourier import FourierTransform
from halfwave.spectral.modes import Layout, check_modes
from halfwave.spectral.plan import ComplexMode, Objective
from halfwave.spectral.ranks import Rank
from halfwave.spectral.transform import Transform
from halfwave.spectral.transform_plan import Backend
from halfwave.spectral.weights import SpectralWeight

_STAGES = ("forward_transform", "contraction", "inverse_transform")


class SpectralConv(PolicyModule):
    """The spectral convolution of a neural operator, each stage in its own format.

    Shapes: (B, in_channels, *grid) to (B, out_channels, *grid), or to another grid with `output_shape`
    (band-limited interpolation). The result is in the storage dtype of the inverse transform's format.

    The policy's stabilizer is part of the function. ``"auto"`` is resolved (tanh before an FFT in a format of narrow
    range, none elsewhere) until the first input comes; from then on `stabilizer` stays through every change of
    precision, until a policy names another. It is saved with the weights.

    Args:
        in_channels, out_channels: channels C and O.
        n_modes: kept frequencies per axis, as in neuraloperator (the last one counts both signs); the attribute can
            be set later, up to `max_n_modes`.
        max_n_modes: modes that get weights, counted in the same way; None for `n_modes`.
        bias: add a learned constant per channel.
        factorization: None (dense), ``"cp"``, ``"tucker"`` or ``"tt"``.
        rank: of the factorization, a fraction of the dense parameters or integers (see `ranks`).
        separable: weights that act on each channel by itself.
        implementation: ``"factorized"`` contracts with the factors, ``"reconstructed"`` makes dense weights first.
        contraction: order of the factors for the fewest ``"flops"`` or the least ``"memory"``. On a CPU contractions
            are cut into slices that fit a cache, so that the former takes little memory as well.
        complex_mode: options ``"A"``, ``"B"`` or ``"C"`` of the paper for complex products (see `plan`).
        memory_limit: bytes that operands, result, gradients and temporaries of the contraction may take together; it
            is streamed in slices for it. A limit that no slicing can hold raises at the first input.
        precision: a `Policy` or the name of one; `set_precision` changes it later.
        backend: ``"gemm"``, ``"fft"`` or ``"auto"``.
        layout: ``"exact"``, or ``"neuralop"`` to repeat its treatment of odd grids (see `modes`).
        transform: in place of a Fourier transform of `n_modes`; `SphericalTransform(n_modes)` makes this the
            convolution on the sphere, with weights per degree. `backend`, `layout` and `max_n_modes` are its own then.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        n_modes: int | tuple[int, ...],
        *,
        max_n_modes: int | tuple[int, ...] | None = None,
        bias: bool = True,
        factorization: str | None = None,
        rank: Rank = 1.0,
        separable: bool = False,
        implementation: Implementation = "factorized",
        contraction: Objective = "flops",
        complex_mode: ComplexMode = "C",
        memory_limit: int | None = None,
        precision: str | Policy = "full",
        backend: Backend = "auto",
        layout: Layout = "exact",
        transform: Transform | None = None,
    ) -> None:
        owned = None if max_n_modes is None else check_modes(max_n_modes)
        own = _check_transform(transform, check_modes(n_modes), backend, layout, owned)
        settings = ContractionSettings(contraction, complex_mode, memory_limit)
        weights = WeightSettings(factorization, rank, separable, implementation, settings)
        self._compose(in_channels, out_channels, own, weights, bias, precision)

    @classmethod
    def of(
        cls,
        in_channels: int,
        out_channels: int,
        transform: Transform,
        weights: WeightSettings,
        bias: bool = True,
        precision: str | Policy = "full",
    ) -> SpectralConv:
        """The convolution made of these objects."""
        conv = cls.__new__(cls)
        conv._compose(in_channels, out_channels, transform, weights, bias, precision)
        return conv

    def _compose(
        self,
        in_channels: int,
        out_channels: int,
        transform: Transform,
        weights: WeightSettings,
        bias: bool,
        precision: str | Policy,
    ) -> None:
        super().__init__()
        for label, value in (("in_channels", in_channels), ("out_channels", out_channels)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{label} must be a positive integer, got {value!r}")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.transform: Transform = transform
        std = (2 / (in_channels + out_channels)) ** 0.5
        self.weight: SpectralWeight = weights.build(transform.weight_modes, in_channels, out_channels, std)
        self.bias = nn.Parameter(std * torch.randn(out_channels)) if bias else None
        # Whether the layer has computed: then a policy with "auto" leaves the stabilizer as it is.
        self.settled = False
        self.adopt(as_policy(precision))

    def forward(self, x: Tensor, output_shape: tuple[int, ...] | None = None) -> Tensor:
        """(B, in_channels, *grid) to (B, out_channels, *grid), or on the grid `output_shape` (one size for each axis).

        The answer is in the storage dtype of the inverse transform's format; ValueError for another number of channels
        or axes.
        """
        check_field(x, self.in_channels, self.transform.dim, self.masters.device)
        grid = tuple(x.shape[2:])
        roles = self.resolved(x.device)
        v = self._stabilized(x, roles)
        x_hat = self.transform.forward(v, roles.forward_transform)
        window = self.transform.weight_slices(grid)
        y_hat = self.weight.contract(x_hat, window, roles.contraction, roles.weights)
        target = grid if output_shape is None else tuple(output_shape)
        biased = self._biased(y_hat, grid, roles.contraction)
        y = self.transform.inverse(y_hat if biased is None else biased, target, grid, roles.inverse_transform)
        if self.bias is not None and biased is None:
            y = y + self.bias.to(y.dtype).view(-1, *([1] * len(grid)))
        return y

    def _biased(self, y_hat: Tensor, grid: tuple[int, ...], arith: Arithmetic) -> Tensor | None:
        """The spectrum of the field with the bias; None where there is none, or the transform cannot add it there."""
        if self.bias is None:
            return None
        biased = self.transform.add_constant(y_hat, arith.cast(self.bias), grid)
        return None if biased is None else arith.cast(biased)

    def adopt(self, policy: Policy) -> None:
        super().adopt(policy)
        self._choose_stabilizer()

    def settle(self) -> None:
        # Traced code writes and does not read: a guard on what changes once would compile every layer twice.
        if torch.compiler.is_compiling() or not self.settled:
            self.settled = True

    def concern(self) -> str | None:
        if self.policy.stabilizer == "auto" and self.stabilizer == "none" and self._half_fft(self.policy):
            return (
                "an FFT in a format of narrow range may overflow, and this model has computed without a stabilizer, "
                "which is part of its function: name one (stabilizer='tanh') to change it, or take backend='gemm'"
            )
        return None

    @property
    def n_modes(self) -> tuple[int, ...]:
        """The kept modes. Set them to keep others of those that have weights: the low ones are used."""
        return self.transform.n_modes

    @n_modes.setter
    def n_modes(self, n_modes: int | tuple[int, ...]) -> None:
        most = self.transform.max_n_modes or self.transform.n_modes
        # Every transform is a frozen dataclass.
        self.transform = replace(self.transform, n_modes=check_modes(n_modes), max_n_modes=most)  # type: ignore[type-var]

    @property
    def stabilizer(self) -> str:
        """The stabilizer that acts."""
        return self._stabilizer

    def settle_on(self, stabilizer: str) -> None:
        """Take over the stabilizer that these weights were trained with."""
        self._stabilizer, self.settled = resolve_stabilizer(stabilizer, self._half_fft(self.policy)), True

    def brings_stabilizer(self, policies: Iterable[Policy]) -> bool:
        """Whether one of these policies would bring a stabilizer with it into a layer that has not computed yet."""
        return any(policy.stabilizer == "auto" and self._half_fft(policy) for policy in policies)

    def _choose_stabilizer(self) -> None:
        if not self.settled or self.policy.stabilizer != "auto":
            self._stabilizer = resolve_stabilizer(self.policy.stabilizer, self._half_fft(self.policy))

    def _half_fft(self, policy: Policy) -> bool:
        masters = self.masters
        return self.transform.half_fft(policy.on(masters.device, masters.dtype).forward_transform.format)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> SpectralConv:
        """`.half()` and the like: weights of another dtype may make another FFT."""
        super()._apply(fn, recurse)
        self._choose_stabilizer()
        return self

    def _stabilized(self, x: Tensor, roles: Resolved) -> Tensor:
        if self._stabilizer == "none":
            return x
        wide = roles.forward_transform.storage is torch.float64
        return roles.pointwise.cast(get_stabilizer(self._stabilizer)(x.double() if wide else x))

    def extra_repr(self) -> str:
        roles = self.resolved(self.masters.device)
        ran = ", ".join(f"{stage}={getattr(roles, stage)}" for stage in _STAGES)
        return (
            f"{self.in_channels}, {self.out_channels}, n_modes={self.transform.n_modes}, "
            f"backend={self.transform.backend}, policy={self.policy.name}, {ran}, stabilizer={self.stabilizer}"
        )


def _check_transform(
    transform: Transform | None,
    n_modes: tuple[int, ...],
    backend: Backend,
    layout: Layout,
    max_n_modes: tuple[int, ...] | None,
) -> Transform:
    """The given transform, or the Fourier transform of these settings; contradictions raise."""
    if transform is None:
        return FourierTransform(n_modes, backend, layout, max_n_modes)
    if transform.n_modes != n_modes:
        raise ValueError(f"n_modes {n_modes} contradicts the transform's, {transform.n_modes}")
    if backend != "auto" or layout != "exact" or max_n_modes is not None:
        raise ValueError(
            "backend and layout (and max_n_modes) belong to the transform when one is given: set them there"
        )
    return transform
