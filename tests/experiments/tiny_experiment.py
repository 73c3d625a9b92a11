"""An experiment that takes no time: squares of numbers, and a clock."""

import time
from dataclasses import dataclass

import torch

from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import Experiment, Measure
from halfwave.report import Comparison, Exhibit, Line, Outcome


@dataclass(frozen=True)
class Number:
    n: int
    label: str
    hidden: tuple = ()


class Tiny:
    """Counts what is measured, and fails at the numbers in `failing`."""

    def __init__(self, numbers=(1, 2, 3), hidden=(), further=(), pause=0.0):
        self.measured, self.failing, self.pause = [], set(), pause
        self.experiment = Experiment(
            name="tiny",
            source="nowhere",
            question="What is n squared?",
            claim="It grows.",
            parts=(Part("squares grow", check=_check),),
            measures=(Measure("power", "exponent"), Measure("value", "n to it"), Measure("noise", "random")),
            configurations=lambda scale: [Number(n, f"number {n}", hidden) for n in numbers],
            measure=self._measure,
            exhibit=_exhibit,
            further=lambda scale, rows: [Number(n, f"number {n}", hidden) for n in further if len(rows) >= 6],
        )

    def _measure(self, number, lab):
        if number.n in self.failing:
            raise RuntimeError(f"cannot do {number.n}")
        self.measured.append(number.n)
        time.sleep(self.pause)
        return [{"power": p, "value": float(number.n) ** p / 3, "noise": torch.rand(()).item()} for p in (1, 2)]


def _exhibit(rows):
    lines = tuple(Line((row["n"],), (None,), (row["value"],)) for row in rows if row["power"] == 2)
    return Exhibit(Comparison(("n",), ("square",), lines))


def _check(rows):
    squares = [row["value"] for row in rows if row["power"] == 2]
    return Outcome.of(squares == sorted(squares), f"{len(squares)} squares grow")
