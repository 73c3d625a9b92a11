"""Certificates and plans of FNO blocks that are not neuraloperator's default: a bound that holds, or none."""

import pytest
import torch

import halfwave as hw
from halfwave.models import FNO, GridEmbedding
from halfwave.planner import plan_precision


def _model(**options):
    torch.manual_seed(0)
    return FNO((6, 6), 1, 1, 8, n_layers=2, **options)


def _field():
    return torch.randn(2, 1, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    "options",
    [
        {"non_linearity": "relu"},
        {"non_linearity": "silu"},
        {"non_linearity": "tanh"},
        {"lifting_channel_ratio": 0},
        {"positional_embedding": GridEmbedding([[-3, 3], [0, 7]])},
        {"max_n_modes": (10, 10)},
    ],
)
@pytest.mark.parametrize("precision", ["full", "mixed"])
def test_errors_stay_below_the_bound(options, precision):
    certificate = hw.certify(_model(**options), _field(), precision, grid_samples=0)
    assert bool((certificate.measured_error > 0).all())
    assert certificate.answer_bound is not None
    assert certificate.holds


@pytest.mark.parametrize(
    "options",
    [
        {"norm": "group_norm"},
        {"preactivation": True},
        {"non_linearity": "softplus"},
        {"positional_embedding": "sinusoidal"},
    ],
)
def test_there_is_no_bound_where_no_theorem_covers_a_block(options):
    certificate = hw.certify(_model(**options), _field(), "mixed", grid_samples=0)
    assert certificate.answer_bound is None
    assert bool((certificate.measured_error > 0).all())
    assert any("no composed bound" in note for note in certificate.notes)


def test_the_format_of_a_block_is_tried_on_its_norms_as_well():
    plan = plan_precision(_model(norm="instance_norm"), _field(), max_error=0.05)
    assert {choice.stage for choice in plan.choices} >= {"pointwise", "contraction"}
