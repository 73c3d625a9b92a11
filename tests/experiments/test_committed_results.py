"""What is committed under results/: from a clean commit, without contradictions, and on the page of claims."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from contradictions import contradictions
from tiny_experiment import Tiny

from halfwave.experiments.experiment import SCALES
from halfwave.experiments.registry import NAMES, get_experiment
from halfwave.experiments.results import read_results
from halfwave.experiments.runner import run
from halfwave.experiments.vouching import machine_of

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"


@pytest.mark.parametrize("scale", SCALES)
def test_the_same_quantity_is_the_same_number_in_all_experiments(scale):
    experiments = [get_experiment(name) for name in NAMES]
    assert not [str(found) for found in contradictions(experiments, scale, RESULTS)]


def test_a_contradiction_is_found(tmp_path):
    def named(name, shift):
        tiny = Tiny().experiment
        facts = lambda number, rows: [(f"{number.n} to the {r['power']}", r["value"] + shift) for r in rows]  # noqa: E731
        return replace(tiny, name=name, facts=facts)

    same, other = named("same", 0.0), named("other", 1.0)
    for experiment in (named("tiny", 0.0), same, other):
        run(experiment, "smoke", tmp_path)
    assert list(contradictions([named("tiny", 0.0), same], "smoke", tmp_path)) == []
    [*found] = contradictions([same, other], "smoke", tmp_path)
    assert len(found) == 6
    assert "in same" in str(found[0])
    assert "in other" in str(found[0])


@pytest.mark.parametrize("name", NAMES)
def test_rows_come_from_a_clean_commit(name):
    """Those that say by which code they were made."""
    for scale in SCALES:
        path = RESULTS / scale / f"{name}.json"
        if path.exists():
            record = json.loads(path.read_text())
            used = {entry["environment"] for entry in record["rows"].values() if "code" in entry}
            assert not [record["environments"][index]["git"] for index in used
                        if record["environments"][index]["git"]["changed"]]  # fmt: skip


@pytest.mark.parametrize("name", [name for name in NAMES if name != "precision-swap"])
def test_trainings_that_are_compared_ran_on_one_machine(name):
    """All rows of one problem and seed; those of precision-swap are compared with nothing but themselves."""
    for scale in SCALES:
        results = read_results(get_experiment(name), scale, RESULTS)
        ran: dict[tuple, set[str]] = {}
        for key, rows in results.rows.items():
            machine = machine_of(results.record["environments"][results.record["rows"][key]["environment"]])
            if "seed" in rows[0]:
                ran.setdefault((rows[0].get("problem"), rows[0]["seed"]), set()).add(machine)
        assert not [group for group, machines in ran.items() if len(machines) > 1]


def test_a_scale_takes_no_more_than_ten_mebibytes():
    for scale in SCALES:
        paths = [path for path in (RESULTS / scale).rglob("*") if path.is_file()]
        files = [path for path in paths if not any(part.startswith(".") for part in path.relative_to(RESULTS).parts)]
        assert sum(path.stat().st_size for path in files) <= 10 << 20


def test_the_page_of_claims_is_current():
    done = subprocess.run([sys.executable, ROOT / "docs" / "claims.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_committed_result_can_be_read():
    for name in NAMES:
        for scale in get_experiment(name).scales:
            assert read_results(get_experiment(name), scale, RESULTS).edited == []
