"""Ahmed bodies: the blunt reference shape of road-vehicle aerodynamics, in winds of 10 to 70 m/s."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from halfwave.data.body_flow import BodyGenerator, mesh_size, surface_sample
from halfwave.data.generator import Arrays
from halfwave.data.lofted_body import LoftedBody

STANDARD_AHMED = {"slant_angle": 25.0, "length": 1.044, "width": 0.389, "height": 0.288, "clearance": 0.05}
"""The body of Ahmed, Ramm and Faltin (1984): degrees and metres."""

RANGES: dict[str, tuple[float, float]] = {
    "slant_angle": (0.0, 40.0),
    "length": (0.85, 1.25),
    "width": (0.32, 0.46),
    "height": (0.24, 0.34),
    "clearance": (0.03, 0.08),
    "velocity": (10.0, 70.0),
}
"""Ranges of the uniform laws: degrees, metres, m/s."""

SLANT_LENGTH = 0.222
NOSE_RADIUS = 0.1
EDGE_RADIUS = 0.02


@dataclass(frozen=True)
class Ahmed(BodyGenerator):
    """(geometry, inlet velocity) -> surface pressure of an Ahmed body over flat ground, without its stilts.

    Potential flow (see `panel_method`), not the paper's RANS: the flow follows the slant and closes behind the base.
    Rear and side edges, sharp on the real body, have a radius of 2 cm, since potential flow is singular at an edge.
    Pressure is exactly proportional to velocity squared. A cloud finer than 3,586 points is interpolated from the
    solution on that many (see `body_flow`).
    """

    points: int = 100_000

    name: ClassVar[str] = "ahmed"
    ranges: ClassVar[dict[str, tuple[float, float]]] = RANGES
    equation: ClassVar[str] = (
        "Lap phi = 0 outside the body, d phi/dn = 0 on it and the ground; geometry, V -> pressure (Pa)"
    )

    def __post_init__(self) -> None:
        mesh_size(self.points)

    def sample(self, seed: int, split: str, index: int) -> Arrays:
        parameters = self.draw(seed, split, index)
        geometry = {name: value for name, value in parameters.items() if name != "velocity"}
        return surface_sample(ahmed_body(**geometry), self.points, parameters["velocity"], list(parameters.values()))


def ahmed_body(*, slant_angle: float, length: float, width: float, height: float, clearance: float) -> LoftedBody:
    """A box with a round nose whose roof falls by `slant_angle` degrees over its last 222 mm (along the slant)."""
    slope = math.tan(math.radians(slant_angle))
    start = length - SLANT_LENGTH * math.cos(math.radians(slant_angle))

    def profile(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        bottom = np.full_like(x, clearance)
        return bottom, clearance + height - slope * np.clip(x - start, 0, None), np.full_like(x, width / 2)

    return LoftedBody(length, profile, nose_radius=NOSE_RADIUS, tail_radius=EDGE_RADIUS, corner_radius=EDGE_RADIUS)
