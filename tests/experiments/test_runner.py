"""Result files: resumed, recomputed with the same numbers, and checked against changes by hand."""

import json

import pytest
from tiny_experiment import Tiny

from halfwave.errors import InputError
from halfwave.experiments.results import read_results
from halfwave.experiments.runner import run, summarise
from halfwave.training import claimed


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results"


def csv_of(folder):
    return folder / "smoke" / "tiny.csv"


def test_rows_have_key_configuration_and_measures(folder):
    results = run(Tiny().experiment, "smoke", folder)
    lines = csv_of(folder).read_text().splitlines()
    assert lines[0] == "key,n,label,power,value,noise"
    assert len(lines) == 1 + 3 * 2
    assert results.state == "done"
    assert summarise(results).verdict.sentence == "Confirmed at this scale: 3 squares grow."


def test_a_second_process_is_told_what_holds_the_experiment(folder):
    held = claimed(folder / "smoke" / ".runs" / "experiment-tiny", "measuring")
    with held, pytest.raises(InputError, match="another process is measuring 'tiny' in"):
        run(Tiny().experiment, "smoke", folder)


def test_what_is_done_is_not_measured_again(folder):
    run(Tiny().experiment, "smoke", folder)
    again = Tiny()
    run(again.experiment, "smoke", folder)
    assert again.measured == []


def test_a_failure_keeps_what_was_measured_and_a_resumed_run_gives_the_same_file(folder, tmp_path):
    run(Tiny().experiment, "smoke", tmp_path / "whole")
    broken = Tiny()
    broken.failing = {2}
    with pytest.raises(RuntimeError, match="cannot do 2"):
        run(broken.experiment, "smoke", folder)
    assert read_results(broken.experiment, "smoke", folder).state == "1 of 3"
    resumed = Tiny()
    run(resumed.experiment, "smoke", folder)
    assert resumed.measured == [2, 3]
    assert csv_of(folder).read_bytes() == csv_of(tmp_path / "whole").read_bytes()


def test_a_process_killed_between_the_two_files_is_not_taken_for_an_edit(folder):
    run(Tiny().experiment, "smoke", folder)
    text = csv_of(folder).read_text().splitlines(keepends=True)
    csv_of(folder).write_text("".join(text[:-2]))  # the record has the last row, the file has not
    results = read_results(Tiny().experiment, "smoke", folder)
    assert results.edited == []
    assert results.state == "2 of 3"


@pytest.mark.parametrize("delete", ["csv", "both", "row"])
def test_deleted_results_come_back_the_same(folder, delete):
    run(Tiny().experiment, "smoke", folder)
    before = csv_of(folder).read_bytes()
    if delete == "row":
        lines = before.decode().splitlines(keepends=True)
        csv_of(folder).write_text("".join(lines[:1] + lines[3:]))
    else:
        csv_of(folder).unlink()
    if delete == "both":
        csv_of(folder).with_suffix(".json").unlink()
    run(Tiny().experiment, "smoke", folder)
    assert csv_of(folder).read_bytes() == before


@pytest.mark.parametrize("change", ["digit", "column", "added"])
def test_a_change_by_hand_is_said_and_measured_again(folder, change):
    run(Tiny().experiment, "smoke", folder)
    before = csv_of(folder).read_text()
    extra = "n=9 label=number 9,9,number 9,1,3.0,0.5\n"
    changed = {
        "digit": before.replace("1.3333333333333333", "1.3333333333333330"),
        "column": before.replace("value", "values"),
        "added": before + extra,
    }[change]
    assert changed != before
    csv_of(folder).write_text(changed)
    experiment = Tiny().experiment
    results = read_results(experiment, "smoke", folder)
    assert "changed by hand" in results.state
    with pytest.raises(InputError, match="changed by hand"):
        summarise(results)
    said = []
    run(experiment, "smoke", folder, say=said.append)
    assert "changed by hand" in said[0]
    assert len(said) == {"digit": 1, "column": 3, "added": 1}[change]
    assert csv_of(folder).read_text() == before


def test_a_record_that_was_removed_leaves_nothing_to_trust(folder):
    run(Tiny().experiment, "smoke", folder)
    csv_of(folder).with_suffix(".json").unlink()
    again = Tiny()
    run(again.experiment, "smoke", folder, say=lambda message: None)
    assert again.measured == [1, 2, 3]


@pytest.mark.parametrize("change", [{"hidden": (1,)}, {"version": 2}])
def test_other_settings_under_the_same_key_are_measured_again(folder, change):
    run(Tiny().experiment, "smoke", folder)
    other = Tiny(**change)
    assert read_results(other.experiment, "smoke", folder).state == "0 of 3"
    run(other.experiment, "smoke", folder)
    assert other.measured == [1, 2, 3]


def test_rows_of_dropped_configurations_leave_the_file_and_new_ones_take_their_place(folder):
    run(Tiny((1, 3, 4)).experiment, "smoke", folder)
    other = Tiny((1, 2, 3))
    run(other.experiment, "smoke", folder)
    assert other.measured == [2]
    assert [row["n"] for row in read_results(other.experiment, "smoke", folder).all_rows] == [1, 1, 2, 2, 3, 3]


def test_the_record_says_what_and_where(folder):
    run(Tiny().experiment, "smoke", folder)
    record = json.loads(csv_of(folder).with_suffix(".json").read_text())
    assert record["scale"] == "smoke"
    entry = record["rows"]["n=1 label=number 1"]
    assert set(entry) == {"configuration", "sha256", "seconds", "date", "environment"}
    assert record["environments"][entry["environment"]]["cores"] >= 1


def test_two_configurations_with_one_key_are_refused(folder):
    with pytest.raises(ValueError, match="same key"):
        run(Tiny((1, 1)).experiment, "smoke", folder)
