"""Problems on which a half-precision FFT may overflow: the paper's own grids, and Darcy flow with its permeability as
it is.

An unnormalised FFT of N points adds up to N max|v|, and fp16 ends at 65504: means of 1 overflow on 256 x 256. The
permeability is 3 or 12, so the first layers hand means of 2 or 3 to the transform and 160 x 160 is enough; fields that
were normalised have means of about 0 and need finer grids than two cores can train on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from halfwave.experiments.experiment import Scale
from halfwave.experiments.lab import Training
from halfwave.recipes import HALF, Recipe, paper_setting, problem

_NARROW: Mapping[Scale, dict[str, Any]] = {
    "smoke": {"n_modes": [8, 8], "hidden_channels": 16, "n_layers": 1},
    "small": {"n_modes": [16, 16], "hidden_channels": 16, "n_layers": 4},
}
_SAMPLES: Mapping[Scale, tuple[int, int]] = {"smoke": (3, 1), "small": (12, 2)}
ROUNDED = {"dtype": HALF, "backend": "fft"}
"""A half-precision FFT, as the paper's."""


def raw_darcy(scale: Scale, resolution: int, samples: tuple[int, int] | None = None, epochs: int = 1) -> Recipe:
    """Darcy flow without normalizers; at `paper` its own data and model, below it a few samples and a narrow model."""
    recipe = _few("darcy", scale, resolution, samples, epochs)
    name = f"darcy-raw-{resolution}-{scale}"
    return replace(recipe, name=name, training={**recipe.training, "normalise": False})


def on_paper_grid(name: str, scale: Scale, samples: tuple[int, int] | None = None, epochs: int = 1) -> Recipe:
    """A problem on the paper's grid, normalised as usual; below scale paper a few samples and a narrow model."""
    return _few(name, scale, paper_setting(name, "resolution"), samples, epochs)


def _few(name: str, scale: Scale, resolution: int, samples: tuple[int, int] | None, epochs: int) -> Recipe:
    paper = problem(name, "paper")
    recipe = replace(
        paper,
        name=f"{name}-{resolution}-{scale}",
        title=f"{paper.title}, {resolution} points a side, {scale}",
        parameters={"resolution": resolution},
        training={**paper.training, "epochs": epochs},
    )
    sizes = samples or _SAMPLES.get(scale, (paper.n_train, paper.n_test))
    if scale != "paper":
        training = {"batch_size": 1, "learning_rate": 5e-3, "loss": "l2", "checkpoint_every": 1000, "epochs": epochs}
        recipe = replace(recipe, model="FNO", arguments=_NARROW[scale], training=training)
    return replace(recipe, n_train=sizes[0], n_test=sizes[1], scale=scale)


def half_training(recipe: Recipe, stabilizer: str = "none", seed: int = 0, **changes: Any) -> Training:
    """Everything in fp16 with the fft backend, before whose transform `stabilizer` acts."""
    return Training(recipe, "mixed", seed, {**ROUNDED, "stabilizer": stabilizer, **changes})
