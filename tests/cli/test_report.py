"""halfwave report: one page of what is there; what is not there, not whole or not trusted is said."""

import csv

import pytest

from halfwave.commands import report
from halfwave.experiments.gathering import describe_machine, describe_setting
from halfwave.experiments.registry import get_experiment

QUICK = "synthetic-spectrum"
NAMES = ["block-precision", QUICK, "greedy-path"]


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(report, "experiment_names", lambda: NAMES)


@pytest.fixture
def results(command, tmp_path):
    assert command("reproduce", QUICK, "--out", tmp_path / "results")[0] == 0
    return tmp_path / "results"


def test_page_text_table_and_plots_of_what_is_there(command, results):
    code, out, err = command("report", "--results", results)
    assert code == 0, err
    assert "1 confirmed, 0 in part, 0 refuted, 0 undetermined, 0 not testable here, 2 missing" in out
    folder = results / "smoke"
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Confirmed (2 of 2 parts): with fft the percentage error grows" in page
    assert f"halfwave reproduce {QUICK} --scale smoke --out {results}" in page
    assert "There is no result at this scale." in page
    assert "## synthetic-spectrum" in (folder / "report.md").read_text(encoding="utf-8")
    assert (folder / "plots" / f"{QUICK}.png").exists()
    with open(folder / "report.csv", newline="") as file:
        assert {row["experiment"] for row in csv.DictReader(file)} == {QUICK}


def test_out_is_a_page_or_a_folder(command, results, tmp_path):
    assert command("report", "--results", results, "--out", tmp_path / "web" / "index.html")[0] == 0
    assert {p.name for p in (tmp_path / "web").iterdir()} == {"index.html", "index.md", "index.csv", "plots"}
    assert command("report", "--results", results, "--out", tmp_path / "folder")[0] == 0
    assert (tmp_path / "folder" / "report.html").exists()


def test_an_edit_is_said_on_the_page_and_in_the_terminal_and_its_numbers_are_not_shown(command, results):
    path = results / "smoke" / f"{QUICK}.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:-1], lines[-1].replace(".", ".9", 1)]))
    code, out, err = command("report", "--results", results)
    assert code == 0
    assert "1 changed by hand" in out
    assert f"{path} was changed by hand" in err
    page = (results / "smoke" / "report.html").read_text(encoding="utf-8")
    assert f"{path} was changed by hand" in page
    assert "<table" not in page
    assert not (results / "smoke" / "plots" / f"{QUICK}.png").exists()


def test_a_part_of_a_result_is_said_to_be_one(command, results):
    path = results / "smoke" / f"{QUICK}.csv"
    lines = path.read_text().splitlines(keepends=True)
    key = lines[-1].split(",")[0]
    path.write_text("".join(line for line in lines if not line.startswith(f"{key},")))
    code, out, _ = command("report", "--results", results)
    assert code == 0
    assert "1 incomplete" in out
    page = (results / "smoke" / "report.html").read_text(encoding="utf-8")
    assert "9 of 10 configurations are measured: no verdict on the whole." in page
    assert "<table" in page, "the points that there are"


def test_a_damaged_record_and_a_failing_summary_do_not_hide_the_others(command, results, monkeypatch):
    folder = results / "smoke"
    for name, text in {"greedy-path.csv": "key\nx\n", "greedy-path.json": "[]"}.items():
        (folder / name).write_text(text)
    code, out, err = command("report", "--results", results)
    assert code == 0
    assert "1 confirmed" in out
    assert "1 unreadable" in out
    assert "greedy-path.json is not the record of a result" in err
    monkeypatch.setattr("halfwave.experiments.experiment.Experiment.summary", lambda self, rows: {}["column"])
    assert "cannot be summarised: KeyError" in command("report", "--results", results)[2]


def test_the_largest_scale_is_taken_and_the_others_are_named(command, results):
    for name in ("csv", "json"):
        (results / "small").mkdir(exist_ok=True)
        (results / "small" / f"{QUICK}.{name}").write_bytes((results / "smoke" / f"{QUICK}.{name}").read_bytes())
    code, out, err = command("report", "--results", results)
    assert code == 0
    assert "results at scale small" in out
    assert "results of smoke too" in err
    assert "results at scale smoke" in command("report", "--results", results, "--scale", "smoke")[1]


def test_nothing_there_names_the_command_to_run(fails, tmp_path, results):
    empty = tmp_path / "empty"
    fails(
        1,
        f"no results in {empty}: run `halfwave reproduce all --scale smoke --out {empty}`",
        "report",
        "--results",
        empty,
    )
    message = f"no results in {results / 'paper'}: run `halfwave reproduce all --scale paper --out {results}` first"
    fails(1, message, "report", "--results", results, "--scale", "paper")
    fails(2, "unknown scale 'huge'", "report", "--scale", "huge")


def test_the_setting_of_trainings_in_words():
    experiment = get_experiment("block-precision")
    lines = describe_setting(experiment, experiment.keyed("smoke"))
    assert lines[0] == "16 measured points: variant=paper|ours, setting=FFF|FFH|FHF|FHH|HFF|HFH|HHF|HHH, seed=0"
    assert len(lines) == 2
    assert lines[1].startswith("darcy(resolution=")
    assert "epochs=1" in lines[1]
    assert lines[1].endswith("precision=FFF|FFH|FHF|FHH|HFF|HFH|HHF|HHH, seed=0")


def test_a_machine_in_words():
    environment = {
        "cpu": "a processor",
        "cores": 2,
        "gpu": None,
        "platform": "Linux",
        "python": "3.12.0",
        "packages": {"torch": "2.13.0"},
        "halfwave": "0.1.0",
        "git": {"commit": "0123456789abcdef", "changed": True},
    }
    assert describe_machine(environment) == (
        "a processor, 2 cores; no GPU; Linux; Python 3.12.0; torch 2.13.0; "
        "halfwave 0.1.0 at commit 0123456789 with changes"
    )
