"""An experiment that takes no time: squares of numbers, and a clock."""

from dataclasses import dataclass

import torch

from halfwave.experiments.experiment import Experiment, Measure
from halfwave.report.summary import Check, Comparison, Line, Summary, Verdict


@dataclass(frozen=True)
class Number:
    n: int
    label: str
    hidden: tuple = ()


class Tiny:
    """Counts what is measured, and fails at the numbers in `failing`."""

    def __init__(self, numbers=(1, 2, 3), hidden=(), version=1):
        self.measured, self.failing = [], set()
        self.experiment = Experiment(
            name="tiny",
            source="nowhere",
            question="What is n squared?",
            claim="It grows.",
            measures=(Measure("power", "exponent"), Measure("value", "n to it"), Measure("noise", "random")),
            configurations=lambda scale: [Number(n, f"number {n}", hidden) for n in numbers],
            measure=self._measure,
            summarise=_summarise,
            version=version,
        )

    def _measure(self, number, lab):
        if number.n in self.failing:
            raise RuntimeError(f"cannot do {number.n}")
        self.measured.append(number.n)
        return [{"power": p, "value": float(number.n) ** p / 3, "noise": torch.rand(()).item()} for p in (1, 2)]


def _summarise(rows):
    squares = [row["value"] for row in rows if row["power"] == 2]
    lines = tuple(Line((row["n"],), (None,), (row["value"],)) for row in rows if row["power"] == 2)
    check = Check(squares == sorted(squares), f"{len(squares)} squares grow")
    return Summary(Comparison(("n",), ("square",), lines), (), Verdict((check,)))
