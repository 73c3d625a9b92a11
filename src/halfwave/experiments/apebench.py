"""Side by side with APEBench (Koehler et al. 2024): the same data, our FNO in full and mixed against its own in JAX."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from halfwave.experiments.apebench_peer import (
    PEAK_RATE,
    Scored,
    Size,
    build_scenario,
    geometric_mean,
    processor_seconds,
    score_rollout,
    train_peer,
    trajectories,
)
from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab
from halfwave.experiments.methods import mean, select
from halfwave.models import FNO
from halfwave.report import Comparison, Exhibit, Line, Outcome
from halfwave.spectral import DenseWeight
from halfwave.training import load, roll_out, train

SCENARIOS = (("Advection", 1), ("Burgers", 1), ("KuramotoSivashinskyConservative", 1), ("AdvectionDiffusion", 2))
METHODS = ("apebench", "full", "mixed")
LABELS = {"apebench": "APEBench's FNO", "full": "ours, full", "mixed": "ours, mixed"}
_MODES, _WIDTH, _BLOCKS = 12, 18, 4
"""Of APEBench's own FNO, `fno;12;18;4;gelu`."""
_SIZES: dict[Scale, dict[int, Size]] = {
    "smoke": {1: Size(32, (3, 8), (2, 6), 6, 4), 2: Size(24, (2, 4), (2, 4), 4, 4)},
    "small": {1: Size(64, (20, 30), (10, 100), 2000), 2: Size(32, (10, 20), (5, 100), 500)},
    "paper": {1: Size(160, (50, 50), (30, 200), 10_000), 2: Size(160, (50, 50), (30, 200), 10_000)},
}
_SEEDS: dict[Scale, tuple[int, ...]] = {"smoke": (0,), "small": (0, 1), "paper": (0, 1, 2)}
_CLOSE = 1.02


@dataclass(frozen=True)
class Contest:
    """One training of one method on one scenario."""

    scenario: str
    dims: int
    method: str
    seed: int
    size: Size


def _configurations(scale: Scale) -> list[Contest]:
    return [
        Contest(name, dims, method, seed, _SIZES[scale][dims])
        for name, dims in SCENARIOS
        for method in METHODS
        for seed in _SEEDS[scale]
    ]


def _measure(contest: Contest, lab: Lab) -> list[dict[str, Any]]:
    scenario = build_scenario(contest.scenario, contest.dims, contest.size)
    network = f"fno;{_MODES};{_WIDTH};{_BLOCKS};gelu"
    ours = contest.method != "apebench"
    scored = _train_ours(scenario, contest) if ours else train_peer(scenario, network, contest.seed)
    return [
        {
            "score": scored.score,
            "first_step": scored.errors[0],
            "last_step": scored.errors[-1],
            "parameters": scored.parameters,
            "seconds": scored.seconds,
        }
    ]


def _train_ours(scenario: Any, contest: Contest) -> Scored:
    """Our FNO as APEBench trains its own: its rate, updates, batch and initial scale; loss and normalizer are ours.

    The rate is theirs for both, so no result chooses it. It rises over the first 30% of updates (theirs 20%).
    """
    states, truth = trajectories(scenario)
    size = contest.size
    epochs = max(1, size.updates // -(-size.train[0] * size.train[1] // size.batch))
    contested = partial(
        train,
        data={"train": {"trajectory": states}, "test": {"trajectory": truth}},
        quiet=True,
        model=_build_ours(contest, truth.shape[2]),
        horizon=1,
        domain="torus",
        epochs=epochs,
        evaluate_every=epochs,
        checkpoint_every=epochs,
        batch_size=size.batch,
        learning_rate=PEAK_RATE,
        weight_decay=0.0,
        scheduler="one-cycle",
        precision=contest.method,
        seed=contest.seed,
    )
    with tempfile.TemporaryDirectory() as folder:
        seconds = processor_seconds(lambda: contested(run_dir=Path(folder) / "run"))
        model = load(Path(folder) / "run" / "model.safetensors")
    start = torch.from_numpy(truth[:, 0])
    rolled = torch.stack(list(roll_out(model, start, truth.shape[1] - 1)), dim=1).numpy()
    parameters = sum(p.numel() for p in model.parameters())
    return Scored(score_rollout(rolled, truth[:, 1:]), parameters, seconds)


def _build_ours(contest: Contest, channels: int) -> FNO:
    """The parts of APEBench's FNO: linear ends, a spectral convolution and a 1x1 bypass in each block.

    Spectral weights begin as theirs do, normal with 1 / (C O) in each part, the scale of Li et al. (2021). Ours are
    larger, 1 / sqrt(C + O), as neuraloperator's: so few updates do not move modes that the data hardly have.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(contest.seed)
        model = FNO(
            (2 * _MODES,) * (contest.dims - 1) + (2 * _MODES - 2,),
            channels,
            channels,
            _WIDTH,
            _BLOCKS,
            use_channel_mlp=False,
            lifting_channel_ratio=0,
            projection_channel_ratio=0,
            positional_embedding=None,
        )
        for part in model.modules():
            if isinstance(part, DenseWeight):
                nn.init.normal_(part.weight, std=1 / _WIDTH**2)
    return model


def _exhibit(rows: list[Row]) -> Exhibit:
    names = tuple(dict.fromkeys((row["scenario"], row["dims"]) for row in rows))
    return Exhibit(
        Comparison(
            ("scenario", "dims"),
            (
                "APEBench",
                "ours, full",
                "ours, mixed",
                "mixed over full",
                "APEBench, CPU s",
                "ours, full, CPU s",
                "ours, mixed, CPU s",
            ),
            tuple(_line(rows, name, dims) for name, dims in names),
        ),
        notes=(
            "Geometric mean over the first 100 steps of the mean nRMSE of test rollouts, APEBench's own figure.",
            "Both are trained at APEBench's rate, 1e-3, and from its initial scale.",
            "CPU seconds are of a training on this machine, all threads and JAX's compilation included.",
        ),
    )


def _score(rows: list[Row], name: str, dims: int, method: str) -> float | None:
    found = [row["score"] for row in select(rows, scenario=name, dims=dims, method=method) if row["score"] is not None]
    return geometric_mean(found) if found else None


def _line(rows: list[Row], name: str, dims: int) -> Line:
    scores = [_score(rows, name, dims, method) for method in METHODS]
    ratio = None if scores[1] is None or scores[2] is None else scores[2] / scores[1]
    seconds = [mean(select(rows, scenario=name, dims=dims, method=method), "seconds") for method in METHODS]
    return Line((name, str(dims)), (None,) * 7, (*scores, ratio, *seconds))


def _check_full(rows: list[Row]) -> Outcome | None:
    return _on_most(rows, ("apebench", "full"), 1.0, "our error in full was at most APEBench's")


def _check_mixed(rows: list[Row]) -> Outcome | None:
    return _on_most(rows, ("full", "mixed"), _CLOSE, "mixed was within 2% of full")


def _on_most(rows: list[Row], methods: tuple[str, str], factor: float, what: str) -> Outcome | None:
    """Whether the score of the second method is up to `factor` times the first one's, on three of four scenarios."""
    names = dict.fromkeys((row["scenario"], row["dims"]) for row in rows)
    pairs = [tuple(_score(rows, *name, method) for method in methods) for name in names]
    known = [(first, second) for first, second in pairs if first is not None and second is not None]
    if not known:
        return None
    count = sum(second <= factor * first for first, second in known)
    return Outcome.of(count >= int(np.ceil(0.75 * len(known))), f"{what} on {count} of {len(known)} scenarios")


EXPERIMENT = Experiment(
    name="apebench",
    source="Our own",
    question="How does our FNO, in full and mixed, roll out against APEBench's own FNO in JAX on its scenarios?",
    claim="Ours errs no more on three of four scenarios, and mixed within 2% of full.",
    parts=(
        Part("in full our error is at most APEBench's on three of four scenarios", check=_check_full),
        Part("in mixed our error is within 2% of full on three of four scenarios", check=_check_mixed),
    ),
    measures=(
        Measure("score", "geometric mean over the first 100 steps of the test rollouts' mean nRMSE"),
        Measure("first_step", "mean nRMSE after one step"),
        Measure("last_step", "mean nRMSE after the last step"),
        Measure("parameters", "of the network; a complex one counts as two"),
        Measure("seconds", "of the processor for the training, all threads and compilation included", timing=True),
    ),
    configurations=_configurations,
    measure=_measure,
    exhibit=_exhibit,
)
