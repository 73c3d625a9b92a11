"""The plan of a scale: every training once, its memory as the trainer then counts it."""

from types import SimpleNamespace

import pytest

from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.plan import plan_trainings
from halfwave.experiments.registry import get_experiment
from halfwave.recipes import problem


def _experiment(*trainings):
    """One that needs these trainings."""
    return SimpleNamespace(keyed=lambda scale: {"all": trainings}, trainings=lambda configuration: configuration)


@pytest.fixture
def no_rates(monkeypatch):
    """The speed of this machine is not asked for."""
    monkeypatch.setattr("halfwave.experiments.plan.measure_rates", lambda: SimpleNamespace(fp32=1e9))


@pytest.mark.usefixtures("no_rates")
def test_trainings_are_counted_once_and_their_memory_is_what_training_takes(tmp_path):
    experiment = _experiment(*(Training(problem("darcy", "smoke"), precision) for precision in ("mixed", "full")))
    plan = plan_trainings([experiment, experiment], "smoke")
    assert len(plan.trainings) == 2
    first = plan.trainings[0]
    assert first.steps == 4
    trained = Lab(tmp_path).train(first.training)
    # The trainer holds normalised copies and transform matrices besides; they are small.
    assert abs(first.peak_bytes / trained.result.peak_memory_bytes - 1) < 0.1
    assert "2 trainings" in str(plan)
    assert "MB of tensors at once" in str(plan)


def test_an_experiment_of_the_paper_lists_its_trainings():
    experiment = get_experiment("block-precision")
    assert len({repr(t) for c in experiment.keyed("smoke").values() for t in experiment.trainings(c)}) == 16


@pytest.mark.usefixtures("no_rates")
def test_point_clouds_are_planned_without_memory():
    [plan] = plan_trainings([_experiment(Training(problem("car", "smoke"), "mixed"))], "smoke").trainings
    assert plan.steps == 8
    assert plan.peak_bytes is None


@pytest.mark.usefixtures("no_rates")
def test_seeds_share_the_count_of_a_step(monkeypatch):
    counted, measured = [], SimpleNamespace(peak_bytes=2)
    monkeypatch.setattr(
        "halfwave.experiments.plan.count_step", lambda training, device: counted.append(training) or (1.0, measured)
    )
    trainings = [Training(problem("darcy", "smoke"), p, seed) for p in ("full", "mixed") for seed in (0, 1, 2)]
    assert [plan.peak_bytes for plan in plan_trainings([_experiment(*trainings)], "smoke").trainings] == [2] * 6
    assert [training.precision for training in counted] == ["full", "mixed"]
