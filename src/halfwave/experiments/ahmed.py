"""ahmed: test error over the epochs of GINO on the Ahmed body, full against the paper's method and ours."""

from __future__ import annotations

from halfwave.experiments.error_curves import (
    MEASURES,
    curve_facts,
    curve_parts,
    curves,
    exhibit_curves,
    measure_curve,
)
from halfwave.experiments.experiment import SCALES, Experiment

NOTES = ("Ahmed bodies here are generated shapes with the pressure of a panel method, in the paper's format.",)

EXPERIMENT = Experiment(
    name="ahmed",
    source="Figure 'Test L2 error curves for GINO on the Ahmed-body', appendix 'Ahmed-Body CFD Experiment'",
    question="Does mixed precision learn as well as full precision on the largest geometry?",
    claim="Test errors of mixed precision follow full precision's on the Ahmed body too.",
    parts=curve_parts(("ahmed",), 1158),
    measures=MEASURES,
    configurations=lambda scale: curves(("ahmed",), scale),
    measure=measure_curve,
    exhibit=lambda rows: exhibit_curves(rows, NOTES),
    trainings=lambda curve: (curve.training,),
    facts=curve_facts,
    scales=SCALES,
)
