"""The paper's five problems, and what users train by name, at every scale.

`paper` is the paper's setting (`recipes.paper`); `standard` a training of minutes; `small` one of 10 to 20 seconds on
two cores; `smoke` one of a second or two, which shows that everything runs and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from halfwave.recipes.paper import paper_setting, paper_settings
from halfwave.recipes.recipe import Recipe, get_recipe, register_recipe

TITLES = {
    "navier-stokes": "Navier-Stokes",
    "darcy": "Darcy flow",
    "shallow-water": "shallow water",
    "car": "Shape-Net Car",
    "ahmed": "Ahmed body",
    "darcy-1d": "Darcy flow on a line",
}
PROBLEMS = ("navier-stokes", "darcy", "shallow-water", "car", "ahmed")
LINE = "darcy-1d"
"""Of our own: a problem on a line, cheap enough to be trained to a small error."""
UNET_PROBLEMS = ("navier-stokes", "darcy")
"""Those on which the paper compares with a U-Net: each has a problem NAME-unet beside it."""

_SMALL_FNO = {"n_modes": [16, 16], "hidden_channels": 24, "n_layers": 4}
_SMOKE_FNO = {"n_modes": [8, 8], "hidden_channels": 8, "n_layers": 2}
_FNO_ARGUMENTS = ("n_modes", "hidden_channels", "n_layers", "projection_channel_ratio", "factorization", "rank")
_GINO_ARGUMENTS = (
    "fno_n_modes",
    "fno_hidden_channels",
    "fno_n_layers",
    "fno_factorization",
    "fno_rank",
    "fno_channel_mlp_expansion",
    "in_gno_radius",
    "out_gno_radius",
    "in_gno_pos_embed_type",
    "out_gno_pos_embed_type",
    "gno_embed_channels",
)
# Kernels of the size of the problem. Radii are some two latent spacings: a point of the surface then has a dozen latent
# points or more around it.
_SMALL_GINO: Mapping[str, Any] = {
    "fno_n_modes": [8, 8, 8],
    "fno_hidden_channels": 16,
    "fno_n_layers": 3,
    "in_gno_radius": 0.15,
    "out_gno_radius": 0.15,
    "gno_embed_channels": 8,
    "in_gno_channel_mlp_hidden_layers": [16, 16],
    "out_gno_channel_mlp_hidden_layers": [32, 16],
    "out_gno_reduction": "mean",
}
_SMOKE_GINO: Mapping[str, Any] = {
    **_SMALL_GINO,
    "fno_n_modes": [4, 4, 4],
    "fno_hidden_channels": 8,
    "fno_n_layers": 2,
    "in_gno_radius": 0.3,
    "out_gno_radius": 0.3,
}
_STANDARD_GINO: Mapping[str, Any] = {
    **_SMALL_GINO,
    "fno_hidden_channels": 24,
    "in_gno_radius": 0.12,
    "out_gno_radius": 0.12,
    "gno_embed_channels": 16,
    "in_gno_channel_mlp_hidden_layers": [32, 32],
    "out_gno_channel_mlp_hidden_layers": [64, 32],
}
_SMOKE_TRAINING = {"epochs": 2, "batch_size": 8, "learning_rate": 5e-3}
_SMALL_TRAINING = {"epochs": 15, "batch_size": 16, "learning_rate": 5e-3, "checkpoint_every": 5}


def _declare(
    problem: str,
    scale: str,
    title: str,
    model: str,
    arguments: Mapping[str, Any],
    parameters: Mapping[str, Any],
    samples: tuple[int, int],
    training: Mapping[str, Any],
    *,
    name: str | None = None,
    live: bool = False,
) -> None:
    register_recipe(
        Recipe(
            name or (problem if scale == "standard" else f"{problem}-{scale}"),
            title,
            model,
            arguments,
            problem.removesuffix("-unet").removesuffix("-1d"),
            parameters,
            *samples,
            training,
            live,
            problem,
            scale,
        )
    )


def _paper_training(problem: str, *more: str) -> dict[str, Any]:
    return paper_settings(problem, "epochs", "batch_size", "learning_rate", "loss", *more)


def _paper_samples(problem: str) -> tuple[int, int]:
    return paper_setting(problem, "n_train"), paper_setting(problem, "n_test")


def _darcy() -> None:
    training = {"epochs": 20, "batch_size": 16, "learning_rate": 2e-3, "loss": "h1"}
    _declare(
        "darcy", "standard", "Darcy 64x64, 32 modes, 32 channels: minutes", "FNO",
        {"n_modes": [32, 32], "hidden_channels": 32, "n_layers": 4}, {"resolution": 64}, (1000, 200), training,
    )  # fmt: skip
    _declare(
        "darcy", "demo", "what `halfwave demo` trains: Darcy 64x64, a small FNO", "FNO",
        {"n_modes": [24, 24], "hidden_channels": 32, "n_layers": 4}, {"resolution": 64}, (400, 80),
        {"epochs": 10, "batch_size": 32, "learning_rate": 5e-3, "loss": "l2"}, name="demo",
    )  # fmt: skip
    _on_a_square("darcy", {"smoke": (16, 4), "small": (200, 50)}, {"smoke": {}, "small": {}}, {})


def _navier_stokes() -> None:
    """Below the paper's scale solved on 64 x 64 at least, so that coarse and fine data are of one operator.

    64 x 64 is 0.3% from the solution on 128 x 128, 32 x 32 3.3%.
    """
    _declare(
        "navier-stokes", "standard", "Navier-Stokes 64x64, a small TFNO: minutes", "TFNO",
        {"n_modes": [32, 32], "hidden_channels": 32, "n_layers": 4, "factorization": "cp", "rank": 0.1},
        {"resolution": 64}, (400, 80), {"epochs": 20, "batch_size": 8, "learning_rate": 2e-3, "loss": "h1"},
    )  # fmt: skip
    solved = {"smoke": {"solve_resolution": 32}, "small": {"solve_resolution": 64}}
    # Of more samples than Darcy flow's.
    _on_a_square("navier-stokes", {"smoke": (16, 4), "small": (320, 50)}, solved, {"epochs": 12})


def _on_a_square(
    name: str,
    samples: Mapping[str, tuple[int, int]],
    solved: Mapping[str, Mapping[str, int]],
    small: Mapping[str, Any],
) -> None:
    """smoke, small and paper of a problem on a square with the paper's TFNO; below its size the weights are dense."""
    title = TITLES[name]
    for scale, resolution, arguments, training in (
        ("smoke", 16, _SMOKE_FNO, _SMOKE_TRAINING),
        ("small", 32, _SMALL_FNO, {**_SMALL_TRAINING, **small}),
    ):
        _declare(
            name, scale, f"{title} at scale {scale}", "FNO", arguments,
            {"resolution": resolution, **solved[scale]}, samples[scale], {**training, "loss": "h1"},
        )  # fmt: skip
    _declare(
        name, "paper", f"{title} 128x128 at the paper's size, CP weights", paper_setting(name, "model"),
        paper_settings(name, *_FNO_ARGUMENTS), paper_settings(name, "resolution"), _paper_samples(name),
        _paper_training(name),
    )  # fmt: skip


def _unets() -> None:
    """The paper's comparison: the same data and loss, at a learning rate that suits a U-Net."""
    training = {"epochs": 20, "batch_size": 16, "learning_rate": 1e-3, "loss": "l2"}
    _declare(
        "darcy-unet", "standard", "Darcy 64x64, the U-Net of the paper's comparison", "UNet",
        {"hidden_channels": 16, "n_levels": 4}, {"resolution": 64}, (1000, 200), training,
    )  # fmt: skip
    for name in UNET_PROBLEMS:
        for scale in ("smoke", "small", "paper"):
            like = get_recipe(f"{name}-{scale}")
            training = {**like.training, "learning_rate": paper_setting(name, "unet_learning_rate")}
            _declare(
                f"{name}-unet", scale, f"{TITLES[name]} at scale {scale}, a U-Net", "UNet",
                _unet_arguments(name, scale), like.parameters, (like.n_train, like.n_test), training,
            )  # fmt: skip


def _unet_arguments(name: str, scale: str) -> dict[str, Any]:
    if scale == "smoke":
        return {"hidden_channels": 4, "n_levels": 2}
    if scale == "small":
        return {"hidden_channels": 16, "n_levels": 3}
    return {
        "hidden_channels": paper_setting(name, "unet_channels"),
        "n_levels": paper_setting(name, "unet_levels"),
    }


def _shallow_water() -> None:
    """The fields are normalised by the law that they are drawn from."""
    as_drawn = {"loss": "l2", "normalise": False}
    _declare(
        "shallow-water", "standard", "shallow water on the sphere, 32x64, a small SFNO: minutes", "SFNO",
        {"n_modes": [32, 64], "hidden_channels": 32, "n_layers": 4}, {"resolution": 32}, (120, 20),
        {"epochs": 20, "batch_size": 8, "learning_rate": 2e-3, **as_drawn}, live=True,
    )  # fmt: skip
    _declare(
        "shallow-water", "smoke", "shallow water at scale smoke", "SFNO",
        {"n_modes": [8, 8], "hidden_channels": 8, "n_layers": 2}, {"resolution": 16}, (8, 2),
        {**_SMOKE_TRAINING, "batch_size": 4, **as_drawn},
    )  # fmt: skip
    _declare(
        "shallow-water", "small", "shallow water at scale small", "SFNO",
        {"n_modes": [32, 32], "hidden_channels": 24, "n_layers": 4}, {"resolution": 32}, (60, 20),
        {**_SMALL_TRAINING, "batch_size": 4, **as_drawn},
    )  # fmt: skip
    _declare(
        "shallow-water", "paper", "shallow water 256x512 at the paper's size", "SFNO",
        paper_settings("shallow-water", "n_modes", "hidden_channels", "n_layers"),
        paper_settings("shallow-water", "resolution"), _paper_samples("shallow-water"),
        {**_paper_training("shallow-water"), **as_drawn}, live=paper_setting("shallow-water", "live"),
    )  # fmt: skip


def _bodies() -> None:
    """Pressure on the surface of bodies, of an Ahmed body in a wind of its own."""
    wind = {"features": ["velocity"]}
    standard = {"epochs": 30, "batch_size": 4, "learning_rate": 4e-3, "latent_resolution": 16}
    small = {**_SMALL_TRAINING, "epochs": 12, "batch_size": 4, "loss": "l2", "latent_resolution": 12}
    _body("car", "pressure on cars", (200, 600), standard, small, {})
    # Pressures differ by the square of the wind, 49-fold: seeds differ by 15% after the 12 epochs that cars take.
    slow = {**small, "epochs": 24, "learning_rate": 3e-3}
    _body("ahmed", "pressure on Ahmed bodies", (300, 600), standard, slow, wind)


def _body(
    name: str,
    title: str,
    points: tuple[int, int],
    standard: Mapping[str, Any],
    small: Mapping[str, Any],
    more: Mapping[str, Any],
) -> None:
    smoke = {**_SMOKE_TRAINING, "batch_size": 1, "loss": "l2", "latent_resolution": 6}
    for scale, arguments, count, samples, training, text in (
        ("standard", _STANDARD_GINO, 1000, (100, 20), standard, "1,000 points, a small GINO: minutes"),
        ("smoke", _SMOKE_GINO, points[0], (4, 2), smoke, "at scale smoke"),
        ("small", _SMALL_GINO, points[1], (64, 16), small, "at scale small"),
        (
            "paper", paper_settings(name, *_GINO_ARGUMENTS), paper_setting(name, "points"), _paper_samples(name),
            _paper_training(name, "latent_resolution"),
            f"at the paper's size, {paper_setting(name, 'points'):,} points",
        ),
    ):  # fmt: skip
        _declare(name, scale, f"{title}, {text}", "GINO", arguments, {"points": count}, samples, {**training, **more})


_MEDIUM_FNO = {"n_modes": [12, 12], "hidden_channels": 24, "n_layers": 4}
_MEDIUM_TRAINING = {
    "epochs": 20, "batch_size": 16, "learning_rate": 4e-3, "scheduler": "one-cycle", "loss": "l2",
    "checkpoint_every": 10, "evaluate_every": 5,
}  # fmt: skip


def _medium() -> None:
    """An easier member of each family, whose models reach an error of 1% or less: there rounding can be seen.

    Navier-Stokes for a shorter time, Darcy flow of a smaller contrast, shallow water for a quarter of an hour. Models
    are small and epochs few, so that all methods and seeds of the experiments can be trained in an evening; errors are
    still below those of a linear map on the squares (1.4% and 0.47%), and below ten times the rounding of fp16.
    """
    smooth = {"resolution": 32, "solve_resolution": 64, "time": 0.25}
    mild = {"resolution": 32, "high": 4.2, "low": 3.0}
    periodic = {**_MEDIUM_TRAINING, "augment": ["translations"]}
    square = {**_MEDIUM_TRAINING, "epochs": 36, "augment": ["reflections"]}
    _declare(
        "navier-stokes", "medium", "Navier-Stokes 32x32 at T = 0.25: an error of 0.35%", "FNO",
        _MEDIUM_FNO, smooth, (800, 100), periodic,
    )  # fmt: skip
    _declare(
        "darcy", "medium", "Darcy flow 32x32 of contrast 1.4: an error of 0.35%", "FNO",
        {**_MEDIUM_FNO, "n_layers": 3}, mild, (800, 100), square,
    )  # fmt: skip
    _declare(
        "darcy-unet", "medium", "Darcy flow 32x32 of contrast 1.4, a U-Net", "UNet",
        {"hidden_channels": 16, "n_levels": 3}, mild, (800, 100), {**square, "learning_rate": 2e-3},
    )  # fmt: skip
    _declare(
        "shallow-water", "medium", "shallow water 32x64 for 15 minutes: 1% error", "SFNO",
        {"n_modes": [24, 24], "hidden_channels": 32, "n_layers": 3}, {"resolution": 32, "hours": 0.25}, (400, 50),
        {**periodic, "epochs": 30, "batch_size": 8, "learning_rate": 3e-3, "normalise": False},
    )  # fmt: skip
    _declare(
        LINE, "medium", "Darcy flow on a line of 128 points: 0.1% error", "FNO",
        {"n_modes": [32], "hidden_channels": 32, "n_layers": 4},
        {"resolution": 128, "dim": 1, "high": 4.5, "low": 3.0}, (1000, 100), {**square, "epochs": 20},
    )  # fmt: skip


# Frequencies of 1 to 16 half-waves along the box: those of the default embedding are all below one.
_MEDIUM_GINO: Mapping[str, Any] = {
    **_SMALL_GINO,
    "fno_n_modes": [6, 6, 6],
    "fno_hidden_channels": 24,
    "in_gno_radius": 0.1,
    "out_gno_radius": 0.14,
    "in_gno_pos_embed_type": "nerf",
    "out_gno_pos_embed_type": "nerf",
    "gno_embed_channels": 5,
    "in_gno_channel_mlp_hidden_layers": [32, 32],
    "out_gno_channel_mlp_hidden_layers": [64, 32],
}


def _medium_bodies() -> None:
    """Bodies of enough shapes that a GINO can learn from them; the Ahmed body learns p/V^2.

    One seed in full precision: car 5.5% (linear map 6.8%, mean 27%), Ahmed 4.7% (12.7%, 34%).

    Each body has a box of its own, so that noses, edges and tails of all meet the same latent nodes, as the points of
    the linear predictor correspond: in the box of all bodies errors of cars are half as large again. Few points and a
    coarse latent grid buy epochs.
    """
    training = {
        "epochs": 12, "batch_size": 2, "learning_rate": 1e-2, "scheduler": "one-cycle", "loss": "l2", "own_box": True,
        "latent_resolution": 12, "checkpoint_every": 4, "evaluate_every": 2,
    }  # fmt: skip
    for name, more in (("car", {}), ("ahmed", {"speed": "velocity"})):
        _declare(
            name, "medium", f"{TITLES[name]}, 250 points, 512 shapes", "GINO", _MEDIUM_GINO,
            {"points": 250}, (512, 32), {**training, **more},
        )  # fmt: skip


for _problem in (_darcy, _navier_stokes, _unets, _shallow_water, _bodies, _medium, _medium_bodies):
    _problem()
