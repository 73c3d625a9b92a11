"""halfwave reproduce: lists, runs, resumes, and names what failed."""

import csv

import pytest

from halfwave.commands import reproduce
from halfwave.experiments import registry

QUICK = "greedy-path"


def test_the_paper_s_experiments_come_first_and_ours_last():
    assert len(registry.EXPERIMENTS) == 32
    assert next(iter(registry.EXPERIMENTS)) == "overview"
    assert list(registry.EXPERIMENTS)[-5:] == [
        "precision-swap", "cost-of-half", "train-in-half", "gradient-underflow", "apebench",
    ]  # fmt: skip


def test_each_module_holds_the_experiment_of_its_name():
    for name in registry.NAMES:
        experiment = registry.get_experiment(name)
        assert experiment.name == name
        assert experiment.question.endswith("?")
        assert experiment.claim.endswith(".")
        for scale in experiment.scales:
            assert experiment.keyed(scale)


def test_an_experiment_runs_and_is_listed_as_done(command, tmp_path):
    code, out, err = command("reproduce", QUICK, "--scale", "smoke", "--out", tmp_path)
    assert code == 0, err
    assert "verdict: in part" in out
    with open(tmp_path / "smoke" / f"{QUICK}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert all(int(row["planned_peak_bytes"]) > 0 for row in rows)
    code, out, _ = command("reproduce", "--out", tmp_path)
    assert code == 0
    assert "done" in out
    assert "not run" in out


def test_an_edit_is_said_in_the_list_and_in_the_run(command, tmp_path):
    command("reproduce", QUICK, "--out", tmp_path)
    path = tmp_path / "smoke" / f"{QUICK}.csv"
    before = path.read_text()
    path.write_text(before.replace("tucker", "tuckers"))
    assert "changed" in command("reproduce", "--out", tmp_path)[1]
    _, _, err = command("reproduce", QUICK, "--out", tmp_path)
    assert "changed by hand" in err
    assert path.read_text() == before


def test_one_failing_experiment_does_not_stop_the_others(command, tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "experiment_names", lambda: ["block-precision", QUICK])
    real = reproduce.run

    def failing(experiment, *arguments, **options):
        if experiment.name == "block-precision":
            raise RuntimeError("a made-up failure")
        return real(experiment, *arguments, **options)

    monkeypatch.setattr(reproduce, "run", failing)
    code, out, err = command("reproduce", "all", "--out", tmp_path)
    assert code == 1
    assert QUICK in out
    assert "a made-up failure" in err
    assert err.rstrip().splitlines()[-1] == "halfwave: 1 of 2 experiments failed: block-precision"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "unknown experiment 'nonsense': expected all or one of overview"),
        ([QUICK, "--scale", "medium"], "greedy-path has no scale 'medium': expected one of smoke, small, paper"),
        ([QUICK, "--scale", "huge"], "unknown scale 'huge': expected one of smoke, small, medium, paper"),
    ],
)
def test_bad_names_are_one_line(fails, arguments, message):
    fails(2, message, "reproduce", *arguments)
