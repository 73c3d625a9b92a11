"""The page's model on varied media: fields of many scales, discs, bars and brush strokes, contrast 4.

    python examples/varied_page.py                     # data, training, and varied/operator.html
    python examples/varied_page.py --train 200 --epochs 1

What people draw is not a draw of the random field of `Darcy`. This model has seen shapes: 1.4% off on test media, and 4
to 6% on drawings of kinds that it has not seen (a ring, a chequerboard, a letter), which are measured at the end.
It also shows how a dataset of one's own is declared: a frozen dataclass, known to nobody but this script.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

import halfwave as hw
from halfwave.data import Darcy, generate
from halfwave.data.elliptic import solve_elliptic
from halfwave.data.generator import Arrays, sample_rng
from halfwave.domains import Box


@dataclass(frozen=True)
class VariedDarcy:
    """-div(a grad u) = 1 with a of two values: by turns a random field, and shapes on one (or on nothing)."""

    resolution: int = 32
    high: float = 12.0
    low: float = 3.0

    name: ClassVar[str] = "darcy-varied"
    chunk: ClassVar[int] = 64
    channels: ClassVar[tuple[int, int]] = (1, 1)

    @property
    def domain(self) -> Box:
        return Box((1.0, 1.0), "nodes")

    def describe(self) -> dict[str, Any]:
        equation = Darcy().describe()["equation"]
        return {"equation": equation, "parameters": asdict(self), "resolution": [self.resolution] * 2}

    def samples(self, seed: int, split: str, indices: Sequence[int]) -> list[Arrays]:
        return [self._solved(self.medium(sample_rng(seed, split, index))) for index in indices]

    def _solved(self, is_high: np.ndarray) -> Arrays:
        a = np.where(is_high, self.high, self.low)
        u = solve_elliptic(a, np.ones_like(a))
        return {"x": a[None].astype(np.float32), "y": u[None].astype(np.float32)}

    def medium(self, rng: np.random.Generator) -> np.ndarray:
        """Where a is high: a third fields alone, a third shapes alone, a third shapes on a field."""
        kind = rng.integers(3)
        found = _field(rng, self.resolution) if kind != 1 else np.full((self.resolution,) * 2, rng.random() < 0.5)
        if kind != 0:
            for _ in range(rng.integers(1, 6)):
                found = np.where(_shape(rng, self.resolution), rng.random() < 0.5, found)
        return found


def _field(rng: np.random.Generator, n: int) -> np.ndarray:
    """A random field of a random length, cut at a random share."""
    law = replace(Darcy().field, tau=float(rng.uniform(2, 12)), modes=32)
    drawn = law.sample(rng, n)
    return np.asarray(drawn >= np.quantile(drawn, rng.uniform(0.1, 0.9)))


def _shape(rng: np.random.Generator, n: int) -> np.ndarray:
    """A disc, a bar or a brush stroke, anywhere."""
    y, x = np.mgrid[:n, :n]
    kind, (row, column) = rng.integers(3), rng.uniform(0, n, 2)
    if kind == 0:
        return np.asarray((y - row) ** 2 + (x - column) ** 2 <= rng.uniform(1, n / 3) ** 2)
    if kind == 1:
        height, width = rng.uniform(1, n / 2, 2)
        return np.asarray((abs(y - row) <= height) & (abs(x - column) <= width / 4))
    radius, found = rng.uniform(0, 5), np.zeros((n, n), bool)
    angle = rng.uniform(0, 2 * np.pi)
    for _ in range(rng.integers(5, 30)):
        found |= (y - row) ** 2 + (x - column) ** 2 <= radius**2 + 0.5
        row, column, angle = row + np.sin(angle), column + np.cos(angle), angle + rng.normal(0, 0.3)
    return found


def unseen(n: int) -> dict[str, np.ndarray]:
    """Drawings of kinds that are in no training sample."""
    y, x = np.mgrid[:n, :n] / (n - 1) - 0.5
    letter = (abs(abs(x) - 0.2) < 0.06) & (abs(y) < 0.32) | (abs(y) < 0.06) & (abs(x) < 0.2)
    return {
        "a ring": abs(np.hypot(x, y) - 0.3) < 0.06,
        "a chequerboard": (np.floor(8 * x) + np.floor(8 * y)) % 2 == 0,
        "the letter H": letter,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("varied"))
    parser.add_argument("--train", type=int, default=1600, help="media to train on")
    parser.add_argument("--epochs", type=int, default=20)
    given = parser.parse_args(arguments)
    law = VariedDarcy()
    data = generate(law, given.out / "darcy-varied.h5", n_train=given.train, n_test=64)
    run = hw.train(
        data=data, model="FNO", arguments={"n_modes": (16, 16), "hidden_channels": 24, "n_layers": 4},
        epochs=given.epochs, learning_rate=4e-3, scheduler="one-cycle", batch_size=16, precision="full",
        run_dir=given.out / "run",
    )  # fmt: skip
    print(f"test media: relative L2 {run.l2_full:.2%}")
    operator = hw.load(given.out / "run")
    for name, is_high in unseen(law.resolution).items():
        x, y = (torch.from_numpy(value)[None] for value in law._solved(is_high).values())
        with torch.no_grad():
            print(f"{name}: {float((operator(x) - y).norm() / y.norm()):.2%}")
    print(hw.export(given.out / "run", given.out / "operator.html", weights="fp16", policy="full"))


if __name__ == "__main__":
    main()
