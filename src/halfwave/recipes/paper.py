"""The paper's settings, each once: with the line of `paper.tex` that states it, or with the reason of our choice.

*Guaranteed Approximation Bounds for Mixed-Precision Neural Operators* (Tu et al., ICLR 2024) names its datasets and
architectures and says 'default hyperparameters' for most of the rest. What it leaves open is chosen here, and nowhere
else: from neuraloperator's configuration files of the time where they have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Stated:
    """A value that the paper gives, in this line of `paper.tex`."""

    value: Any
    line: int


@dataclass(frozen=True)
class Chosen:
    """A value that the paper does not state, and why it is this one."""

    value: Any
    because: str


Setting = Stated | Chosen

_CONFIGURATION = "neuraloperator's configuration file of the time"
_TFNO_DEFAULT = "the default of neuraloperator's TFNO"

_PLANE: Mapping[str, Setting] = {
    "resolution": Stated(128, 291),
    "model": Stated("TFNO", 301),
    "factorization": Stated("cp", 451),
    "rank": Chosen(0.1, _TFNO_DEFAULT),
    "n_modes": Chosen([64, 64], f"{_CONFIGURATION}; half of the grid, and the paper says a third to two thirds"),
    "hidden_channels": Chosen(64, _CONFIGURATION),
    "n_layers": Chosen(4, f"{_CONFIGURATION}; the label of the table in line 1390 suggests 8 for one of them"),
    "projection_channel_ratio": Chosen(4, f"{_CONFIGURATION}, 256 channels"),
    "epochs": Stated(500, 1379),
    "loss": Chosen("h1", "the curves of line 375 are of H1, which neuraloperator trains with"),
    "unet_channels": Chosen(64, "the width of the original U-Net"),
    "unet_levels": Chosen(4, "the depth of the original U-Net"),
    "unet_learning_rate": Chosen(1e-3, "a usual value for AdamW"),
}
_BODY: Mapping[str, Setting] = {
    "model": Stated("GINO", 301),
    "latent_resolution": Stated(64, 298),
    "batch_size": Stated(1, 1213),
    "fno_n_modes": Chosen([16, 16, 16], f"{_CONFIGURATION} of the car"),
    "fno_hidden_channels": Chosen(64, f"{_CONFIGURATION} of the car"),
    "fno_n_layers": Chosen(4, f"{_CONFIGURATION} of the car"),
    "fno_factorization": Chosen("tucker", f"{_CONFIGURATION} of the car"),
    "fno_rank": Chosen(0.4, f"{_CONFIGURATION} of the car"),
    "fno_channel_mlp_expansion": Chosen(1.0, f"{_CONFIGURATION} of the car"),
    "in_gno_radius": Chosen(0.033, f"{_CONFIGURATION} of the car"),
    "out_gno_radius": Chosen(0.033, f"{_CONFIGURATION} of the car"),
    "in_gno_pos_embed_type": Chosen("nerf", f"{_CONFIGURATION} of the car"),
    "out_gno_pos_embed_type": Chosen("nerf", f"{_CONFIGURATION} of the car"),
    "gno_embed_channels": Chosen(16, f"{_CONFIGURATION} of the car"),
    "epochs": Chosen(500, "as on the other problems"),
    "learning_rate": Chosen(1e-3, "a usual value for AdamW"),
    "loss": Stated("l2", 375),
}

PAPER: Mapping[str, Mapping[str, Setting]] = {
    "navier-stokes": {
        **_PLANE,
        "n_train": Stated(10_000, 291),
        "n_test": Stated(2000, 291),
        "batch_size": Chosen(8, _CONFIGURATION),
        "learning_rate": Chosen(3e-4, _CONFIGURATION),
    },
    "darcy": {
        **_PLANE,
        "resolution": Stated(128, 293),
        "n_train": Stated(5000, 293),
        "n_test": Stated(1000, 293),
        "batch_size": Chosen(16, "half of what neuraloperator trains its small Darcy data with, at twice the side"),
        "learning_rate": Chosen(1e-3, "a usual value for AdamW"),
    },
    "shallow-water": {
        "resolution": Stated(256, 294),
        "n_train": Stated(120, 294),
        "n_test": Stated(20, 294),
        "live": Stated(True, 294),
        "model": Stated("SFNO", 301),
        "n_modes": Chosen([256, 256], "all degrees of the grid, as in neuraloperator's example"),
        "hidden_channels": Chosen(32, "neuraloperator's example"),
        "n_layers": Chosen(4, "neuraloperator's example"),
        "batch_size": Chosen(4, "neuraloperator's example"),
        "epochs": Chosen(500, "as on the other problems"),
        "learning_rate": Chosen(1e-3, "a usual value for AdamW"),
        "loss": Stated("l2", 375),
    },
    "car": {
        **_BODY,
        "n_train": Stated(500, 297),
        "n_test": Stated(111, 297),
        "points": Chosen(3586, "the points of a car in the dataset of Umetani and Bickel, which line 296 cites"),
    },
    "ahmed": {
        **_BODY,
        "n_train": Stated(500, 297),
        "n_test": Stated(51, 297),
        "points": Stated(100_000, 1206),
    },
}
HALF_FORMAT: Setting = Chosen("fp16", "'half precision' on the paper's GPUs, whose FFT has no bf16")
HALF: str = HALF_FORMAT.value
"""What half means in the paper, and so in every experiment that does not compare formats."""


# What the paper prints of memory, in MB; lines of paper.tex.
OPTION_MB: Mapping[str, float] = {"A": 10310.0, "B": 5048.0, "C": 4832.0}
"""Options of complex contractions on Navier-Stokes (line 1507)."""
PATH_MB: Mapping[str, tuple[float, float]] = {"car": (7906.0, 8662.0), "ahmed": (11990.0, 13610.0)}
"""With the memory-greedy path, and with opt_einsum's default (line 1530)."""
WEIGHTS_MB: Mapping[str, tuple[float, float]] = {"darcy": (7550.0, 8166.0), "navier-stokes": (4832.0, 9380.0)}
"""Weights and inputs of the contraction in half, and weights only (line 1540)."""
BLOCK_MB: Mapping[str, float] = {
    "FFF": 8870.0, "FFH": 8908.0, "FHF": 8614.0, "FHH": 8658.0, "HFF": 7824.0, "HFH": 8004.0, "HHF": 7558.0,
    "HHH": 7550.0,
}  # fmt: skip
"""Forward transform, contraction and inverse in full or half, on Darcy flow (line 1312)."""
METHOD_MB: Mapping[tuple[str, str], float] = {
    ("navier-stokes", "mixed"): OPTION_MB["C"],
    ("darcy", "full"): BLOCK_MB["FFF"],
    ("darcy", "half"): BLOCK_MB["HHH"],
    ("car", "mixed"): PATH_MB["car"][0],
    ("ahmed", "mixed"): PATH_MB["ahmed"][0],
}
"""Of the memory figure, which has no numbers, those that the other tables print."""
SAVED: Mapping[tuple[str, str], float] = {
    ("navier-stokes", "FNO"): 50.4,
    ("navier-stokes", "UNet"): 20.9,
    ("darcy", "FNO"): 25.8,
    ("darcy", "UNet"): 24.9,
}
"""Percent of full precision's memory that mixed (FNO) and AMP (U-Net) save (line 431)."""


def paper_setting(problem: str, name: str) -> Any:
    """The value of one setting; KeyError where the paper's problem has no such setting."""
    return PAPER[problem][name].value


def paper_settings(problem: str, *names: str) -> dict[str, Any]:
    """Several of them, by name."""
    return {name: paper_setting(problem, name) for name in names}
