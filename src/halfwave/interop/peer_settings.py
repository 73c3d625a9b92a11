"""What a neuraloperator FNO is set to do: all that changes an output and that shapes of weights do not tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from halfwave.interop.peer_modules import GRIDS, ancestor
from halfwave.models import Factors
from halfwave.spectral import SphereGrid


@dataclass(frozen=True)
class PeerSettings:
    """The settings of a model of theirs; the defaults are neuraloperator's.

    Attributes:
        n_modes: as the user counts them, or None where only the weights tell.
        boundaries: of the coordinates that are appended; None for the unit cube.
        coordinates: whether any are.
        scaling: factors of every layer; None where none changes the grid.
        sphere: the grid of latitudes of an SFNO; None for Fourier layers.
        training: whether dropout acts.
    """

    n_modes: tuple[int, ...] | None = None
    n_layers: int | None = None
    coordinates: bool = True
    boundaries: tuple[tuple[float, float], ...] | None = None
    non_linearity: str = "gelu"
    norm: str | None = None
    preactivation: bool = False
    fno_skip: str | None = "linear"
    channel_mlp_skip: str | None = "soft-gating"
    channel_mlp_dropout: float = 0.0
    scaling: tuple[Factors, ...] | None = None
    domain_padding: float | Sequence[float] | None = None
    stabilizer: str | None = None
    implementation: str = "factorized"
    sphere: SphereGrid | None = None
    training: bool = True


def refuse(what: str) -> ValueError:
    return ValueError(f"this neuraloperator model uses {what}, which halfwave does not have")


def read_embedding(embedding: Any) -> tuple[bool, tuple[tuple[float, float], ...] | None]:
    """Whether coordinates are appended, and their boundaries where those are not the unit cube's."""
    if embedding is None:
        return False, None
    if not isinstance(embedding, nn.Module) or ancestor(embedding, *GRIDS) is None:
        raise refuse(f"the positional embedding {type(embedding).__name__}")
    grid: Any = embedding.grid_boundaries
    boundaries = tuple((float(start), float(end)) for start, end in grid)
    return True, None if all(pair == (0.0, 1.0) for pair in boundaries) else boundaries


def changing(layers: Iterable[Factors | None]) -> tuple[Factors, ...] | None:
    """The factors of all layers, or None where they are 1."""
    factors = [layer for layer in layers if layer is not None]
    return tuple(factors) if any(factor != 1 for layer in factors for factor in layer) else None


def check_scaled_padding(given: Any, scaling: tuple[Factors, ...] | None) -> None:
    """Theirs removes the padding as if one layer alone scaled, by `given`: ours does the same for that one layer."""
    ones = isinstance(given, list) and all(factor == 1 for factor in given)
    factor = 1 if given is None or ones else given
    layers = scaling or ((1.0,),)
    if len(layers) > 1 or not isinstance(factor, (int, float)) or any(f != factor for f in layers[0]):
        raise refuse("domain_padding with a resolution_scaling_factor for each layer")
