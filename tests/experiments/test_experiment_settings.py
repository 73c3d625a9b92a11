"""What experiments train is what their keys say; budgets, methods and measures against known answers."""

import pytest
import torch

from halfwave.experiments import contraction, error_curves, preactivation_spectrum
from halfwave.experiments.budgets import epochs_of, in_measured_time, navier_stokes
from halfwave.experiments.cp_contraction import Block, CPContraction
from halfwave.experiments.experiment import scalars
from halfwave.experiments.methods import mean, train_as, with_deviation
from halfwave.experiments.overflow import on_paper_grid, raw_darcy
from halfwave.experiments.registry import NAMES, get_experiment
from halfwave.models import build_model
from halfwave.recipes import problem
from halfwave.spectral import execute


@pytest.mark.parametrize("name", NAMES)
def test_configurations_train_what_their_keys_say(name):
    """With the seed of the key, the formats of the precision, and a model that its arguments build; at all scales."""
    experiment, built = get_experiment(name), set()
    for scale in experiment.scales:
        for configuration in experiment.keyed(scale).values():
            for training in experiment.trainings(configuration):
                config = training.config("")
                assert config.seed == scalars(configuration).get("seed", 0)
                policy = config.build_schedule().policy_at(0.0)
                if config.precision in ("amp", "mixed"):
                    assert policy.pointwise == config.dtype
                if config.precision in ("half", "mixed"):
                    assert policy.contraction == config.dtype
                if (arguments := repr((config.model, config.model_arguments(1, 1)))) not in built:
                    built.add(arguments)
                    with torch.device("meta"):
                        assert any(True for _ in build_model(config.model, config.model_arguments(1, 1)).parameters())


def test_the_two_methods_are_what_they_are_called():
    paper, ours = (train_as(m, problem("darcy", "small")).config("") for m in ("paper", "ours"))
    assert (paper.backend, paper.stabilizer, paper.dtype, paper.loss_scaling) == ("fft", "tanh", "fp16", True)
    assert (ours.backend, ours.stabilizer, ours.dtype, ours.loss_scaling) == (None, "auto", "fp16", True)
    assert train_as("ours-bf16", problem("darcy", "small")).config("").loss_scaling is False
    # A sphere's transform takes means in both backends and chooses by itself.
    assert train_as("paper", problem("shallow-water", "small")).config("").backend is None


def test_the_seed_decides_the_data_but_for_the_paper_s_own():
    assert train_as("full", problem("darcy", "small"), 3).data_seed == 3
    assert train_as("full", problem("darcy", "paper"), 3).data_seed == 0


def test_a_mean_over_seeds_needs_every_seed():
    rows = [{"l2": 0.1}, {"l2": 0.3}]
    assert mean(rows, "l2") == pytest.approx(0.2)
    assert with_deviation(rows, "l2") == "0.2 ± 0.1"
    assert mean([*rows, {"l2": None}], "l2") is None
    assert with_deviation([*rows, {"l2": None}], "l2") is None


def test_equal_time_is_more_epochs_for_what_is_faster():
    assert epochs_of("full", 500) == 500
    assert epochs_of("mixed", 500) == 757
    assert 500 < epochs_of("schedule", 500) < 757
    # Equal epochs need no change of the recipe, so that the training is the one of 'overview'.
    assert "epochs" not in navier_stokes("schedule", "epochs", "small", 0).changes


def test_equal_time_on_this_machine_is_that_of_the_steps_measured():
    class Lab:
        def compare(self, trainings, steps):
            assert set(trainings) == {"mixed", "amp", "full"}
            return {name: {"samples_per_second": 2.0 if name == "full" else 4.0} for name in trainings}

    found = in_measured_time(navier_stokes("schedule", "epochs", "small", 0), Lab(), 3)
    full_epochs = problem("navier-stokes", "small").training["epochs"]
    assert found.changes["epochs"] == round(full_epochs / (0.75 * 0.5 + 0.25))


def test_a_curve_that_stopped_has_a_last_row_without_errors():
    class Lab:
        def train(self, training):
            row = {"epoch": 1, "test_l2": 0.5, "test_h1": None, "test_l2_full": 0.5, "test_h1_full": None}
            return type("Trained", (), {"epochs": [{**row, "peak_memory_bytes": 7, "activation_bytes": 3}]})

        def assess(self, training):
            names = ("l2", "h1", "l2_full", "h1_full", "rounding")
            return {**dict.fromkeys(names), "mean_l2": 1.0, "linear_l2": 0.5}

    curve = error_curves.curves(("car",), "smoke")[0]
    rows = error_curves.measure_curve(curve, Lab())
    assert [(r["epoch"], r["l2"], r["last"]) for r in rows] == [(1, 0.5, False), (2, None, True)]


def test_all_options_of_the_contraction_agree():
    contracted = CPContraction(Block(modes=6, channels=4, batch=2, rank=0.05))
    results = [execute(contracted.plan(o), contracted.operands, contracted.arith).double() for o in contraction.OPTIONS]
    for result in results[1:]:
        assert (result - results[0]).norm() < 5e-3 * results[0].norm()


def test_spectral_changes_are_those_of_a_known_signal():
    n = torch.arange(16, dtype=torch.float64) / 16
    field = (torch.cos(2 * torch.pi * 3 * n)[None, :] * torch.ones(16, 1)).view(1, 1, 16, 16)
    half = {row["band"]: row for row in preactivation_spectrum.spectral_changes(field, 0.5 * field)}
    assert half[3]["amplitude_change"] == pytest.approx(0.5)
    assert half[-1]["phase_change"] == pytest.approx(0, abs=1e-12)
    turned = preactivation_spectrum.spectral_changes(field, field.roll(1, dims=-1))
    assert {row["band"]: row for row in turned}[3]["phase_change"] == pytest.approx(2 * torch.pi * 3 / 16)


def test_raw_darcy_is_not_normalised_and_the_paper_s_grid_is():
    recipe = raw_darcy("smoke", 160)
    assert recipe.training["normalise"] is False
    assert recipe.parameters["resolution"] == 160
    assert raw_darcy("paper", 256).n_train == 5000
    on_grid = on_paper_grid("navier-stokes", "small")
    assert on_grid.parameters == {"resolution": 128}
    assert "normalise" not in on_grid.training
