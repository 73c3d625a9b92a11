"""CloudEncoder: bodies in metres to the unit box, and their shape as a distance on the latent grid.

It is to point clouds what normalizers are to fields: fitted on the train split, kept with the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from halfwave.data import Normalizer, PointDataset, PointSample, query_grid, signed_distance
from halfwave.errors import InputError
from halfwave.models import pack_points
from halfwave.training.clouds.packed import Clouds

_MARGIN = 0.05  # of the box on each side: a point on its face would have latent neighbours on one side only


@dataclass(frozen=True)
class CloudEncoder:
    """The box of all train bodies becomes [0, 1]^3, each axis by itself, so that the latent grid is used evenly.

    With `corners` each body has [0, 1]^3 to itself, so that noses, edges and tails of all meet the same latent nodes;
    where its own box lies, six numbers, then is an input beside its shape.

    low, high: corners of the box (3 values each, in the units of the data).
    resolution: nodes a side of the latent grid.
    features: which parameters of a sample are inputs beside its shape, by their places among `n_parameters`.
    normalizer: of those parameters; None leaves them as they are.
    speed: place of the parameter V whose square the pressure is proportional to: the model then answers p/V^2, which
        does not depend on the wind. None: it answers the pressure itself.
    corners: normalizer of the corners of the bodies' own boxes, in units of the common one; None: all share that.
    """

    low: Tensor
    high: Tensor
    resolution: int
    features: tuple[int, ...] = ()
    n_parameters: int = 0
    normalizer: Normalizer | None = None
    speed: int | None = None
    corners: Normalizer | None = None

    def __post_init__(self) -> None:
        if self.low.shape != (3,) or self.high.shape != (3,) or not bool((self.high > self.low).all()):
            raise InputError(f"a box from {self.low.tolist()} to {self.high.tolist()}: expected 3 growing sides")
        if self.resolution < 2:
            raise InputError(f"a latent grid of {self.resolution} points a side: expected at least 2")
        named = (*self.features, *(() if self.speed is None else (self.speed,)))
        if any(not 0 <= i < self.n_parameters for i in named):
            raise InputError(f"features {list(named)}: expected places among {self.n_parameters} parameters")

    @property
    def latent_feature_channels(self) -> int:
        return latent_channels(len(self.features), self.corners is not None)

    def collate(self, samples: Sequence[PointSample], distances: Sequence[Tensor] | None = None) -> Clouds:
        """A batch of samples; `distances` are theirs from `distance`, where they are known already."""
        points, offsets = pack_points([self.place(sample) for sample in samples])
        known = distances if distances is not None else [self.distance(sample) for sample in samples]
        latent = torch.stack(list(known)).unsqueeze(-1)
        for values in self._of_bodies(samples):
            latent = torch.cat([latent, values[:, None, None, None].expand(*latent.shape[:-1], -1)], dim=-1)
        normals = torch.cat([sample.normals for sample in samples])
        return Clouds(points, normals, offsets, _unit_nodes(self.resolution), latent, self._scales(samples))

    def _scales(self, samples: Sequence[PointSample]) -> Tensor | None:
        if self.speed is None:
            return None
        self._check(samples)
        return torch.cat([sample.parameters[self.speed].square().expand(len(sample.points), 1) for sample in samples])

    def _of_bodies(self, samples: Sequence[PointSample]) -> Iterator[Tensor]:
        """(B, ...) numbers of the bodies that are inputs at every node."""
        if self.corners is not None:
            boxes = torch.stack([torch.cat(self._box(sample)) for sample in samples])
            yield self.corners.encode(_in_units(boxes, self.low, self.high))
        if self.features:
            yield self._features(samples)

    def place(self, sample: PointSample) -> Tensor:
        """The points of a sample, in the units of the data, to points in the unit box."""
        low, high = self._box(sample)
        return (sample.points - low) / (high - low)

    def _box(self, sample: PointSample) -> tuple[Tensor, Tensor]:
        return (self.low, self.high) if self.corners is None else _widened(*sample.points.aminmax(dim=0))

    def distance(self, sample: PointSample) -> Tensor:
        """Signed distance from the latent nodes to a body (X, Y, Z), the longest side of the box being 1."""
        nodes = query_grid(*self._box(sample), self._grid)
        distance = signed_distance(sample, nodes.reshape(-1, 3)).reshape(self._grid)
        return distance / (self.high - self.low).amax()

    @property
    def _grid(self) -> tuple[int, int, int]:
        return (self.resolution,) * 3

    def _check(self, samples: Sequence[PointSample]) -> None:
        for sample in samples:
            if len(sample.parameters) != self.n_parameters:
                raise InputError(
                    f"a sample has {len(sample.parameters)} parameters: expected the {self.n_parameters} of the "
                    "training data"
                )

    def _features(self, samples: Sequence[PointSample]) -> Tensor:
        self._check(samples)
        values = torch.stack([sample.parameters[list(self.features)] for sample in samples])
        return values if self.normalizer is None else self.normalizer.encode(values)

    def state(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "resolution": self.resolution,
            "features": list(self.features),
            "n_parameters": self.n_parameters,
            "normalizer": None if self.normalizer is None else self.normalizer.state(),
            "speed": self.speed,
            "corners": None if self.corners is None else self.corners.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> CloudEncoder:
        try:
            low, high = (torch.tensor(state[key], dtype=torch.float32) for key in ("low", "high"))
            normalizer, corners = (
                None if kept is None else Normalizer.from_state(kept)
                for kept in (state["normalizer"], state.get("corners"))
            )
            features = tuple(int(i) for i in state["features"])
            speed = None if state.get("speed") is None else int(state["speed"])
            places = features, int(state["n_parameters"])
            return cls(low, high, int(state["resolution"]), *places, normalizer, speed, corners)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"not the state of a cloud encoder: {error}") from error


def fit_clouds(
    samples: Iterable[PointSample],
    resolution: int,
    features: tuple[int, ...],
    speed: int | None = None,
    own_box: bool = False,
) -> tuple[CloudEncoder, Normalizer]:
    """The encoder of these samples and the normalizer of what the model answers, the pressure or p/V^2, in one pass.

    Give it the train split only.
    """
    boxes: list[Tensor] = []
    parameters: list[Tensor] = []

    def pressures() -> Iterator[Tensor]:
        for sample in samples:
            boxes.append(torch.stack(sample.points.aminmax(dim=0)))
            parameters.append(sample.parameters)
            scale = 1.0 if speed is None else sample.parameters[speed].square()
            yield (sample.pressure / scale).unsqueeze(1)

    pressure = Normalizer.fit(pressures())
    table, ends = torch.stack(parameters), torch.stack(boxes)
    low, high = _widened(ends[:, 0].amin(0), ends[:, 1].amax(0))
    normalizer = Normalizer.fit([table[:, list(features)]]) if features else None
    corners = torch.stack([torch.cat(_widened(*end)) for end in ends])
    own = Normalizer.fit([_in_units(corners, low, high)]) if own_box else None
    encoder = CloudEncoder(low, high, resolution, features, table.shape[1], normalizer, speed, own)
    return encoder, pressure


def latent_channels(features: int, own_box: bool) -> int:
    """Channels on the latent grid: the distance, the two corners of an own box, and the features."""
    return 1 + 6 * own_box + features


def _widened(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The box with its margin; where a set is flat, or a single point, any positive extent serves."""
    extent = torch.where(high > low, high - low, (high - low).amax().clamp(min=1e-6))
    middle, half = (low + high) / 2, extent * (0.5 + _MARGIN)
    return middle - half, middle + half


def _in_units(corners: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """(B, 6) corners in units of a box."""
    return ((corners.unflatten(1, (2, 3)) - low) / (high - low)).flatten(1)


@lru_cache(maxsize=4)
def _unit_nodes(resolution: int) -> Tensor:
    return query_grid(torch.zeros(3), torch.ones(3), (resolution,) * 3)


def find_features(dataset: PointDataset, names: Sequence[str]) -> tuple[int, ...]:
    """Places of the named parameters; InputError with those that the data has."""
    known = list(dataset.parameter_names)
    for name in names:
        if name not in known:
            raise InputError(
                f"{dataset.path} has no parameter {name!r}: expected one of {', '.join(known) or 'none: it has none'}"
            )
    return tuple(known.index(name) for name in names)
