"""`halfwave train RECIPE`: a run directory from a recipe, with any of its settings changed."""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Any, Optional

from tyro.conf import Positional

from halfwave.commands.common import as_usage, figure_text, log_console, parse_pairs, results_console
from halfwave.commands.data import default_path, make_dataset
from halfwave.commands.recipe_defaults import (
    defaults_of_config,
    defaults_of_data,
    defaults_of_dataset,
    defaults_of_trainer,
)
from halfwave.data import Generator, build_generator
from halfwave.errors import InputError, UsageError
from halfwave.files import check_no_input, read_json
from halfwave.gate import check_memory
from halfwave.measure import keep_freed_blocks
from halfwave.models import check_arguments
from halfwave.numerics import core_count
from halfwave.recipes import GENERAL, Recipe, general_recipe, get_recipe, recipes
from halfwave.training import AUTO, PLANNED, RunResult, TrainConfig, initial_model, open_data, train, train_seeds

# Set by the recipe or by options of the command itself.
_NOT_OPTIONS = ("data", "recipe", "arguments", "model", "policy")
# Of a file, what to use of it; without one, what is made.
_OF_DATA = ("n_train", "n_test", "resolution")
_READING = (
    *_OF_DATA, "test_data", "subsample", "steps", "domain", "x_key", "y_key", "channel_axis",
    "horizon", "horizons", "history", "time_stride",
)  # fmt: skip


@dataclass
class TrainBase:
    recipe: Positional[str]
    """Name of a recipe: darcy, darcy-paper, ...; or fno, tfno, sfno, gino, unet for data of your own."""
    data: Path | None = None
    """Dataset file or directory, or live:NAME; the recipe's own is made first. By default the recipe's own."""
    out: Path | None = None
    """Run directory; an interrupted run in it resumes. By default runs/RECIPE-PRECISION."""
    arguments: tuple[str, ...] = ()
    """Arguments of the model to change, as KEY=VALUE: hidden_channels=64 n_modes=[32,32]."""
    policy: Path | None = None
    """File of a precision plan (`PrecisionPlan.save`): trains with --precision planned."""
    seeds: int = 1
    """Train so many times, from --seed on, and report mean and deviation."""
    force: bool = False
    """Train also where the memory plan says that it does not fit."""

    @classmethod
    def known(cls, call: TrainBase | None) -> dict[str, Any]:
        """Values that options take for the recipe, with its own data or those that are given."""
        if call is None or (call.recipe in GENERAL and call.data is None):
            return defaults_of_trainer(list(_options()))
        changes = call._changes()
        recipe = call._recipe(changes)
        if call.data is None:
            recipe = adapt(recipe, **_taken(changes, _OF_DATA))
            path = _path(recipe, _generator(recipe))
            config, data = TrainConfig.of(recipe, None if recipe.live else path, **changes), defaults_of_data(recipe)
        else:
            config = TrainConfig.of(recipe, call.data, **changes)
            data = defaults_of_dataset(open_data(config))
        places = {"data": config.data, "out": _run_directory(recipe, config)}
        return {**defaults_of_config(config, list(_options())), **data, **places}

    def run(self) -> None:
        changes = self._changes()
        recipe = self._recipe(changes)
        _check_arguments(recipe, changes["arguments"])
        data, makes_data = self.data, False
        if data is None:
            asked = _taken(changes, _OF_DATA)
            recipe = as_usage(lambda: adapt(recipe, **asked))
            makes_data = not recipe.live
            data = _path(recipe, _generator(recipe)) if makes_data else None
        config = as_usage(lambda: TrainConfig.of(recipe, data, **changes))
        as_usage(config.build_schedule)
        out = self.out or _run_directory(recipe, config)
        if self.seeds < 1:
            raise UsageError(f"--seeds must be at least 1, got {self.seeds}")
        if makes_data:  # once all else is right: it may take minutes
            recipe_data(recipe)
        check_no_input(out, *(path for path in (config.data, config.test_data) if path is not None))
        if not self.force:
            check_memory(config, open_data(config))
        keep_freed_blocks()
        if self.seeds > 1:
            _report_seeds(out, train_seeds(config, out, self.seeds))
            return
        result = train(config, out)
        if result.status == "interrupted":
            raise KeyboardInterrupt
        results_console().print(
            f"{out}: {result.status} after {result.epochs} epochs, "
            f"test L2 {figure_text(result.l2)}, H1 {figure_text(result.h1)}"
            f"{_in_full(result)}, {figure_text(result.samples_per_second)} samples/s{_left_out(result.zero_targets)}",
            soft_wrap=True,
        )

    def _recipe(self, changes: dict[str, Any]) -> Recipe:
        """By its name, or of a family with the settings that the data ask for; of a run to begin from, its model."""
        if self.recipe in GENERAL:
            if self.data is None:
                raise UsageError(f"{self.recipe} takes its settings from the data: give --data FILE")
            dataset = open_data(as_usage(lambda: TrainConfig(data=str(self.data), **_reading(changes))))
            recipe = general_recipe(self.recipe, dataset)
        else:
            recipe = as_usage(lambda: get_recipe(self.recipe))
        if "init_from" not in changes:
            return recipe
        model, arguments = initial_model(changes["init_from"])
        return replace(recipe, model=model, arguments=arguments)

    def _changes(self) -> dict[str, Any]:
        """All that the command line changes of a recipe's settings."""
        arguments = parse_pairs(self.arguments, "--arguments")
        return {"compile": AUTO, **self._given(), **self._planned(), "arguments": arguments}

    def _given(self) -> dict[str, Any]:
        """Options that were set on the command line; None stands for what the recipe or the trainer says."""
        return {name: getattr(self, name) for name in _options() if getattr(self, name) is not None}

    def _planned(self) -> dict[str, Any]:
        """What --policy says of the precision."""
        if self.policy is None:
            return {}
        given = self._given().get("precision", PLANNED)
        if given != PLANNED:
            raise UsageError(f"--policy is given and --precision is {given}: expected planned")
        values = read_json(self.policy)
        if not isinstance(values, dict) or not isinstance(values.get("policy"), dict):
            raise InputError(f"{self.policy} is not a precision plan: it has no object 'policy'")
        return {"precision": PLANNED, "policy": values["policy"]}


def _taken(changes: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Those of these names, which `changes` has no more."""
    return {name: changes.pop(name) for name in names if name in changes}


def _check_arguments(recipe: Recipe, arguments: dict[str, Any]) -> None:
    """InputError for arguments that the model does not take, before data are made for it."""
    try:
        check_arguments(recipe.model, arguments)
    except InputError as error:
        raise InputError(f"{recipe.model} cannot be built: {error}") from None


def _run_directory(recipe: Recipe, config: TrainConfig) -> Path:
    return Path("runs") / f"{recipe.name}-{config.precision}"


def _reading(changes: dict[str, Any]) -> dict[str, Any]:
    """Of the settings those that decide what is read."""
    return {name: changes[name] for name in _READING if name in changes}


def _options() -> dict[str, Any]:
    return {name: info for name, info in TrainConfig.model_fields.items() if name not in _NOT_OPTIONS}


def _report_seeds(out: Path, summary: dict[str, Any]) -> None:
    if summary["status"] == "interrupted":
        raise KeyboardInterrupt
    figures = ", ".join(
        f"test {name.upper()} {figure_text(summary[name]['mean'])} +- {figure_text(summary[name]['std'])}"
        for name in ("l2", "h1")
    )
    results_console().print(f"{out}: {len(summary['seeds'])} seeds, {figures}", soft_wrap=True)


def _in_full(result: RunResult) -> str:
    """The errors of the same weights in full precision, where training rounded."""
    errors = f"L2 {figure_text(result.l2_full)}, H1 {figure_text(result.h1_full)}"
    return "" if result.l2_full == result.l2 else f" (in full precision {errors})"


def _left_out(zeros: int) -> str:
    return f"; {zeros} test targets are zero: left out of the errors" if zeros else ""


def adapt(
    recipe: Recipe, n_train: int | None = None, n_test: int | None = None, resolution: int | None = None
) -> Recipe:
    """The recipe with another size of its data."""
    sizes = {} if resolution is None else {"resolution": resolution}
    kept = {
        name: value for name, value in recipe.parameters.items() if not (sizes and name in ("resolution", "points"))
    }
    adapted = replace(
        recipe, n_train=n_train or recipe.n_train, n_test=n_test or recipe.n_test, parameters={**kept, **sizes}
    )
    _generator(adapted)  # raises for what the generator does not take
    return adapted


def recipe_data(recipe: Recipe) -> Path:
    """The recipe's dataset, made now if it is not there."""
    generator = _generator(recipe)
    path, command = _path(recipe, generator), _command(recipe, generator)
    if not path.exists():
        log_console().print(f"no --data given: making the data of {recipe.name} by `{command}`", soft_wrap=True)
    try:
        return make_dataset(generator, path, recipe.n_train, recipe.n_test, 0, core_count())
    except InputError as error:
        if not path.exists():
            raise
        raise InputError(
            f"{path} is not what `{command}` makes: give --data {path} to train on it, or remove it"
        ) from error


def _generator(recipe: Recipe) -> Generator:
    return build_generator(recipe.generator, **recipe.parameters)


def _path(recipe: Recipe, generator: Generator) -> Path:
    """The default one with the numbers of samples, where they are not the recipe's own; of an experiment its name."""
    own = get_recipe(recipe.name)
    path = default_path(generator)
    if recipe.scale in ("smoke", "small"):
        path = path.with_name(f"{recipe.name}{path.suffix}")
    if (recipe.n_train, recipe.n_test) == (own.n_train, own.n_test):
        return path
    return path.with_name(f"{path.stem}-{recipe.n_train}-{recipe.n_test}{path.suffix}")


def _command(recipe: Recipe, generator: Generator) -> str:
    """The command that makes the same file."""
    size = getattr(generator, "resolution", getattr(generator, "points", None))
    counts = f"--n-train {recipe.n_train} --n-test {recipe.n_test}"
    rest = [f"{name}={value}" for name, value in recipe.parameters.items() if name not in ("resolution", "points")]
    parameters = f"--parameters {' '.join(rest)} " if rest else ""
    return f"halfwave data {recipe.generator} --resolution {size} {parameters}{counts} --out {_path(recipe, generator)}"


def _build_command() -> type:
    """TrainBase with one option for every setting of the trainer, so that none can be forgotten."""
    options = [
        # A type built at run time. None is what nobody gave.
        (name, Optional[info.annotation], field(default=None, metadata={"help": info.description}))  # noqa: UP045
        for name, info in _options().items()
    ]
    command = make_dataclass("Train", options, bases=(TrainBase,))
    listed = "\n".join(
        f"  {recipe.name}: {recipe.title}" for recipe in recipes() if recipe.scale not in ("smoke", "small")
    )
    command.__doc__ = (
        "Train a model by a recipe; every setting can be changed by an option.\n\n"
        f"Recipes (and each problem at the scales of `reproduce`, such as darcy-small):\n{listed}\n\n"
        f"For --data of your own, settings from it: {', '.join(GENERAL)}"
    )
    return command


Train = _build_command()
