"""block-precision: forward transform, contraction and inverse transform of the FNO block, each in full or half."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from halfwave.experiments.claims import NEEDS_GPU, Part, all_of
from halfwave.experiments.experiment import SCALES, STEP_MEMORY, Experiment, Measure, Row, Scale
from halfwave.experiments.gate import behind_gate, closed
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.methods import ASSESSED, mean, memory_of, select, training_facts, with_deviation
from halfwave.experiments.pairing import pair
from halfwave.recipes import BLOCK_MB, Recipe, problem
from halfwave.report import Comparison, Exhibit, Line, Outcome, Panel, Series

# Forward, contraction, inverse: seconds per epoch, train error after 30 epochs on Darcy flow (as printed; it is no
# relative error, the paper gives no unit); lines 1312 to 1319.
PAPER = {
    "FFF": (17.06, 9.00),
    "FFH": (16.55, 8.71),
    "FHF": (17.11, 8.76),
    "FHH": (16.96, 8.15),
    "HFF": (17.64, 9.13),
    "HFH": (16.81, 7.51),
    "HHF": (16.57, 8.75),
    "HHH": (15.63, 7.49),
}
# The paper's stabilizer acts where the forward FFT is in half precision, which auto knows by itself (line 1322).
VARIANTS = {"paper": {"backend": "fft"}, "ours": {"backend": "gemm"}}
SEEDS: dict[Scale, tuple[int, ...]] = {"smoke": (0,), "small": (0,), "medium": (0, 1, 2), "paper": (0, 1, 2)}
EPOCHS: dict[Scale, int] = {"smoke": 1, "small": 8, "medium": 30, "paper": 30}


@dataclass(frozen=True)
class Setting:
    """One of the eight settings with FFTs or with matrix products, trained on Darcy flow."""

    variant: str
    setting: str
    seed: int
    training: Training


def configurations(scale: Scale) -> list[Setting]:
    # At medium sixteen settings would take hours: those of the paper.
    variants = ("paper",) if scale == "medium" else tuple(VARIANTS)
    return [
        Setting(variant, setting, seed, _training(variant, setting, seed, scale))
        for variant in variants
        for setting in PAPER
        for seed in SEEDS[scale]
    ]


def _training(variant: str, setting: str, seed: int, scale: Scale) -> Training:
    changes = {"epochs": EPOCHS[scale], "loss": "l2", "dtype": "fp16", "loss_scaling": True, **VARIANTS[variant]}
    return Training(_recipe(scale), setting, seed, changes)


def _recipe(scale: Scale) -> Recipe:
    """At medium half of the samples: eight settings of three seeds."""
    recipe = problem("darcy", scale)
    return replace(recipe, n_train=500) if scale == "medium" else recipe


def measure(setting: Setting, lab: Lab) -> list[dict[str, Any]]:
    trained = lab.train(setting.training)
    seconds = [row["seconds"] for row in trained.epochs]
    return [
        {
            "train_l2": None if trained.result is None else trained.result.train_loss,
            **lab.assess(setting.training),
            **memory_of(trained),
            "seconds_per_epoch": statistics.median(seconds) if seconds else None,
        }
    ]


def exhibit(rows: list[Row]) -> Exhibit:
    groups = tuple(dict.fromkeys((row["variant"], row["setting"]) for row in rows))
    return Exhibit(
        Comparison(
            ("transforms", "forward FFT", "contraction", "inverse FFT"),
            ("seconds per epoch", "memory, MB", "train error, L2", "test error, L2", "activations, MB"),
            tuple(_line(rows, *group) for group in groups),
        ),
        (
            _panel(rows, "activations of a training step", "MB", "activation_bytes", 1e-6),
            _panel(rows, "train error", "relative L2", "train_l2", 1.0),
        ),
        (
            "paper: FFTs, with tanh before those in half precision. ours: matrix products, no stabilizer.",
            "Memory is the largest sum of live tensors in a training step; the paper's is that of a GPU.",
        ),
    )


def _line(rows: list[Row], variant: str, setting: str) -> Line:
    found = select(rows, variant=variant, setting=setting)
    memory, activations = (_bytes(found, name) for name in ("peak_memory_bytes", "activation_bytes"))
    ours = (
        mean(found, "seconds_per_epoch"),
        memory,
        with_deviation(found, "train_l2"),
        with_deviation(found, "l2"),
        activations,
    )
    seconds, error = PAPER[setting]
    paper = (seconds, BLOCK_MB[setting], error, None, None) if variant == "paper" else (None,) * 5
    return Line((variant, *setting), paper, ours)


def _bytes(found: list[Row], name: str) -> float | None:
    return None if found[0][name] is None else found[0][name] / 1e6


def _panel(rows: list[Row], title: str, unit: str, column: str, scale: float) -> Panel:
    series = []
    for variant in dict.fromkeys(row["variant"] for row in rows):
        values = {s: mean(select(rows, variant=variant, setting=s), column) for s in PAPER}
        known = {setting: scale * value for setting, value in values.items() if value is not None}
        series.append(Series(variant, tuple(known), tuple(known.values()), "bars"))
    return Panel(title, "forward, contraction, inverse", unit, tuple(series))


def _memory(rows: list[Row], variant: str) -> dict[str, float]:
    found = {row["setting"]: row["peak_memory_bytes"] for row in rows if row["variant"] == variant and row["seed"] == 0}
    return {setting: nbytes for setting, nbytes in found.items() if nbytes}


def _check_leanest(variant: str, rows: list[Row]) -> Outcome | None:
    """Less than each of the seven others."""
    nbytes = _memory(rows, variant)
    if "HHH" not in nbytes or "FFF" not in nbytes:
        return None
    leaner = [setting for setting, n in nbytes.items() if setting != "HHH" and n <= nbytes["HHH"]]
    share = 100 * (1 - nbytes["HHH"] / nbytes["FFF"])
    clause = f"half in all three takes {share:.1f}% less than full; as lean or leaner: {', '.join(leaner) or 'none'}"
    return Outcome.of(not leaner, clause)


def _check_forward(variant: str, rows: list[Row]) -> Outcome | None:
    """Of the three operations alone, the forward transform in half saves the most."""
    nbytes = _memory(rows, variant)
    if not {"FFF", "HFF", "FHF", "FFH"} <= nbytes.keys():
        return None
    savings = {s: 100 * (1 - nbytes[s] / nbytes["FFF"]) for s in ("HFF", "FHF", "FFH")}
    clause = ", ".join(f"{setting} {value:.1f}%" for setting, value in savings.items())
    others = max(savings["FHF"], savings["FFH"])
    return Outcome.of(savings["HFF"] > others, f"memory less than FFF: {clause}")


def _check_error(variant: str, rows: list[Row]) -> Outcome | None:
    """No setting has a lower train error than half in all three."""
    own = select(rows, variant=variant, setting="HHH")
    pairs = {s: pair(own, select(rows, variant=variant, setting=s), "train_l2") for s in PAPER if s != "HHH"}
    outcome = all_of((p.at_most(f"HHH against {s}", 0.0) for s, p in pairs.items() if p is not None), "settings")
    if outcome is None:
        return None
    return behind_gate(outcome, closed(select(rows, variant=variant, setting="FFF"), own))


PARTS = (
    *(
        Part(f"{what}{whose}", figure, line, partial(check, variant))
        for variant, whose in (("paper", ""), ("ours", ", with matrix products"))
        for what, figure, line, check in (
            (
                "half in all three operations has the least memory of the eight settings",
                "7550 MB",
                1319,
                _check_leanest,
            ),
            ("of the three the forward transform in half saves the most", "8870 to 7824 MB", 1316, _check_forward),
            ("half in all three operations has the lowest train error", "7.49 against 9.00", 1319, _check_error),
        )
    ),
    Part("half in all three operations is the fastest", "15.63 s", 1319, reason=NEEDS_GPU),
)
EXPERIMENT = Experiment(
    name="block-precision",
    source="Table 'Performance of each setting on Darcy Flow', appendix 'FNO Block Precision Ablation Study'",
    question="Which of the block's three operations should be in half precision?",
    claim="Half precision in all three operations is the best of the eight settings in memory, time and train error.",
    parts=PARTS,
    measures=(
        Measure("train_l2", "mean train loss of the last epoch"),
        *ASSESSED,
        *STEP_MEMORY,
        Measure("seconds_per_epoch", "median over epochs", timing=True),
    ),
    configurations=configurations,
    measure=measure,
    exhibit=exhibit,
    trainings=lambda setting: (setting.training,),
    facts=lambda setting, rows: [fact for row in rows for fact in training_facts(setting.training, row)],
    scales=SCALES,
)
