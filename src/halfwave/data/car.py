"""Cars in a wind of 20 m/s: parametric bodies with hood, cabin and tail, and the pressure on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from halfwave.data.body_flow import BodyGenerator, mesh_size, surface_sample
from halfwave.data.generator import Arrays
from halfwave.data.lofted_body import LoftedBody
from halfwave.errors import InputError

RANGES: dict[str, tuple[float, float]] = {
    "length": (3.8, 5.0),
    "width": (1.65, 2.0),
    "clearance": (0.14, 0.26),
    "hood_height": (0.78, 1.0),
    "hood_length": (0.18, 0.28),
    "windshield_length": (0.10, 0.22),
    "roof_height": (1.3, 1.75),
    "rear_length": (0.10, 0.24),
    "trunk_length": (0.02, 0.14),
    "trunk_height": (0.85, 1.15),
    "lean": (0.08, 0.25),
}
"""Ranges of the uniform laws: metres, or shares of the length (`*_length` but the first) and of the width (`lean`)."""


@dataclass(frozen=True)
class Car(BodyGenerator):
    """geometry -> surface pressure of a car-like body in a wind of `speed` m/s over flat ground.

    The bodies are watertight, symmetric and without wheels; the flow is potential flow (see `panel_method`), which
    resembles the paper's RANS pressures at the nose, hood, windshield and roof and not behind the car.
    Samples are point clouds of `points` mesh vertices (3,586 by default, as in the ShapeNet car data).
    """

    points: int = 3586
    speed: float = 20.0

    name: ClassVar[str] = "car"
    ranges: ClassVar[dict[str, tuple[float, float]]] = RANGES
    equation: ClassVar[str] = (
        "Lap phi = 0 outside the body, d phi/dn = 0 on it and on the ground; geometry -> pressure (Pa)"
    )

    def __post_init__(self) -> None:
        mesh_size(self.points)
        if self.speed <= 0:
            raise InputError(f"speed is {self.speed}; it must be positive")

    def sample(self, seed: int, split: str, index: int) -> Arrays:
        parameters = self.draw(seed, split, index)
        return surface_sample(car_body(**parameters), self.points, self.speed, list(parameters.values()))


def car_body(
    *,
    length: float,
    width: float,
    clearance: float,
    hood_height: float,
    hood_length: float,
    windshield_length: float,
    roof_height: float,
    rear_length: float,
    trunk_length: float,
    trunk_height: float,
    lean: float,
) -> LoftedBody:
    """Hood, windshield, roof, rear window and trunk as one smooth roof line; the cabin leans inwards."""
    cabin_start = hood_length * length
    roof_end = (1 - trunk_length - rear_length) * length

    def cabin(x: np.ndarray) -> np.ndarray:
        """0 on hood and trunk, 1 on the roof."""
        rise = smooth_step((x - cabin_start) / (windshield_length * length))
        return rise * (1 - smooth_step((x - roof_end) / (rear_length * length)))

    def profile(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shoulder = hood_height + (trunk_height - hood_height) * smooth_step(x / length)
        # The hood falls by an eighth towards the nose, and the floor rises a little at both ends.
        shoulder = shoulder * (1 - 0.125 * (1 - smooth_step(x / cabin_start)))
        top = shoulder + (roof_height - shoulder) * cabin(x)
        ends = (2 * x / length - 1) ** 6
        return clearance + 0.08 * ends, top, width / 2 * (1 - 0.10 * ends)

    def narrowing(x: np.ndarray, t: np.ndarray) -> np.ndarray:
        return 1 - lean * cabin(x) * smooth_step((t - 0.4) / 0.6)

    return LoftedBody(length, profile, nose_radius=0.35, tail_radius=0.25, corner_radius=0.25, lean=narrowing)


def smooth_step(t: np.ndarray) -> np.ndarray:
    """0 for t <= 0, 1 for t >= 1, twice differentiable between."""
    t = np.clip(t, 0, 1)
    return t**3 * (10 - 15 * t + 6 * t**2)
