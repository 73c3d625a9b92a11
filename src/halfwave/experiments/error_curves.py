"""error-curves: test error over the epochs, full against the paper's method and ours, on four problems."""

from __future__ import annotations

from halfwave.experiments.experiment import SCALES, Experiment
from halfwave.experiments.learning_curves import (
    MEASURES,
    curve_facts,
    curve_parts,
    curves,
    exhibit_curves,
    further_curves,
    measure_curve,
)

PROBLEMS = ("navier-stokes", "darcy", "car", "shallow-water")

EXPERIMENT = Experiment(
    name="error-curves",
    source="Figure 'Test H1 error curves', section 'Error Comparison with Full-Precision', and its twin",
    question="Does mixed precision learn as well as full precision throughout a training?",
    claim="Test errors of mixed precision stay within 1% of full precision's with the same hyperparameters.",
    parts=curve_parts(PROBLEMS, 384),
    measures=MEASURES,
    configurations=lambda scale: curves(PROBLEMS, scale),
    measure=measure_curve,
    exhibit=lambda rows: exhibit_curves(rows, ()),
    trainings=lambda curve: (curve.training,),
    further=further_curves,
    facts=curve_facts,
    scales=SCALES,
)
