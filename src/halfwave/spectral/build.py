"""Spectral weights by their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from halfwave.spectral.contraction_settings import DEFAULT, ContractionSettings
from halfwave.spectral.factorizations import CPWeight, DepthwiseWeight, TTWeight, TuckerWeight
from halfwave.spectral.factorized import Implementation
from halfwave.spectral.ranks import Rank
from halfwave.spectral.weights import DenseWeight, SpectralWeight

_FACTORIZED: Mapping[str, Callable[..., SpectralWeight]] = {"cp": CPWeight, "tucker": TuckerWeight, "tt": TTWeight}
FACTORIZATIONS = ("dense", *_FACTORIZED)


@dataclass(frozen=True)
class WeightSettings:
    """What spectral weights are made of.

    Attributes:
        factorization: None or ``"dense"``, ``"cp"``, ``"tucker"``, ``"tt"`` (in either case of letters).
        rank: a fraction of the dense parameters or integers (see `ranks`).
        separable: weights that act on each channel by itself.
        implementation: ``"factorized"`` contracts with the factors, ``"reconstructed"`` makes dense weights first.
        contraction: how the contraction is planned.

    Dense weights have no rank or implementation to choose.
    """

    factorization: str | None = None
    rank: Rank = 1.0
    separable: bool = False
    implementation: Implementation = "factorized"
    contraction: ContractionSettings = DEFAULT

    def build(self, modes: tuple[int, ...], in_channels: int, out_channels: int, std: float) -> SpectralWeight:
        """Weights for modes of this shape, normal with about this standard deviation."""
        name = "dense" if self.factorization is None else str(self.factorization).lower()
        if name not in FACTORIZATIONS:
            accepted = ", ".join(FACTORIZATIONS)
            raise ValueError(f"unknown factorization {self.factorization!r}: expected None or one of {accepted}")
        if self.separable and in_channels != out_channels:
            channels = f"{in_channels} in, {out_channels} out"
            raise ValueError(f"separable weights need as many channels out as in, got {channels}")
        sides = (in_channels,) if self.separable else (in_channels, out_channels)
        if name in _FACTORIZED:
            return _FACTORIZED[name](modes, sides, std, self.rank, self.implementation, self.contraction)
        if self.separable:
            return DepthwiseWeight(modes, sides, std, self.contraction)
        return DenseWeight(modes, in_channels, out_channels, std, self.contraction)
