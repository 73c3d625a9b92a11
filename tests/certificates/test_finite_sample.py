"""Statements with a probability: how often they are true, counted."""

import math

import pytest
import torch

import halfwave as hw
from halfwave.certificates import change_of_error, conformal_bound, interval_of_mean
from halfwave.certificates.answers import relative_errors
from halfwave.certificates.finite_sample import needed, tolerance_bound
from halfwave.certificates.observing import run_as
from halfwave.errors import InputError


def _scores(generator, *shape):
    """Skewed, as errors are."""
    return (0.5 * torch.randn(*shape, generator=generator, dtype=torch.float64)).exp() * 1e-3


def test_the_conformal_bound_covers_nine_of_ten_fresh_inputs():
    """2,000 fresh inputs for each of 200 calibrations of 99: the mean coverage is 90% to within its own noise."""
    generator = torch.Generator().manual_seed(0)
    coverage = []
    for _ in range(200):
        bound = conformal_bound(_scores(generator, 99), 0.1)
        coverage.append(float((_scores(generator, 2000) <= bound).double().mean()))
    mean = sum(coverage) / len(coverage)
    assert 0.89 <= mean <= 0.91


def test_one_calibration_of_a_thousand_covers_88_to_94_percent():
    generator = torch.Generator().manual_seed(1)
    bound = conformal_bound(_scores(generator, 1000), 0.1)
    assert 0.88 <= float((_scores(generator, 2000) <= bound).double().mean()) <= 0.94


@torch.no_grad()
def test_the_bound_of_a_certificate_covers_fresh_inputs_of_a_model():
    torch.manual_seed(2)
    model = hw.FNO((4, 4), 1, 1, 6, n_layers=2)
    policy = hw.Policy.named("mixed", dtype="bf16")
    exact, mixed = run_as(model, hw.Policy.uniform("fp64")), run_as(model, policy)
    x = torch.randn(2600, 1, 12, 12) * (0.5 * torch.randn(2600, 1, 1, 1)).exp()
    scores = torch.cat([relative_errors(mixed(part), exact(part), part) for part in x.split(200)])
    certificate = hw.certify(model, x[:1], policy, grid_samples=0)
    assert float(certificate.measured_error) == pytest.approx(float(scores[0]))
    bound = certificate.conformal(scores[:600])
    assert 0.88 <= float((scores[600:] <= bound).double().mean()) <= 0.94


@pytest.mark.parametrize(("count", "surely"), [(8, 0.975), (16, 0.98), (64, 0.98)])
def test_a_tolerance_bound_is_above_nine_of_ten_in_nearly_all_repetitions(count, surely):
    """The share of all inputs that stay below is known for log-normal errors: it is short of 90% once in a hundred."""
    generator = torch.Generator().manual_seed(3)
    bounds = torch.tensor([tolerance_bound(_scores(generator, count)) for _ in range(2000)], dtype=torch.float64)
    shares = torch.special.ndtr((bounds / 1e-3).log() / 0.5)
    assert surely <= float((shares >= 0.9).double().mean()) < 1


def test_a_tolerance_bound_of_few_errors():
    assert tolerance_bound(torch.tensor([1e-3, 1e-3, 1e-3])) == pytest.approx(1e-3)
    assert tolerance_bound(torch.tensor([2e-3])) == pytest.approx(2e-3)  # nothing is known of others
    assert math.isinf(tolerance_bound(torch.tensor([1e-3, math.inf])))
    assert tolerance_bound(torch.tensor([1e-3, 2e-3])) > 4e-3


@pytest.mark.parametrize(("alpha", "fewest"), [(0.1, 9), (0.05, 19), (0.5, 1), (0.2, 4), (0.01, 99)])
def test_too_few_inputs_give_no_bound_and_say_so(alpha, fewest):
    scores = torch.arange(1.0, fewest + 1)
    assert needed(alpha) == fewest
    assert conformal_bound(scores, alpha) == fewest  # the largest
    none = conformal_bound(scores[:-1], alpha)
    assert math.isinf(none)
    assert f"{fewest} would" in str(none)


def test_the_rank_is_that_of_the_finite_sample_quantile():
    bound = conformal_bound(torch.arange(1.0, 101).flip(0), 0.1)
    assert bound == math.ceil(101 * 0.9) == 91
    assert (bound.alpha, bound.samples) == (0.1, 100)


def test_an_overflow_counts_as_the_largest_score():
    scores = torch.tensor([1.0] * 17 + [math.inf, math.nan])
    assert conformal_bound(scores, 0.1) == math.inf
    assert conformal_bound(scores, 0.2) == 1.0


DRAWS = {
    "normal": lambda n, g: 1e-3 * torch.randn(n, generator=g) + 2e-4,
    "skewed": lambda n, g: 1e-3 * torch.randn(n, generator=g).exp(),
    "rarely large": lambda n, g: 1e-3 * torch.rand(n, generator=g) ** 4,
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("n", [20, 100])
def test_the_interval_of_a_change_covers_its_mean(name, n):
    """At 95%, at least 94 of 100 repetitions; the mean over all inputs is that of 10^6 draws."""
    generator = torch.Generator().manual_seed(n)
    mean = float(DRAWS[name](10**6, generator).double().mean())
    hits = 0
    for _ in range(100):
        change = DRAWS[name](n, generator).double()
        hits += mean in change_of_error(0.5 + change, torch.full_like(change, 0.5), alpha=0.05)
    assert hits >= 94


def test_the_interval_shrinks_with_samples_and_knows_the_sign():
    generator = torch.Generator().manual_seed(0)
    change = (2e-3 + 1e-3 * torch.randn(800, generator=generator)).double()
    widths = []
    for n in (50, 200, 800):
        found = interval_of_mean(change[:n], alpha=0.05, reach=6e-3)
        widths.append(found.high - found.low)
        assert found.low <= found.mean <= found.high
    assert widths[2] < widths[1] / 1.5 < widths[0] / 3
    assert found.low > 0
    assert widths[2] < 3 * 2 * 1.96 * 1e-3 / math.sqrt(800)  # not far from what the central limit theorem gives


def test_values_at_the_ends_of_the_range_break_nothing():
    for value in (-1.0, 1.0, 0.0):
        found = interval_of_mean(torch.full((30,), value, dtype=torch.float64), alpha=0.05, reach=1.0)
        assert value in found
        assert -1 <= found.low <= found.high <= 1
    assert interval_of_mean(torch.zeros(3, dtype=torch.float64), alpha=0.1, reach=0.0).high == 0


def test_the_assumption_is_carried():
    found = change_of_error([0.11, 0.10], [0.10, 0.10])
    assert found.reach == pytest.approx(0.02)
    assert "more than 0.02" in found.assumption
    assert change_of_error([0.11, 0.10], [0.10, 0.10], reach=0.5).reach == 0.5


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: conformal_bound([1.0], 0.0), "alpha must be between 0 and 1"),
        (lambda: change_of_error([1.0], [1.0, 2.0]), "1 errors in half and 2 in full"),
        (lambda: change_of_error([], []), "expected pairs"),
        (lambda: change_of_error([math.inf], [1.0]), "inf or nan"),
        (lambda: change_of_error([2.0], [1.0], reach=0.1), "a change of 1 was seen"),
    ],
)
def test_nonsense_is_refused_in_one_line(ask, message):
    with pytest.raises(InputError, match=message):
        ask()
