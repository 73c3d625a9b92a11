"""peer: this library against neuraloperator on the same data: error, memory and time from the same first weights."""

from __future__ import annotations

import importlib.metadata
import math
import statistics
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from halfwave.data import Dataset, fit_normalizers
from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import STEP_MEMORY, Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import select
from halfwave.experiments.pairing import pair
from halfwave.interop import from_neuralop
from halfwave.measure import PEER, BenchCase, StepMeasure, build_peer, measure_step, seconds_of, training_step
from halfwave.precision import Policy
from halfwave.recipes import HALF, TITLES, problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series
from halfwave.training import Operator, build_loss, cut, epoch_order, evaluate, seed_all

METHODS = (PEER, "full", "mixed")
PROBLEMS: Mapping[Scale, tuple[str, ...]] = {
    "smoke": ("darcy",),
    "small": ("darcy", "navier-stokes"),
    "paper": ("darcy", "navier-stokes"),
}
EPOCHS: Mapping[Scale, int] = {"smoke": 2, "small": 10, "paper": 100}
SEEDS: Mapping[Scale, tuple[int, ...]] = {"smoke": (0,), "small": (0, 1), "paper": (0, 1, 2)}
MISSING = "not installed"


@dataclass(frozen=True)
class Match:
    """Their FNO in fp32, ours in full and in mixed precision, epoch by epoch in turn."""

    problem: str
    seed: int
    epochs: int
    neuraloperator: str
    """Its version, so that a result without it is not taken for one with it."""
    training: Training


def configurations(scale: Scale) -> list[Match]:
    return [
        Match(
            name,
            seed,
            EPOCHS[scale],
            _version(),
            Training(problem(name, scale), "full", seed, {"epochs": EPOCHS[scale]}),
        )
        for name in PROBLEMS[scale]
        for seed in SEEDS[scale]
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
    dataset = lab.dataset(match.training.recipe, match.training.data_seed)
    seed_all(match.seed)
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


def exhibit(rows: list[Row]) -> Exhibit:
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    # Tables and pictures of the first seed; the parts of the claim compare all.
    found = {(row["problem"], row["method"]): row for row in rows if row["seed"] == 0}
    lines = tuple(_line(found, *key) for key in found)
    missing = any(row["test_l2"] is None for row in rows)
    return Exhibit(
        Comparison(
            ("dataset", "method"),
            ("test error, L2", "test error, H1", "memory, MB", "activations, MB", "seconds per epoch", "times theirs"),
            lines,
        ),
        () if missing else _panels(found, problems),
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


def _check_error(problem: str, method: str, rows: list[Row]) -> Outcome | None:
    """From the same first weights, seed by seed."""
    own, theirs = (select(rows, problem=problem, method=m) for m in (method, PEER))
    paired = pair(own, theirs, "test_l2") if own and theirs else None
    return None if paired is None else paired.within(f"{TITLES[problem]}, {method}, test error against theirs")


def _check_memory(problem: str, rows: list[Row]) -> Outcome | None:
    theirs, mixed = (select(rows, problem=problem, method=m) for m in (PEER, "mixed"))
    if not theirs or not mixed or not theirs[0]["activation_bytes"]:
        return None
    less = 100 * (1 - mixed[0]["activation_bytes"] / theirs[0]["activation_bytes"])
    clause = f"{TITLES[problem]}: mixed holds {abs(less):.0f}% {'less' if less > 0 else 'more'} activations"
    return Outcome.of(less > 0, clause)


def _check_time(problem: str, rows: list[Row]) -> Outcome | None:
    """Which of ours is the faster one depends on the formats that the machine multiplies."""
    theirs = select(rows, problem=problem, method=PEER)
    pairs = {m: pair(theirs, select(rows, problem=problem, method=m), "seconds_per_epoch") for m in METHODS[1:]}
    if not theirs or any(paired is None for paired in pairs.values()):
        return None
    speeds = {method: math.exp(paired.mean) for method, paired in pairs.items() if paired is not None}
    clause = ", ".join(f"{speed:.2f} ({method})" for method, speed in speeds.items())
    return Outcome.of(max(speeds.values()) > 1, f"{TITLES[problem]}: an epoch is {clause} times as fast as theirs")


PARTS = tuple(
    part
    for name in ("darcy", "navier-stokes")
    for part in (
        Part(
            f"in full the error on {TITLES[name]} is neuraloperator's to 1%", check=partial(_check_error, name, "full")
        ),
        Part(
            f"in mixed the error on {TITLES[name]} is neuraloperator's to 1%",
            check=partial(_check_error, name, "mixed"),
        ),
        Part(f"mixed holds less activations than neuraloperator on {TITLES[name]}", check=partial(_check_memory, name)),
        Part(f"an epoch on {TITLES[name]} takes less time than neuraloperator's", check=partial(_check_time, name)),
    )
)
MEASURES = (
    Measure("method", "neuraloperator, or ours in full or mixed precision"),
    Measure("test_l2", "relative L2 on the test split"),
    Measure("test_h1", "relative H1 on the test split"),
    *STEP_MEMORY,
    Measure("seconds_per_epoch", "median over epochs, taking turns", timing=True),
)
EXPERIMENT = Experiment(
    name="peer",
    source="Our own",
    question="How do error, memory and time compare with neuraloperator's on the same data?",
    claim="From the same first weights the error is the same, at less memory and in less time.",
    parts=PARTS,
    measures=MEASURES,
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda match: (match.training,),
)
