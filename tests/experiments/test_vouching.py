"""Rows of other code: where one seed of a setting comes out the same to the digit, the others need no measuring."""

import json
from dataclasses import dataclass

import pytest

from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import Experiment, Measure
from halfwave.experiments.gathering import gather
from halfwave.experiments.results import read_results
from halfwave.experiments.runner import run
from halfwave.report import Comparison, Exhibit, Line, Outcome


@dataclass(frozen=True)
class Throw:
    setting: str
    seed: int
    trainings: dict[str, dict[str, int]]


class Seeded:
    """Two settings with three seeds each; what a setting gives may be moved, as a change of its code would."""

    def __init__(self, moved=(), whole=range(3)):
        self.measured, self.moved, self.clock = [], dict(moved), 0.0
        self.experiment = Experiment(
            name="seeded",
            source="nowhere",
            question="What does a seed give?",
            claim="A number.",
            parts=(Part("it is one", check=lambda rows: Outcome.of(bool(rows), f"{len(rows)} numbers")),),
            measures=(Measure("value", "what comes out"), Measure("seconds", "of it", timing=True)),
            configurations=lambda scale: [
                Throw(setting, seed, {"full": {"seed": seed}} | ({"half": {"seed": seed}} if seed in whole else {}))
                for setting in "ab"
                for seed in range(3)
            ],
            measure=self._measure,
            exhibit=lambda rows: Exhibit(Comparison(("n",), ("v",), (Line((1,), (None,), (1.0,)),))),
        )

    def _measure(self, throw, lab):
        self.measured.append((throw.setting, throw.seed))
        self.clock += 1.0
        return [{"value": throw.seed / 3 + self.moved.get(throw.setting, 0.0), "seconds": self.clock}]


@pytest.fixture
def other_code(monkeypatch):
    """Says of which code everything is from now on."""
    return lambda name: monkeypatch.setattr("halfwave.experiments.experiment.code_digest", lambda measure: name)


@pytest.fixture
def measured(tmp_path, other_code):
    other_code("first")
    run(Seeded().experiment, "smoke", tmp_path)
    return tmp_path


def test_one_seed_of_each_setting_stands_for_the_others(measured, other_code):
    other_code("second")
    before = read_results(Seeded().experiment, "smoke", measured)
    assert before.state == "done, 6 stale"
    again = Seeded()
    results = run(again.experiment, "smoke", measured)
    assert again.measured == [("a", 0), ("b", 0)]
    assert results.state == "done"
    assert (len(results.stale), len(results.vouched)) == (0, 4)
    assert [row["value"] for row in results.all_rows] == [row["value"] for row in before.all_rows]
    assert (
        "4 of 6 points were measured by other code, whose numbers"
        in gather([again.experiment], "smoke", measured).findings[0].remark
    )


def test_a_setting_that_gives_another_number_is_measured_anew_as_a_whole(measured, other_code):
    other_code("second")
    again = Seeded(moved={"b": 1e-15})
    results = run(again.experiment, "smoke", measured)
    assert again.measured == [("a", 0), ("b", 0), ("b", 1), ("b", 2)]
    assert (results.state, len(results.vouched)) == ("done", 2)


def test_through_several_changes_and_not_past_one_that_moves_a_number(measured, other_code):
    for name in ("second", "third"):
        other_code(name)
        again = Seeded()
        run(again.experiment, "smoke", measured)
        assert again.measured == [("a", 0), ("b", 0)]
    other_code("fourth")
    again = Seeded(moved={"a": 0.5})
    run(again.experiment, "smoke", measured)
    assert sorted(again.measured) == [("a", 0), ("a", 1), ("a", 2), ("b", 0)]
    other_code("first")  # taken back: the rows of b are of it, those of a of the fourth
    again = Seeded()
    results = run(again.experiment, "smoke", measured)
    assert sorted(again.measured) == [("a", 0), ("a", 1), ("a", 2), ("b", 0)]
    assert results.state == "done"


def test_rows_of_another_machine_are_not_vouched_for(measured, other_code):
    path = measured / "smoke" / "seeded.json"
    record = json.loads(path.read_text())
    record["environments"].append({**record["environments"][0], "cpu": "of another kind"})
    record["rows"]["setting=a seed=2"]["environment"] = 1
    record["environments"].append({**record["environments"][0], "git": {"commit": "of another time"}})
    record["rows"]["setting=b seed=2"]["environment"] = 2
    path.write_text(json.dumps(record))
    other_code("second")
    again = Seeded()
    run(again.experiment, "smoke", measured)
    assert again.measured == [("a", 0), ("a", 2), ("b", 0)]


def test_a_row_changed_by_hand_vouches_for_nothing(measured, other_code):
    path = measured / "smoke" / "seeded.csv"
    path.write_text(path.read_text().replace("setting=a seed=0,a,0,0.0,", "setting=a seed=0,a,0,0.00,"))
    other_code("second")
    again = Seeded()
    run(again.experiment, "smoke", measured, say=lambda message: None)
    assert again.measured == [("a", 0), ("a", 1), ("b", 0)], "the next of its group does"


def test_a_seed_with_fewer_trainings_does_not_stand_for_one_with_more(tmp_path, other_code):
    other_code("first")
    run(Seeded(whole=(1, 2)).experiment, "smoke", tmp_path)
    other_code("second")
    again = Seeded(whole=(1, 2))
    run(again.experiment, "smoke", tmp_path)
    assert sorted(again.measured) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
