"""Spectral weights by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from halfwave.spectral.contraction_settings import DEFAULT, ContractionSettings
from halfwave.spectral.factorizations import CPWeight, DepthwiseWeight, TTWeight, TuckerWeight
from halfwave.spectral.factorized import Implementation
from halfwave.spectral.ranks import Rank
from halfwave.spectral.weights import DenseWeight, SpectralWeight

_FACTORIZED: Mapping[str, Callable[..., SpectralWeight]] = {"cp": CPWeight, "tucker": TuckerWeight, "tt": TTWeight}
FACTORIZATIONS = ("dense", *_FACTORIZED)


def build_weight(
    modes: tuple[int, ...],
    in_channels: int,
    out_channels: int,
    std: float,
    *,
    factorization: str | None = None,
    rank: Rank = 1.0,
    separable: bool = False,
    implementation: Implementation = "factorized",
    settings: ContractionSettings = DEFAULT,
) -> SpectralWeight:
    """Weights for modes of this shape, normal with about this standard deviation.

    `factorization` is None or ``"dense"``, ``"cp"``, ``"tucker"``, ``"tt"`` (in either case of letters); `rank` a
    fraction of the dense parameters or integers (see `ranks`); `separable` weights act on each channel by itself.
    `settings` are those of the contraction's plan. Dense weights have no rank or implementation to choose.
    """
    name = "dense" if factorization is None else str(factorization).lower()
    if name not in FACTORIZATIONS:
        raise ValueError(
            f"unknown factorization {factorization!r}: expected None or one of {', '.join(FACTORIZATIONS)}"
        )
    if separable and in_channels != out_channels:
        raise ValueError(f"separable weights need as many channels out as in, got {in_channels} in, {out_channels} out")
    channels = (in_channels,) if separable else (in_channels, out_channels)
    if name in _FACTORIZED:
        return _FACTORIZED[name](modes, channels, std, rank, implementation, settings)
    if separable:
        return DepthwiseWeight(modes, channels, std, settings)
    return DenseWeight(modes, in_channels, out_channels, std, settings)
