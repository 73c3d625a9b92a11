"""block-precision: forward transform, contraction and inverse transform of the FNO block, each in full or half."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from halfwave.experiments.experiment import Experiment, Measure, Row, Scale
from halfwave.experiments.lab import Lab, Training
from halfwave.recipes import BLOCK_MB, problem
from halfwave.report import Check, Comparison, Line, Panel, Series, Summary, Verdict

# Forward, contraction, inverse: seconds per epoch, train error after 30 epochs on Darcy flow (as printed; it is no
# relative error, the paper gives no unit).
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
EPOCHS: dict[Scale, int] = {"smoke": 1, "small": 8, "paper": 30}


@dataclass(frozen=True)
class Setting:
    """One of the eight settings, trained on Darcy flow."""

    setting: str
    training: Training


def configurations(scale: Scale) -> list[Setting]:
    changes = {"epochs": EPOCHS[scale], "loss": "l2"}
    return [Setting(setting, Training(problem("darcy", scale), setting, changes=changes)) for setting in PAPER]


def measure(setting: Setting, lab: Lab) -> list[dict[str, Any]]:
    trained = lab.train(setting.training)
    if trained.result is None:
        raise RuntimeError(f"{setting.setting} diverged: {trained.reason}")
    return [
        {
            "train_l2": trained.result.train_loss,
            "test_l2": trained.result.l2,
            "peak_memory_bytes": trained.result.peak_memory_bytes,
            "activation_bytes": trained.result.activation_bytes,
            "seconds_per_epoch": statistics.median(row["seconds"] for row in trained.epochs),
        }
    ]


def summarise(rows: list[Row]) -> Summary:
    found = {row["setting"]: row for row in rows}
    lines = tuple(_line(setting, row) for setting, row in found.items())
    memory = Series("ours", tuple(found), tuple(row["activation_bytes"] / 1e6 for row in rows), "bars")
    error = Series("ours", tuple(found), tuple(row["train_l2"] for row in rows), "bars")
    return Summary(
        Comparison(
            ("forward FFT", "contraction", "inverse FFT"),
            ("seconds per epoch", "memory, MB", "train error, L2", "activations, MB"),
            lines,
        ),
        (
            Panel("activations of a training step", "forward, contraction, inverse", "MB", (memory,)),
            Panel("train error", "forward, contraction, inverse", "relative L2", (error,)),
        ),
        Verdict((_leanest(found), _accurate(found))),
        ("Memory is the largest sum of live tensors in a training step; the paper's is that of a GPU.",),
    )


def _line(setting: str, row: Row) -> Line:
    seconds, error = PAPER[setting]
    return Line(tuple(setting), (seconds, BLOCK_MB[setting], error, None), _figures(row))


def _figures(row: Row) -> tuple[float, ...]:
    memory, activations = row["peak_memory_bytes"] / 1e6, row["activation_bytes"] / 1e6
    return row["seconds_per_epoch"], memory, row["train_l2"], activations


def _leanest(found: dict[str, Row]) -> Check:
    bytes_of = {setting: row["peak_memory_bytes"] for setting, row in found.items()}
    least = min(bytes_of.values())
    share = 100 * (1 - bytes_of["HHH"] / bytes_of["FFF"])
    leanest = [setting for setting, nbytes in bytes_of.items() if nbytes == least]
    return Check(
        "HHH" in leanest, f"the leanest is {' and '.join(leanest)}, half in all three takes {share:.1f}% less than full"
    )


def _accurate(found: dict[str, Row]) -> Check:
    change = 100 * (found["HHH"]["train_l2"] / found["FFF"]["train_l2"] - 1)
    return Check(change < 2, f"its train error is {abs(change):.1f}% {'higher' if change > 0 else 'lower'} than full's")


EXPERIMENT = Experiment(
    name="block-precision",
    source="Table 'Performance of each setting on Darcy Flow', appendix 'FNO Block Precision Ablation Study'",
    question="Which of the block's three operations should be in half precision?",
    claim="Half precision in all three operations has the least memory of the eight settings, at no loss of accuracy.",
    measures=(
        Measure("train_l2", "mean train loss of the last epoch"),
        Measure("test_l2", "relative L2 on the test split"),
        Measure("peak_memory_bytes", "largest sum of live tensors in a training step"),
        Measure("activation_bytes", "without parameters, gradients, optimizer state and batch"),
        Measure("seconds_per_epoch", "median over epochs", timing=True),
    ),
    configurations=configurations,
    measure=measure,
    summarise=summarise,
    trainings=lambda setting: (setting.training,),
)
