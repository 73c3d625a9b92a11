"""Problem: a dataset as the trainer sees it, fields on a grid or point clouds, behind one door."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any, Protocol, cast

import torch
from torch import nn

from halfwave.data import (
    Dataset,
    PointDataset,
    build_generator,
    fit_normalizers,
    live_dataset,
    open_any,
)
from halfwave.domains import check_symmetries
from halfwave.errors import InputError
from halfwave.models import GINO, MODELS, GraphCache, Unrolled, build_model, under_policy
from halfwave.recipes import paper_setting
from halfwave.training.batches import Samples, held
from halfwave.training.clouds import CloudSamples, find_features, fit_clouds, latent_channels
from halfwave.training.config import LIVE, TrainConfig
from halfwave.training.in_time import PerStep, build_stepper
from halfwave.training.losses import Loss, build_loss
from halfwave.training.operator import Operator
from halfwave.training.parts import WHOLE
from halfwave.training.team import Team

AnyDataset = Dataset | PointDataset
LATENT_RESOLUTION = 16
PAPER_LIVE = (paper_setting("shallow-water", "n_train"), paper_setting("shallow-water", "n_test"))
_FOR_CLOUDS = ("latent_resolution", "features", "speed", "own_box", "area_weighted", "graph_cache")


class Problem(Protocol):
    """What training asks of a dataset."""

    def check(self, config: TrainConfig) -> None:
        """InputError for settings that cannot be honoured on this data; nothing is built yet."""
        ...

    def on(self, team: Team) -> Problem:
        """The same problem for one process of a team."""
        ...

    def model_arguments(self, config: TrainConfig) -> dict[str, Any]:
        """Arguments of the model, channels filled in from the data."""
        ...

    def operator(self, config: TrainConfig, model: nn.Module, fit: bool = True) -> Operator:
        """The model with what is fitted on the train split; without `fit`, one that only shows that the model runs."""
        ...

    def samples(self, config: TrainConfig, operator: Operator) -> tuple[Samples, Samples]:
        """Train and test batches for this operator."""
        ...

    def loss(self, config: TrainConfig, floor: float = 0.0, model: nn.Module | None = None) -> Loss:
        """The training loss of an operator's `model`; a target up to the size `floor` counts as zero."""
        ...


class GridProblem:
    """Fields on a grid, or the pieces of them that a process of a `team` has."""

    def __init__(self, dataset: Dataset, team: Team | None = None) -> None:
        self.dataset, self.team = dataset, team

    def on(self, team: Team) -> GridProblem:
        return GridProblem(self.dataset, team)

    def check(self, config: TrainConfig) -> None:
        if is_point_model(config.model):
            raise _unfit(config, self.dataset, "fields on a grid and the model takes point clouds")
        for name in _FOR_CLOUDS:
            if getattr(config, name) != TrainConfig.model_fields[name].default:
                raise InputError(f"{name} is for point clouds: {self.dataset.path} holds fields on a grid")
        check_modes_fit(config.arguments.get("n_modes"), self.dataset.grid, "n_modes")
        check_symmetries(config.augment, self.dataset.domain)
        if config.augment and self.dataset.train.windows is not None:
            raise InputError("augment does not work with a horizon: samples are windows of trajectories, leave one out")
        finest = self.dataset.test.grid[0]
        too_fine = [resolution for resolution in config.test_resolutions if not 0 < resolution <= finest]
        if too_fine:
            raise InputError(f"test resolution {too_fine[0]} is not on the test data: expected 1 to {finest}")

    def model_arguments(self, config: TrainConfig) -> dict[str, Any]:
        return config.model_arguments(*self.dataset.model_channels)

    def operator(self, config: TrainConfig, model: nn.Module, fit: bool = True) -> Operator:
        if self.dataset.train.windows is not None:
            return build_stepper(config, self.dataset, model, fit)
        if not (config.normalise and fit):
            return Operator(model, None, None)
        return Operator(model, *(fit_normalizers if self.team is None else self.team.fit)(self.dataset.train))

    def samples(self, config: TrainConfig, operator: Operator) -> tuple[Samples, Samples]:
        train, test = self.dataset.train, self.dataset.test
        if self.team is not None:
            in_memory = config.in_memory and train.lasting
            return self.team.samples(train, in_memory), self.team.samples(test, config.in_memory)
        if not config.in_memory:
            return train, test
        return held(train) if train.lasting else train, held(test)

    def loss(self, config: TrainConfig, floor: float = 0.0, model: nn.Module | None = None) -> Loss:
        part = WHOLE if self.team is None else self.team.part(self.dataset.grid)
        loss = build_loss(config.loss, self.dataset.domain, floor, part=part)
        if not isinstance(model, Unrolled):
            return loss
        return PerStep(loss, model.unrolling.channels, model)


class CloudProblem:
    """Surfaces as clouds of points, each sample with its own; the pressure on them is the answer."""

    def __init__(self, dataset: PointDataset) -> None:
        self.dataset = dataset

    def on(self, team: Team) -> CloudProblem:
        return self

    def check(self, config: TrainConfig) -> None:
        if not is_point_model(config.model):
            raise _unfit(config, self.dataset, "point clouds and the model takes fields on a grid")
        if config.mesh is not None:
            raise InputError("mesh shares fields on a grid: point clouds take strategy ddp or fsdp")
        self.loss(config)
        check_symmetries(config.augment, self.dataset.domain)
        find_features(self.dataset, config.features)
        self._speed(config)
        check_modes_fit(config.arguments.get("fno_n_modes"), (_latent(config),) * 3, "fno_n_modes")
        if config.test_resolutions:
            raise InputError("test_resolutions are for fields on a grid: point clouds have none")

    def model_arguments(self, config: TrainConfig) -> dict[str, Any]:
        latent = {"latent_feature_channels": latent_channels(len(config.features), config.own_box)}
        return latent | config.model_arguments(in_channels=3, out_channels=1)

    def operator(self, config: TrainConfig, model: nn.Module, fit: bool = True) -> Operator:
        # A new one each time: neighbourhoods in the box of one sample are of no use in that of all.
        cast(GINO, model).cache = GraphCache() if config.graph_cache is None else GraphCache(config.graph_cache << 20)
        features = find_features(self.dataset, config.features)
        samples = self.dataset.train if fit else [self.dataset.train[0]]
        encoder, normalizer = fit_clouds(samples, _latent(config), features, self._speed(config), config.own_box)
        if not config.normalise:
            return Operator(model, None, None, replace(encoder, normalizer=None))
        return Operator(model, None, normalizer, encoder)

    def _speed(self, config: TrainConfig) -> int | None:
        return None if config.speed is None else find_features(self.dataset, [config.speed])[0]

    def samples(self, config: TrainConfig, operator: Operator) -> tuple[Samples, Samples]:
        assert operator.encoder is not None, "an operator on clouds has an encoder"
        train, test = (
            CloudSamples(split, operator.encoder, config.in_memory) for split in (self.dataset.train, self.dataset.test)
        )
        return train, test

    def loss(self, config: TrainConfig, floor: float = 0.0, model: nn.Module | None = None) -> Loss:
        return build_loss(config.loss, self.dataset.domain, floor, config.area_weighted)


def problem_of(dataset: AnyDataset) -> Problem:
    """The problem of a dataset of either kind."""
    return CloudProblem(dataset) if isinstance(dataset, PointDataset) else GridProblem(dataset)


def open_data(config: TrainConfig) -> AnyDataset:
    """The dataset of a config: its file, read as it says, or live from a solver."""
    if not config.is_live:
        return open_any(config.source, config.read_options())
    for name in ("test_data", "subsample", "steps", "domain"):
        if getattr(config, name) != TrainConfig.model_fields[name].default:
            raise InputError(f"{name} is for files: {config.data} is made while training")
    if config.window is not None:
        raise InputError(f"horizon is for files of trajectories: {config.data} makes pairs while training")
    generator = build_generator(config.data.removeprefix(LIVE), resolution=config.resolution)
    if not generator.domain.has_grid:
        raise InputError(f"live data are fields on a grid: {generator.name} makes point clouds, write them to a file")
    n_train, n_test = config.n_train or PAPER_LIVE[0], config.n_test or PAPER_LIVE[1]
    return live_dataset(generator, n_train=n_train, n_test=n_test)


def build_network(config: TrainConfig, problem: Problem) -> nn.Module:
    """The untrained model of a config, with the channels of the problem; or the one that the program has given."""
    if config.module is not None:
        shared = any(tensor.is_shared() for tensor in config.module.state_dict().values())
        # To a process of several it came in memory that they share: each trains weights of its own.
        return under_policy(deepcopy(config.module) if shared else config.module)
    try:
        return build_model(config.model, problem.model_arguments(config))
    except (TypeError, ValueError) as error:
        raise InputError(f"{config.model} cannot be built: {error}") from error


def meta_network(config: TrainConfig, dataset: AnyDataset) -> nn.Module:
    """The network that a training of this config steps, on `meta`, where it takes no memory; in time, one that does."""
    problem = problem_of(dataset)
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        network = build_network(config, problem)
    return network if isinstance(problem, CloudProblem) else problem.operator(config, network, fit=False).model


def build_operator(config: TrainConfig, dataset: AnyDataset) -> Operator:
    """The untrained model of a config with the normalizers of a dataset's train split."""
    problem = problem_of(dataset)
    return problem.operator(config, build_network(config, problem))


def is_point_model(name: str) -> bool:
    """Whether it takes point clouds; a module of a program takes fields on a grid."""
    return name in MODELS and MODELS[name].takes_points


def check_modes_fit(modes: Any, grid: tuple[int, ...], name: str) -> None:
    """A grid without the frequencies of the model would leave some of its weights untrained for ever."""
    if (
        isinstance(modes, list | tuple)
        and len(modes) == len(grid)
        and any(n > size for n, size in zip(modes, grid, strict=True))
    ):
        size = "x".join(map(str, grid))
        raise InputError(
            f"a grid of {size} is too small for {name} {list(modes)}: expected at least as many points as modes"
        )


def _latent(config: TrainConfig) -> int:
    return config.latent_resolution or LATENT_RESOLUTION


def _unfit(config: TrainConfig, dataset: AnyDataset, why: str) -> InputError:
    return InputError(f"{config.model} cannot be applied to {dataset.path}: it holds {why}")
