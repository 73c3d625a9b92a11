"""error-curves: test error over the epochs, full against mixed precision, on four problems and three seeds."""

from __future__ import annotations

from halfwave.experiments.experiment import Experiment
from halfwave.experiments.learning_curves import MEASURES, curves, measure_curve, summarise_curves

PROBLEMS = ("navier-stokes", "darcy", "car", "shallow-water")

EXPERIMENT = Experiment(
    name="error-curves",
    source="Figure 'Test H1 error curves', section 'Error Comparison with Full-Precision', and its twin",
    question="Does mixed precision learn as well as full precision throughout a training?",
    claim="Test errors of mixed precision stay within 1% of full precision's with the same hyperparameters.",
    measures=MEASURES,
    configurations=lambda scale: curves(PROBLEMS, scale),
    measure=measure_curve,
    summarise=lambda rows: summarise_curves(rows, ()),
    trainings=lambda curve: (curve.training,),
)
