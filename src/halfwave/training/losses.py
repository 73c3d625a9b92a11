"""Relative L2 and H1 errors, in float32 whatever the format of the prediction.

    L2:  ||p - y|| / ||y||,              ||u||^2 = sum over points and channels of w u^2
    H1:  ||p - y||_1 / ||y||_1,          ||u||_1^2 = ||u||^2 + sum over axes of ||du/dx||^2

Norms are per sample and the loss is their mean over the batch. With one channel and equal weights these are
neuraloperator's ``LpLoss(p=2)`` and ``H1Loss`` with ``reduction="mean"``. A constant factor of w cancels, so
quadrature weights, cell areas and their normalised forms all give the same figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch_harmonics.quadrature import clenshaw_curtiss_weights

from halfwave.errors import InputError
from halfwave.models import unpack_points
from halfwave.training import derivatives
from halfwave.training.clouds import Pressures

_EPS = 1e-8  # added to ||y||, as in neuraloperator: a zero target gives a large finite error
LOSSES = ("l2", "h1")


class Loss(Protocol):
    """What the trainer asks of a loss: one number per sample. The target is a tensor, or that of a batch of clouds."""

    def per_sample(self, prediction: Tensor, target: Any) -> Tensor: ...

    def __call__(self, prediction: Tensor, target: Any) -> Tensor: ...


@dataclass(frozen=True)
class RelativeL2:
    """Relative L2 error of fields (B, C, *grid), or of values on points (B, C, P).

    `weights`, if any, broadcasts against the grid or against (B, 1, P): quadrature weights on the sphere, cell areas on
    a surface; they must not be negative.
    """

    weights: Tensor | None = None

    def __post_init__(self) -> None:
        if self.weights is not None:
            _check_weights(self.weights)

    def per_sample(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Errors of shape (B,)."""
        p, y = _as_fp32(prediction, target)
        root = _root(self.weights, y)
        return _norm([p - y], root) / (_norm([y], root) + _EPS)

    def __call__(self, prediction: Tensor, target: Tensor) -> Tensor:
        return self.per_sample(prediction, target).mean()


@dataclass(frozen=True)
class RelativeH1:
    """Relative H1 error of fields (B, C, *grid) in 1 to 3 dimensions.

    `lengths` are the sides of the domain, 1 each by default, so that spacing is 1/n. Derivatives are ``"spectral"``
    (periodic axes only) or ``"difference"``: second-order central, one-sided at the ends where not periodic.
    """

    derivative: Literal["spectral", "difference"] = "difference"
    periodic: bool = False
    lengths: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.derivative not in ("spectral", "difference"):
            raise InputError(f"unknown derivative {self.derivative!r}: expected spectral or difference")
        if self.derivative == "spectral" and not self.periodic:
            raise InputError("spectral derivatives need a periodic domain: give periodic=True or derivative=difference")

    def per_sample(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Errors of shape (B,)."""
        p, y = _as_fp32(prediction, target)
        return _norm(self._terms(p - y)) / (_norm(self._terms(y)) + _EPS)

    def __call__(self, prediction: Tensor, target: Tensor) -> Tensor:
        return self.per_sample(prediction, target).mean()

    def _terms(self, u: Tensor) -> list[Tensor]:
        dimensions = u.ndim - 2
        lengths = self.lengths or (1.0,) * dimensions
        if len(lengths) != dimensions or not 1 <= dimensions <= 3:
            raise InputError(f"H1 with {len(lengths)} lengths got a field of {dimensions} dimensions: expected 1 to 3")
        return [u, *(self._derivative(u, axis + 2, length) for axis, length in enumerate(lengths))]

    def _derivative(self, u: Tensor, dim: int, length: float) -> Tensor:
        if self.derivative == "spectral":
            return derivatives.spectral(u, dim, length)
        return derivatives.difference(u, dim, length / u.shape[dim], self.periodic)


@dataclass(frozen=True)
class SphereH1:
    """Relative H1 error on the unit sphere: fields (B, C, latitude, longitude), `weights` of the latitudes' quadrature.

    |∇u|^2 = (∂u/∂θ)^2 + (1/sin θ ∂u/∂φ)^2, integrated with the weights (which hold the sin θ of the area).
    """

    colatitude: Tensor
    weights: Tensor

    def __post_init__(self) -> None:
        _check_weights(self.weights)

    def per_sample(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Errors of shape (B,)."""
        p, y = _as_fp32(prediction, target)
        root = _root(self.weights[:, None], y)
        difference = p - y
        numerator = _norm([difference, *derivatives.on_sphere(difference, self.colatitude)], root)
        return numerator / (_norm([y, *derivatives.on_sphere(y, self.colatitude)], root) + _EPS)

    def __call__(self, prediction: Tensor, target: Tensor) -> Tensor:
        return self.per_sample(prediction, target).mean()


@dataclass(frozen=True)
class EquiangularLoss:
    """Relative L2 or H1 on the sphere for fields (B, C, latitude, longitude) from pole to pole, of any resolution.

    Clenshaw-Curtis quadrature in latitude, which is exact for what such a grid resolves.
    """

    name: Literal["l2", "h1"]

    def per_sample(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Errors of shape (B,)."""
        colatitude, weights = _equiangular(target.shape[-2])
        weights = weights.to(target.device)
        loss = RelativeL2(weights[:, None]) if self.name == "l2" else SphereH1(colatitude, weights)
        return loss.per_sample(prediction, target)

    def __call__(self, prediction: Tensor, target: Tensor) -> Tensor:
        return self.per_sample(prediction, target).mean()


@dataclass(frozen=True)
class CloudL2:
    """Relative L2 error of each geometry of a batch of point clouds; with `by_area` each point counts by its area.

    There is no H1 on a cloud: its points have no neighbours along an axis to take a difference with.
    """

    by_area: bool = False

    def per_sample(self, prediction: Tensor, target: Pressures) -> Tensor:
        """Errors of shape (B,) from predictions (Σn, 1), packed as the target is."""
        offsets = target.offsets
        parts = zip(*(unpack_points(t, offsets) for t in (prediction, target.values, target.areas)), strict=True)
        return torch.cat([self._error(p, y, areas) for p, y, areas in parts])

    def __call__(self, prediction: Tensor, target: Pressures) -> Tensor:
        return self.per_sample(prediction, target).mean()

    def _error(self, prediction: Tensor, values: Tensor, areas: Tensor) -> Tensor:
        loss = RelativeL2(areas if self.by_area else None)
        return loss.per_sample(prediction.T[None], values.T[None])


def build_cloud_loss(name: str, by_area: bool = False) -> CloudL2:
    """The loss called `name` on point clouds: "l2" is the only one."""
    if name != "l2":
        raise InputError(f"loss {name!r} is not defined on point clouds: expected l2")
    return CloudL2(by_area)


def build_loss(name: str, metadata: Mapping[str, Any] | None = None) -> Loss:
    """The loss called `name` ("l2" or "h1") on the domain of a dataset with `metadata`.

    The metadata's ``periodic`` (bool) and ``lengths`` (sides of the domain) decide; without them the domain is what
    is known of the equation called ``name`` there, or else a unit box that is not periodic.
    """
    if name not in LOSSES:
        raise InputError(f"unknown loss {name!r}: expected one of {', '.join(LOSSES)}")
    metadata = metadata or {}
    if metadata.get("name") == "shallow-water":
        return EquiangularLoss("l2" if name == "l2" else "h1")
    if name == "l2":
        return RelativeL2()
    known = {"periodic": True, "lengths": (2 * math.pi,) * 2} if metadata.get("name") == "navier-stokes" else {}
    domain = {**known, **metadata}
    periodic = bool(domain.get("periodic", False))
    sides = tuple(float(side) for side in domain.get("lengths") or ()) or None
    return RelativeH1("spectral" if periodic else "difference", periodic, sides)


@lru_cache(maxsize=8)
def _equiangular(latitudes: int) -> tuple[Tensor, Tensor]:
    """Colatitudes from pole to pole and the weights of their quadrature."""
    cosines, weights = clenshaw_curtiss_weights(latitudes, -1.0, 1.0)
    return torch.as_tensor(cosines).flip(0).clamp(-1, 1).arccos(), torch.as_tensor(weights)


def _as_fp32(prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if prediction.shape != target.shape:
        raise InputError(f"prediction of shape {tuple(prediction.shape)} against target of {tuple(target.shape)}")
    # Half-precision sums over a grid overflow (fp16) or stagnate (bf16): never take a norm in them.
    wide = torch.float64 if torch.float64 in (prediction.dtype, target.dtype) else torch.float32
    return prediction.to(wide), target.to(wide)


def _check_weights(weights: Tensor) -> None:
    if bool((weights < 0).any()):
        raise InputError(f"loss weights must not be negative, smallest given {float(weights.min()):.3g}")


def _root(weights: Tensor | None, like: Tensor) -> Tensor | None:
    return None if weights is None else weights.to(like).sqrt()


def _norm(terms: Sequence[Tensor], root: Tensor | None = None) -> Tensor:
    """Per-sample norm over all terms. vector_norm has gradient 0 at 0, where the square root's would be NaN."""
    norms = [torch.linalg.vector_norm((u if root is None else u * root).flatten(1), dim=1) for u in terms]
    return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms), dim=0)
