"""The verdict says first what half precision does to the error against the truth."""

from dataclasses import replace

import pytest
import torch

import halfwave as hw
from halfwave import certificates
from halfwave.certificates import GridError, change_of_error
from halfwave.precision import Policy

BASE = 0.02
"""The error in full precision that the cases below start from."""


def _errors(shift, spread, samples=20):
    """Errors around BASE that half changes by `shift`, give or take `spread`."""
    full = BASE * torch.linspace(0.8, 1.2, samples, dtype=torch.float64)
    half = full + shift + spread * (-1.0) ** torch.arange(samples, dtype=torch.float64)
    return certificates.TestErrors(full, half, change_of_error(half, full))


CASES = {
    "hardly": (_errors(0.0, 2e-4), "hardly changes the test error: 2.0% with it, 2.0% without"),
    "raises": (_errors(6e-3, 1e-4), "raises the test error: 2.6% with it, 2.0% without"),
    "lowers": (_errors(-6e-3, 1e-4), "lowers the test error: 1.4% with it, 2.0% without"),
    "cannot tell": (_errors(0.0, 8e-3), "may change the test error: 2.0% with it, 2.0% without"),
}


@pytest.fixture(scope="module")
def certificate():
    torch.manual_seed(0)
    model = hw.FNO((6, 6), 1, 1, 6, n_layers=2)
    return hw.certify(model, torch.randn(2, 1, 16, 16), Policy.named("mixed", dtype="bf16"))


def _where(certificate, limits, known=True):
    """The certificate with a grid error that is the smaller or the larger one, or of which this cannot be told."""
    low, high = {"rounding": (0.1, 0.4), "grid": (3.0, 9.0), "cannot tell": (0.1, 9.0)}[limits]
    low, high = (share * certificate.resolution.measured for share in (low, high))
    high = high if known else torch.full_like(high, torch.inf)
    own = GridError((16, 16), low, (low * high).sqrt(), high)
    found = replace(certificate, resolution=replace(certificate.resolution, own=own))
    assert found.resolution.limits == limits
    return found


@pytest.mark.parametrize("kind", CASES)
def test_the_verdict_starts_with_the_test_error_and_its_change(certificate, kind):
    errors, words = CASES[kind]
    assert errors.kind == kind
    verdict = replace(certificate, test_errors=errors).verdict
    assert verdict.startswith(f"mixed (bf16) {words}, in the mean of all inputs ")
    assert f"{100 * errors.change.low:+.2g} to {100 * errors.change.high:+.2g} points (95% sure)" in verdict
    moved = f"It moves the answer by {100 * float(certificate.measured_error.mean()):.2g}"
    assert verdict.index(moved) > verdict.index("points")
    assert ("; 20 samples cannot tell more." in verdict) == (kind == "cannot tell")


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("hardly", "two, but more digits would hardly lower the test error."),
        ("raises", "two, and more digits would help more than a finer grid."),
        ("lowers", "two, but more digits would not lower the test error."),
        ("cannot tell", "rounding is the larger of these two. "),
    ],
)
def test_more_digits_are_advised_only_where_the_error_would_fall(certificate, kind, advice):
    verdict = replace(_where(certificate, "rounding"), test_errors=CASES[kind][0]).verdict
    assert advice in verdict
    assert verdict.count("more digits") == (kind != "cannot tell")


def test_without_the_truth_rounding_and_grid_are_compared_as_before(certificate):
    verdict = _where(certificate, "rounding").verdict
    assert verdict.startswith("mixed (bf16) moves the answer by ")
    assert "rounding is the larger of these two, and more digits would help more than a finer grid" in verdict


def test_a_larger_grid_error_excuses_nothing_that_the_test_error_shows(certificate):
    larger = _where(certificate, "grid")
    for errors, excused in ((None, True), (CASES["hardly"][0], True), (CASES["raises"][0], False)):
        assert ("rounding is not what limits" in replace(larger, test_errors=errors).verdict) == excused


def test_an_error_that_is_not_finite_has_no_sentence(certificate):
    full = torch.tensor([0.02, float("inf")], dtype=torch.float64)
    unknown = certificates.TestErrors(full, full, None)
    assert unknown.kind is None
    assert replace(certificate, test_errors=unknown).verdict == certificate.verdict


def test_the_worst_of_all_texts_fits_on_25_lines_of_80_columns(certificate):
    concern = "blocks.0.conv: " + "underflow can take as much from its coefficients as rounding does " * 2 + "here too"
    worst = replace(_where(certificate, "cannot tell", known=False), test_errors=CASES["cannot tell"][0])
    worst = replace(worst, concerns=(concern,) * 3, answer_bound=torch.zeros_like(certificate.measured_error))
    assert not worst.holds
    lines = str(worst).splitlines()
    assert len(lines) <= 24  # and one for the file
    assert max(map(len, lines)) <= 80
