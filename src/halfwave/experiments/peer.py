"""peer: this library against neuraloperator on the same data: error, memory and time from the same first weights."""

from __future__ import annotations

import importlib.metadata
import math
import statistics
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from halfwave.data import Dataset, fit_normalizers
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.interop import from_neuralop
from halfwave.measure import PEER, BenchCase, StepMeasure, build_peer, measure_step, seconds_of, training_step
from halfwave.precision import Policy
from halfwave.recipes import HALF, TITLES, problem
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict
from halfwave.training import Operator, build_loss, cut, epoch_order, evaluate

METHODS = (PEER, "full", "mixed")
PROBLEMS: Mapping[Scale, tuple[str, ...]] = {
    "smoke": ("darcy",),
    "small": ("darcy", "navier-stokes"),
    "paper": ("darcy", "navier-stokes"),
}
EPOCHS: Mapping[Scale, int] = {"smoke": 2, "small": 10, "paper": 100}
MISSING = "not installed"


@dataclass(frozen=True)
class Match:
    """Their FNO in fp32, ours in full and in mixed precision, epoch by epoch in turn."""

    problem: str
    epochs: int
    neuraloperator: str
    """Its version, so that a result without it is not taken for one with it."""
    training: Training


def configurations(scale: Scale) -> list[Match]:
    return [
        Match(
            name, EPOCHS[scale], _version(), Training(problem(name, scale), "full", changes={"epochs": EPOCHS[scale]})
        )
        for name in PROBLEMS[scale]
    ]


def _version() -> str:
    try:
        return importlib.metadata.version(PEER)
    except importlib.metadata.PackageNotFoundError:
        return MISSING


@dataclass
class Player:
    """One model in the match."""

    operator: Operator
    optimizer: Optimizer
    seconds: list[float]


def measure(match: Match, lab: Lab) -> list[dict[str, Any]]:
    if match.neuraloperator == MISSING:
        return [dict.fromkeys((m.name for m in MEASURES), None) | {"method": PEER}]
    dataset = lab.dataset(match.training.recipe)
    assert isinstance(dataset, Dataset)
    players = _players(match, dataset)
    train = dataset.train[:]
    loss = build_loss(match.training.config("").loss, dataset.domain)
    for epoch in range(match.epochs):
        for player in players.values():
            _run_epoch(player, match, epoch, train, loss)
    rows = []
    for method, player in players.items():
        errors = evaluate(player.operator, dataset.test)
        memory = _memory(player, match, train, loss)
        rows.append(
            {
                "method": method,
                "test_l2": errors["l2"],
                "test_h1": errors["h1"],
                "peak_memory_bytes": memory.peak_memory_bytes,
                "activation_bytes": memory.activation_bytes,
                "seconds_per_epoch": statistics.median(player.seconds),
            }
        )
    return rows


def _players(match: Match, dataset: Dataset) -> dict[str, Player]:
    """Theirs as it starts, and ours with its weights."""
    arguments = dict(match.training.recipe.arguments)
    modes, channels, layers = (arguments.pop(name) for name in ("n_modes", "hidden_channels", "n_layers"))
    grid = tuple(dataset.grid)
    config = match.training.config("")
    peer = build_peer(
        BenchCase(match.problem, "step", grid, tuple(modes), channels, config.batch_size, layers, arguments)
    )
    models: dict[str, nn.Module] = {PEER: peer}
    for name in METHODS[1:]:
        models[name] = from_neuralop(peer, Policy.named(name, HALF))
    normalizers = fit_normalizers(dataset.train)

    def player(name: str, model: nn.Module) -> Player:
        # Their weights are complex, which the fused update does not take.
        optimizer = AdamW(
            model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=name != PEER or None
        )
        return Player(Operator(model, *deepcopy(normalizers)), optimizer, [])

    return {name: player(name, model) for name, model in models.items()}


def _run_epoch(
    player: Player, match: Match, epoch: int, train: tuple[Tensor, Tensor], loss: Callable[..., Tensor]
) -> None:
    """The trainer's order of samples and its cosine, for all players alike."""
    config = match.training.config("")
    order = cut(epoch_order(config.seed, epoch, len(train[0])), config.batch_size)
    player.operator.train()

    def run() -> None:
        for number, indices in enumerate(order):
            progress = (epoch * len(order) + number) / (match.epochs * len(order))
            for group in player.optimizer.param_groups:
                group["lr"] = config.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
            training_step(player.operator, loss, player.optimizer, (train[0][indices], train[1][indices]))

    player.seconds.append(seconds_of(run))


def _memory(player: Player, match: Match, train: tuple[Tensor, Tensor], loss: Callable[..., Tensor]) -> StepMeasure:
    """One step more, whose bytes are counted; the errors are known by then."""
    size = match.training.config("").batch_size
    return measure_step(player.operator, loss, player.optimizer, (train[0][:size], train[1][:size]))


def summarise(rows: list[Row]) -> Summary:
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    found = {(row["problem"], row["method"]): row for row in rows}
    lines = tuple(_line(found, *key) for key in found)
    missing = any(row["test_l2"] is None for row in rows)
    checks = () if missing else tuple(check for name in problems for check in _checks(found, name))
    return Summary(
        Comparison(
            ("dataset", "method"),
            ("test error, L2", "test error, H1", "memory, MB", "activations, MB", "seconds per epoch", "times theirs"),
            lines,
        ),
        () if missing else _panels(found, problems),
        Verdict(checks, "neuraloperator is not installed (pip install 'halfwave[peer]' -c constraints.txt)"),
        (
            "Not in the paper. The same first weights, samples in the same order, loss, optimizer and learning rates; "
            "theirs in fp32, eager, as its half precision does not run on a CPU. Epochs take turns.",
            f"mixed is {HALF}, which a CPU without its instructions multiplies in fp32.",
        ),
    )


def _line(found: Mapping[tuple[str, str], Row], problem: str, method: str) -> Line:
    row, theirs = found[problem, method], found[problem, PEER]
    ours: tuple[float | None, ...] = (None,) * 6
    if row["test_l2"] is not None:
        ratio = row["seconds_per_epoch"] / theirs["seconds_per_epoch"]
        memory = (row["peak_memory_bytes"] / 1e6, row["activation_bytes"] / 1e6)
        ours = (row["test_l2"], row["test_h1"], *memory, row["seconds_per_epoch"], ratio)
    return Line((TITLES[problem], method), (None,) * 6, ours)


def _panels(found: Mapping[tuple[str, str], Row], problems: list[str]) -> tuple[Panel, ...]:
    names = tuple(TITLES[name] for name in problems)

    def panel(title: str, unit: str, column: str, scale: float = 1.0) -> Panel:
        bars = tuple(
            Series(m, names, tuple(scale * found[name, m][column] for name in problems), "bars") for m in METHODS
        )
        return Panel(title, "", unit, bars)

    return (
        panel("test error", "relative L2", "test_l2"),
        panel("activations of a training step", "MB", "activation_bytes", 1e-6),
        panel("time of an epoch", "s", "seconds_per_epoch"),
    )


def _checks(found: Mapping[tuple[str, str], Row], problem: str) -> tuple[Check, ...]:
    theirs, full, mixed = (found[problem, method] for method in METHODS)
    changes = [100 * (row["test_l2"] / theirs["test_l2"] - 1) for row in (full, mixed)]
    memory = 100 * (1 - mixed["activation_bytes"] / theirs["activation_bytes"])
    speeds = [theirs["seconds_per_epoch"] / row["seconds_per_epoch"] for row in (full, mixed)]
    name = TITLES[problem]
    return (
        Check(
            max(changes) < 2,
            f"{name}: test error against theirs {changes[0]:+.1f}% (full) and {changes[1]:+.1f}% (mixed)",
        ),
        Check(memory > 0, f"{name}: mixed holds {abs(memory):.0f}% {'less' if memory > 0 else 'more'} activations"),
        # Which of ours is the faster one depends on the formats that the machine multiplies.
        Check(
            max(speeds) > 1,
            f"{name}: an epoch is {speeds[0]:.2f} (full) and {speeds[1]:.2f} (mixed) times as fast as theirs",
        ),
    )


MEASURES = (
    Measure("method", "neuraloperator, or ours in full or mixed precision"),
    Measure("test_l2", "relative L2 on the test split"),
    Measure("test_h1", "relative H1 on the test split"),
    Measure("peak_memory_bytes", "largest sum of live tensors in a training step"),
    Measure("activation_bytes", "without parameters, gradients, optimizer state and batch"),
    Measure("seconds_per_epoch", "median over epochs, taking turns", timing=True),
)
EXPERIMENT = Experiment(
    name="peer",
    source="Our own",
    question="How do error, memory and time compare with neuraloperator's on the same data?",
    claim="From the same first weights the error is the same, at less memory and in less time.",
    measures=MEASURES,
    configurations=configurations,
    measure=measure,
    summarise=summarise,
    trainings=lambda match: (match.training,),
)
