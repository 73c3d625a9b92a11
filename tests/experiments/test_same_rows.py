"""benchmarks/same_rows.py: changed code that gives the same digits for the first updates leaves rows as they are."""

import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from test_vouching import Seeded, other_code  # noqa: F401  (a fixture)

from halfwave.experiments.lab import Training
from halfwave.experiments.registry import NAMES, get_experiment
from halfwave.experiments.results import read_results
from halfwave.experiments.runner import run
from halfwave.numerics import get_format, multiplies_natively

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import same_rows


def trainings_in(value):
    if isinstance(value, Training):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [training for part in (*parts, *getattr(value, "__dict__", {}).values()) for training in trainings_in(part)]


@pytest.mark.parametrize("name", [name for name in NAMES if "medium" in get_experiment(name).scales])
def test_what_is_cut_is_the_same_training_of_a_few_updates(name):
    for configuration in get_experiment(name).keyed("medium").values():
        cut = same_rows.shortened(configuration)
        assert type(cut) is type(configuration)
        pairs = list(zip(trainings_in(configuration), trainings_in(cut), strict=True))
        assert pairs
        for whole, short in pairs:
            old, new = whole.config("").to_dict(), short.config("").to_dict()
            assert {name for name in new if new[name] != old[name]} <= {
                "epochs", "evaluate_every", "checkpoint_every", "n_train", "n_test",
            }  # fmt: skip
            assert new["epochs"] == same_rows.EPOCHS
            assert short.recipe.n_train == max(same_rows.SAMPLES, new["batch_size"])
            assert short.recipe.parameters == whole.recipe.parameters
            assert (short.recipe.model, short.recipe.arguments) == (whole.recipe.model, whole.recipe.arguments)


@pytest.fixture
def stale(tmp_path, other_code, monkeypatch):  # noqa: F811
    """Six rows of two settings by the first code, where the second stands."""
    seeded = Seeded().experiment
    monkeypatch.setattr("halfwave.experiments.registry._OWN", {"seeded": seeded})
    other_code("first")
    run(seeded, "smoke", tmp_path)
    other_code("second")
    assert len(read_results(seeded, "smoke", tmp_path).stale) == 6
    return tmp_path


def look(monkeypatch, stale, numbers, codes=("first", "second")):
    """Of both checkouts: the code, and the numbers of settings a and b."""

    def measured_by(checkout, keys, scale, directory, multiplies):
        which = 0 if checkout == Path("other") else 1
        found = [numbers[which][key[8]] for _, key in keys]
        return [same_rows.Beginning(codes[which], number and [{"number": number}]) for number in found]

    monkeypatch.setattr(same_rows, "measured_by", measured_by)
    return same_rows.look_at(["seeded"], "smoke", Path("other"), stale)


def test_the_same_digits_leave_rows_as_they_are_and_others_make_them_stale(stale, monkeypatch, capsys):
    assert look(monkeypatch, stale, ({"a": "1", "b": "2"}, {"a": "1", "b": "3"})) == 3
    results = read_results(get_experiment("seeded"), "smoke", stale)
    assert sorted(results.stale) == [f"setting=b seed={seed}" for seed in range(3)]
    assert len(results.vouched) == 3
    assert "setting=b seed=0 and 2 others: other digits" in capsys.readouterr().out


def test_one_witness_after_the_other_and_a_row_that_is_measured_later(stale, monkeypatch, other_code):  # noqa: F811
    same = {"a": "1", "b": "2"}
    assert look(monkeypatch, stale, (same, same)) == 0
    other_code("third")
    assert look(monkeypatch, stale, (same, {**same, "b": "x"}), codes=("second", "third")) == 3
    again = Seeded()
    results = run(again.experiment, "smoke", stale)
    assert again.measured == [("b", 0)], "that gives its digits, and stands for its seeds"
    assert (results.stale, len(results.record["witnesses"])) == ([], 3), "what the record knew is kept"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"codes": ("zeroth", "second")}, "not the other checkout's"),
        ({"numbers": ({"a": None, "b": None}, {"a": "1", "b": "2"})}, "cannot be cut"),
    ],
)
def test_why_rows_stay_stale(stale, monkeypatch, capsys, changes, words):
    given = {"numbers": ({"a": "1", "b": "2"}, {"a": "1", "b": "2"})} | changes
    assert look(monkeypatch, stale, **given) == 6
    assert words in capsys.readouterr().out
    assert "witnesses" not in read_results(get_experiment("seeded"), "smoke", stale).record


def test_rows_of_another_kind_of_machine_are_not_even_measured(stale, monkeypatch, capsys):
    native = "none" if multiplies_natively(get_format("bf16"), "cpu") else "bf16"
    monkeypatch.setattr(same_rows, "measured_by", None)
    assert same_rows.look_at(["seeded"], "smoke", Path("other"), stale, native) == 6
    assert capsys.readouterr().out.count("was measured on a machine of another kind") == 2
    assert "witnesses" not in read_results(get_experiment("seeded"), "smoke", stale).record


def test_a_beginning_travels_between_processes():
    found = same_rows.Beginning("code", [{"number": "0.1"}], "why")
    assert same_rows.Beginning(**asdict(found)) == found


def test_a_forged_list_of_witnesses_is_named(stale):
    path = stale / "smoke" / "seeded.json"
    path.write_text(path.read_text().replace('"rows": {', '"witnesses": [["a", "b"]], "rows": {', 1))
    with pytest.raises(ValueError, match="witnesses must be lists"):
        read_results(get_experiment("seeded"), "smoke", stale)
