"""The plan of a scale: every training once, its memory as the trainer then counts it."""

from types import SimpleNamespace

from halfwave.experiments.experiment import Experiment
from halfwave.experiments.lab import Lab, Training
from halfwave.experiments.plan import plan_trainings
from halfwave.experiments.registry import get_experiment


def test_trainings_are_counted_once_and_their_memory_is_what_training_takes(tmp_path):
    experiment: Experiment = get_experiment("block-precision")
    plan = plan_trainings([experiment, experiment], "smoke")
    assert len(plan.trainings) == 8
    first = plan.trainings[0]
    assert first.steps == 2
    trained = Lab(tmp_path).train(first.training)
    # The trainer holds normalised copies and transform matrices besides; they are small.
    assert abs(first.peak_bytes / trained.result.peak_memory_bytes - 1) < 0.1
    assert "8 trainings" in str(plan)
    assert "MB of tensors at once" in str(plan)


def test_point_clouds_are_planned_without_memory():
    from halfwave.experiments.plan import _plan
    from halfwave.recipes import problem

    plan = _plan(Training(problem("car", "smoke"), "mixed"), {}, None)
    assert plan.steps == 8
    assert plan.peak_bytes is None


def test_seeds_share_the_count_of_a_step(monkeypatch):
    from halfwave.experiments import plan
    from halfwave.recipes import problem

    counted, counts = [], {}
    measured = SimpleNamespace(peak_bytes=2)
    monkeypatch.setattr(plan, "count_step", lambda training, device: counted.append(training) or (1.0, measured))
    trainings = [Training(problem("darcy", "smoke"), p, seed) for p in ("full", "mixed") for seed in (0, 1, 2)]
    assert [plan._plan(training, counts, None).peak_bytes for training in trainings] == [2] * 6
    assert [training.precision for training in counted] == ["full", "mixed"]
