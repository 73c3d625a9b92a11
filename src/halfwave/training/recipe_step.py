"""The training step of a recipe, without a run: what `halfwave profile` and the experiment of that name measure."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from halfwave.data import generate, open_any
from halfwave.measure import TrainingStep
from halfwave.models import build_model, set_precision
from halfwave.numerics import describe_cpu
from halfwave.optimizers import build_optimizer
from halfwave.precision import Policy
from halfwave.recipes import Recipe
from halfwave.training.clouds import Clouds, Inputs, Targets
from halfwave.training.config import TrainConfig
from halfwave.training.losses import Loss, build_loss
from halfwave.training.problem import AnyDataset, build_operator, check_modes_fit, problem_of

_Parts = tuple[nn.Module, Loss, tuple[Inputs, Targets], tuple[int, ...]]


def build_recipe_step(
    recipe: Recipe,
    *,
    precision: str | Policy = "mixed",
    batch: int | None = None,
    grid: int | None = None,
    device: torch.device | str = "cpu",
    dataset: AnyDataset | None = None,
) -> TrainingStep:
    """The training step of a recipe: on random fields, as its cost does not depend on what fields hold, or on bodies.

    `grid` is the resolution of the recipe's generator (points a side, or latitudes), on point clouds that of the latent
    grid; `batch` the samples; `dataset` has the bodies where they are not a generator's. InputError for sizes that the
    model cannot take.
    """
    config = TrainConfig.of(recipe, recipe.generator or recipe.name, **({} if batch is None else {"batch_size": batch}))
    if recipe.domain.has_grid:
        model, loss, example, sides = _on_fields(recipe, config, grid, torch.device(device))
    else:
        model, loss, example, sides = _on_clouds(recipe, config, grid, torch.device(device), dataset)
    policy = precision if isinstance(precision, Policy) else Policy.named(precision, device=device)
    set_precision(model, policy)
    setting = {
        "recipe": recipe.name,
        "model": recipe.model,
        "policy": policy.to_dict(),
        "grid": list(sides),
        "batch": config.batch_size,
        "device": str(torch.device(device)),
        "machine": torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else describe_cpu(),
        "torch": torch.__version__,
    }
    optimizer = build_optimizer(config.optimizer, model, config.learning_rate, config.weight_decay)
    return TrainingStep(model, loss, optimizer, example, setting)


def _on_fields(recipe: Recipe, config: TrainConfig, grid: int | None, device: torch.device) -> _Parts:
    """Model, loss, a batch of random fields, and the grid."""
    x_shape, y_shape = recipe.sample_shapes(grid)
    sides = x_shape[1:]
    check_modes_fit(recipe.arguments.get("n_modes"), sides, "n_modes")
    model = build_model(config.model, config.model_arguments(x_shape[0], y_shape[0])).to(device)
    x, y = (torch.randn(config.batch_size, *shape, device=device) for shape in (x_shape, y_shape))
    return model, build_loss(config.loss, recipe.domain), (x, y), sides


def _on_clouds(
    recipe: Recipe, config: TrainConfig, grid: int | None, device: torch.device, dataset: AnyDataset | None
) -> _Parts:
    """Operator, loss, a batch of real bodies (neighbourhoods decide the cost), and the latent grid."""
    if grid is not None:
        config = config.model_copy(update={"latent_resolution": grid})
    with TemporaryDirectory() as folder:
        if dataset is None:
            path = Path(folder) / "bodies.h5"
            dataset = open_any(generate(recipe.build_generator(), path, n_train=config.batch_size, n_test=1))
        problem = problem_of(dataset)
        problem.check(config)
        operator = build_operator(config, dataset).to(device)
        x, y = problem.samples(config, operator)[0][: config.batch_size]
    sides = tuple(x.latent_queries.shape[:3]) if isinstance(x, Clouds) else ()
    return operator, problem.loss(config), (x.to(device), y.to(device)), sides
