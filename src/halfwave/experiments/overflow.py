"""A problem on which a half-precision FFT overflows: Darcy flow with its permeability as it is.

An unnormalised FFT of N points adds up to N max|v|, and fp16 ends at 65504: means of 1 overflow on 256 x 256. The
permeability is 3 or 12, so the first layers hand means of 2 or 3 to the transform and 160 x 160 is enough; fields that
were normalised have means of about 0 and need finer grids than two cores can train on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from halfwave.experiments.experiment import Scale
from halfwave.experiments.lab import HALF, Training
from halfwave.experiments.problems import problem
from halfwave.models.recipes import Recipe

_NARROW: Mapping[Scale, dict[str, Any]] = {
    "smoke": {"n_modes": [8, 8], "hidden_channels": 16, "n_layers": 1},
    "small": {"n_modes": [16, 16], "hidden_channels": 16, "n_layers": 4},
}
_SAMPLES: Mapping[Scale, tuple[int, int]] = {"smoke": (3, 1), "small": (12, 2)}
ROUNDED = {"dtype": HALF, "backend": "fft"}
"""A half-precision FFT, as the paper's."""


def raw_darcy(scale: Scale, resolution: int, samples: tuple[int, int] | None = None, epochs: int = 1) -> Recipe:
    """Darcy flow without normalizers; at `paper` its own data and model, below it a few samples and a narrow model."""
    if scale == "paper":
        paper = problem("darcy", "paper")
        parameters, sizes = {"resolution": resolution}, samples or (paper.n_train, paper.n_test)
        return _recipe(scale, paper.arguments, parameters, sizes, {**paper.training, "epochs": epochs})
    training = {"epochs": epochs, "batch_size": 1, "learning_rate": 5e-3, "loss": "l2", "checkpoint_every": 1000}
    return _recipe(scale, _NARROW[scale], {"resolution": resolution}, samples or _SAMPLES[scale], training)


def half_training(recipe: Recipe, stabilizer: str = "none", **changes: Any) -> Training:
    """Everything in fp16 with the fft backend, before whose transform `stabilizer` acts."""
    return Training(recipe, "mixed", changes={**ROUNDED, "stabilizer": stabilizer, **changes})


def _recipe(
    scale: Scale,
    arguments: Mapping[str, Any],
    parameters: Mapping[str, Any],
    sizes: tuple[int, int],
    training: Mapping[str, Any],
) -> Recipe:
    name = f"darcy-raw-{parameters['resolution']}-{scale}"
    settings = {**training, "normalise": False}
    return Recipe(name, f"Darcy flow, not normalised, {scale}", "FNO", arguments, "darcy", parameters, *sizes, settings)
