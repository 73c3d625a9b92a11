"""Claims in parts: every part has a line, a check or a reason; each check confirms, and each refuses."""

import pytest
from made_up_rows import MADE_UP, overview_rows, tanh_rows

from halfwave.experiments.claims import Part, all_of
from halfwave.experiments.registry import NAMES, get_experiment
from halfwave.report import CONFIRMED, REFUTED, UNDETERMINED, UNTESTABLE, JudgedPart, Outcome, Verdict


@pytest.mark.parametrize("name", NAMES)
def test_no_experiment_lacks_parts_and_no_part_its_words_and_its_line(name):
    experiment = get_experiment(name)
    statements = [part.statement for part in experiment.parts]
    assert len(statements) == len(set(statements))
    for part in experiment.parts:
        assert bool(part.paper) == (part.line is not None), part
        assert part.check is not None or len(part.reason) > 10, part


@pytest.mark.parametrize("name", NAMES)
def test_every_check_confirms_what_holds_and_refuses_what_does_not(name):
    experiment, sets = get_experiment(name), MADE_UP[name]
    judged = [{part.statement: part.status for part in experiment.summary(rows).verdict.parts} for rows in sets]
    for part in experiment.parts:
        found = [statuses[part.statement] for statuses in judged]
        if part.check is None:
            assert set(found) == {UNTESTABLE}
        else:
            assert found[0] == CONFIRMED, part.statement
            assert REFUTED in found, part.statement


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_fits_its_columns(name):
    shown = get_experiment(name).exhibit(MADE_UP[name][0])
    assert shown.comparison.rows
    assert all(series.label for panel in shown.panels for series in panel.series)


def test_a_part_needs_a_check_or_a_reason_and_not_both():
    for given in ({}, {"check": lambda rows: None, "reason": "no GPU"}):
        with pytest.raises(ValueError, match="needs a check, or a reason"):
            Part("something holds", **given)


def test_a_check_without_its_rows_is_undetermined():
    assert Part("something holds", check=lambda rows: None).judge([]).outcome.clause == "not measured at this scale"


def parts(*statuses):
    return Verdict(tuple(JudgedPart("s", "", None, Outcome(status, "c")) for status in statuses))


@pytest.mark.parametrize(
    ("statuses", "badge"),
    [
        ((CONFIRMED, CONFIRMED), "confirmed"),
        ((CONFIRMED, UNTESTABLE), "confirmed"),
        ((CONFIRMED, REFUTED), "in part"),
        ((CONFIRMED, UNDETERMINED), "in part"),
        ((REFUTED, UNDETERMINED), "refuted"),
        ((UNDETERMINED, UNTESTABLE), "undetermined"),
        ((UNTESTABLE,), "not testable here"),
    ],
)
def test_the_badge_is_computed_from_the_parts(statuses, badge):
    assert parts(*statuses).status == badge


def test_several_that_must_all_hold():
    held, refused, open_ = (Outcome(s, s) for s in (CONFIRMED, REFUTED, UNDETERMINED))
    assert all_of([held, held]).status == CONFIRMED
    assert all_of([held, open_]).status == UNDETERMINED
    assert all_of([held, open_, refused]).status == REFUTED
    assert all_of([None]) is None


def statuses_of(name, rows):
    return {part.statement: part.outcome for part in get_experiment(name).summary(rows).verdict.parts}


def test_noise_makes_no_clause_easier_to_pass():
    """The same mean ratio of 1 with seeds far apart is no equality."""
    rows = tanh_rows(1.0)
    for row in rows:
        if row["method"] == "tanh":
            row["l2"] *= 1 + 0.2 * (-1) ** row["seed"]
    found = statuses_of("tanh-ablation", rows)["tanh leaves the L2 error as it is, to 1%"]
    assert found.status == UNDETERMINED


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"linear": 0.004}, "no better than the linear predictor's"),
        ({"mean": 0.004}, "no better than the mean predictor's"),
        ({"rounding": 1e-5}, "times the rounding of an answer"),
    ],
)
def test_nothing_is_told_of_accuracy_behind_a_closed_gate(options, why):
    found = statuses_of("overview", overview_rows(**options))
    accuracy = [outcome for statement, outcome in found.items() if "L2 error" in statement]
    assert {outcome.status for outcome in accuracy} == {UNDETERMINED}
    assert all("cannot be told at this error" in outcome.clause and why in outcome.clause for outcome in accuracy)


def test_a_lost_training_is_no_success():
    rows = overview_rows()
    for row in rows:
        if row["method"] == "paper" and row["seed"] == 1:
            row |= {"l2": None, "rounding": None}
    found = statuses_of("overview", rows)
    assert found["the L2 error of the paper's method rises by at most 0.28% on Darcy flow"].status != CONFIRMED
