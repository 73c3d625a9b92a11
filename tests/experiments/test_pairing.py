"""Paired statistics, the stopping rule, baselines and the digest of code against known answers."""

import math

import pytest
import torch

from halfwave.experiments import provenance
from halfwave.experiments.baselines import Table, _linear
from halfwave.experiments.gate import closed
from halfwave.experiments.methods import MOST_SEEDS, SEEDS, further_seeds
from halfwave.experiments.pairing import Paired, pair
from halfwave.experiments.registry import get_experiment


def test_the_interval_is_student_s():
    paired = Paired((0.01, 0.02, 0.03, 0.04))
    # t of 3 degrees at 95% is 2.353363; sd = 0.0129099.
    assert paired.mean == pytest.approx(0.025)
    assert paired.half_width == pytest.approx(2.353363 * 0.012909944 / 2, rel=1e-6)
    assert math.isinf(Paired((0.01,)).half_width)
    assert str(Paired((0.0,))) == "+0.00% (one seed)"


@pytest.mark.parametrize(
    ("differences", "status"),
    [
        ((0.001, 0.002, 0.001, 0.002), "confirmed"),
        ((0.03, 0.031, 0.03, 0.031), "refuted"),
        ((-0.03, -0.031, -0.03, -0.031), "refuted"),
        ((-0.05, 0.05, -0.05, 0.05), "undetermined"),
        ((0.001,), "undetermined"),
    ],
)
def test_equivalence_is_two_one_sided_tests(differences, status):
    assert Paired(differences).within("e").status == status


def test_one_sided_tests_look_at_one_edge():
    high, low = Paired((0.03, 0.031, 0.03)), Paired((-0.03, -0.031, -0.03))
    assert (high.above("e", 1.0).status, low.above("e").status) == ("confirmed", "refuted")
    assert (low.below("e", 1.0).status, high.below("e").status) == ("confirmed", "refuted")
    assert (low.at_most("e", 1.0).status, high.at_most("e", 1.0).status) == ("confirmed", "refuted")


def test_pairs_are_of_the_same_seed_and_a_lost_one_loses_all():
    full = [{"seed": s, "l2": 1.0 + s} for s in (0, 1, 2)]
    half = [{"seed": s, "l2": 2.0 + 2 * s} for s in (2, 1)]
    assert pair(half, full, "l2").differences == pytest.approx((math.log(2), math.log(2)))
    assert pair([{"seed": 0, "l2": None}], full, "l2") is None
    assert pair([{"seed": 9, "l2": 1.0}], full, "l2") is None


def rows_of(seeds, spread):
    return [
        {"problem": "darcy", "seed": s, "method": m, "l2": 1.0 if m == "full" else math.exp(spread * (-1) ** s)}
        for s in range(seeds)
        for m in ("full", "ours")
    ]


def test_seeds_are_added_one_by_one_until_the_interval_is_narrow_or_there_are_enough():
    first, most = len(SEEDS["medium"]), MOST_SEEDS["medium"]
    group = [{"problem": "darcy"}]
    assert further_seeds(rows_of(first, 0.001), "medium", group, ["ours"]) == []
    asked = further_seeds(rows_of(first, 0.1), "medium", group, ["ours"])
    assert [seed for _, seed in asked] == [first]
    assert [s for _, s in further_seeds(rows_of(first + 1, 0.1), "medium", group, ["ours"])] == [first, first + 1]
    assert [s for _, s in further_seeds(rows_of(most, 0.1), "medium", group, ["ours"])] == list(range(first, most))


def test_a_linear_map_is_found_by_the_linear_predictor():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 5, generator=generator, dtype=torch.float64)
    weights = torch.randn(5, 7, generator=generator, dtype=torch.float64)
    table = Table(x[:40], (x[:40] @ weights + 3).unsqueeze(1))
    torch.testing.assert_close(_linear(table, x[40:]), (x[40:] @ weights + 3).unsqueeze(1), rtol=1e-6, atol=1e-6)


def test_the_gate_opens_for_a_model_that_learnt_and_an_error_near_its_rounding():
    full = [{"l2": 0.01, "mean_l2": 1.0, "linear_l2": 0.1}]
    assert closed(full, [{"rounding": 0.004}]) == ""
    assert "25 times the rounding" in closed(full, [{"rounding": 0.0004}])
    assert "linear" in closed([{"l2": 0.2, "mean_l2": 1.0, "linear_l2": 0.1}], [{"rounding": 0.1}])
    assert "diverged" in closed([{"l2": None, "mean_l2": 1.0, "linear_l2": 0.1}], [{"rounding": 0.1}])


def test_the_digest_follows_code_and_not_words():
    def text(source):
        return provenance.ast.unparse(provenance.without_words(source))

    plain = 'def f(x):\n    """Words."""\n    return x + 1  # a comment\n'
    assert text(plain) == text("def f(x):\n    return (x + 1)\n")
    assert text(plain) != text("def f(x):\n    return x + 2\n")


def test_the_digest_reaches_what_measuring_runs_and_not_what_shows_it():
    experiment = get_experiment("error-curves")
    found = provenance.reached([provenance._definition_of(experiment.measure)])
    modules = {module for module, _ in found}
    assert {"halfwave.training.engine", "halfwave.spectral.gemm", "halfwave.data.darcy"} <= modules
    assert not any(module.startswith("halfwave.report") for module in modules)
    names = {name for module, name in found if module == "halfwave.experiments.error_curves"}
    assert "measure_curve" in names
    assert "exhibit_curves" not in names
    assert get_experiment("synthetic-spectrum").code != experiment.code
    assert len(experiment.code) == 16
