"""Every experiment at scale smoke: it runs, says something, can be drawn, and is not measured twice."""

import re

import pytest

from halfwave.experiments.registry import NAMES, get_experiment
from halfwave.experiments.runner import run, summarise
from halfwave.report.figures import draw


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One for all, so that a training that several experiments need is run once."""
    return tmp_path_factory.mktemp("results")


# JAX compiles for minutes: test_apebench.py has a stand-in for that peer.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "apebench"])
def test_an_experiment_runs_and_speaks(folder, name):
    experiment = get_experiment(name)
    assert experiment.name == name
    results = run(experiment, "smoke", folder)
    summary = summarise(results)
    assert any(value is not None for line in summary.comparison.lines for value in line.ours)
    for clause in (part.outcome.clause for part in summary.verdict.parts):
        assert re.fullmatch(r"\S.*[^\s.]", clause), "a part of a sentence"
        assert not re.search(r"\b(nan|None)\b", clause), clause
    if summary.panels:
        assert draw(summary.panels).startswith(b"\x89PNG")
    written = results.csv.stat().st_mtime_ns
    run(experiment, "smoke", folder, say=pytest.fail)
    assert results.csv.stat().st_mtime_ns == written
