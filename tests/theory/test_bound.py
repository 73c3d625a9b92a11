"""What a bound is: rounded outward, printed in words, and an estimate as soon as one of its inputs is."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from halfwave.errors import InputError
from halfwave.theory import (
    Bound,
    Estimate,
    bound_discretization,
    bound_precision,
    estimate_lipschitz,
    estimate_variation,
    lower_bound_discretization,
)


def test_bounds_are_frozen_and_convert_to_float():
    bound = bound_discretization(0, 10, lipschitz=1)
    assert float(bound) == bound.value == pytest.approx(0.05)
    with pytest.raises(dataclasses.FrozenInstanceError):
        bound.value = 0.0


def test_values_are_rounded_outward():
    # The mathematical values are exactly 1/20 both ways (v = x at w = 0).
    assert 0.05 < float(bound_discretization(0, 10, lipschitz=1)) < 0.05 * (1 + 1e-11)
    assert 0.05 * (1 - 1e-11) < float(lower_bound_discretization(0, 10, sup=1, lipschitz=1)) < 0.05


def test_printed_digits_stay_on_the_safe_side():
    assert "at most 0.3334 " in str(Bound(1 / 3, "T", ()))
    assert "at least 0.3333 " in str(Bound(1 / 3, "T", (), kind="lower"))
    assert "at most inf " in str(Bound(math.inf, "T", ()))
    assert "at most 4.941e-324" in str(Bound(5e-324, "T", ()))


def test_words_name_theorem_and_assumptions():
    bound = bound_discretization((1, 0), 16, sup=2, lipschitz=3)
    text = str(bound)
    assert bound.theorem in text
    assert "|v| <= 2" in text
    assert "Lipschitz constant 3" in text
    assert "guaranteed" in text
    assert len(bound.describe().splitlines()) == 3 + len(bound.assumptions)


@pytest.mark.parametrize("constant", ["sup", "lipschitz", "variation"])
def test_one_estimate_makes_the_result_an_estimate(constant):
    known = {"sup": 1.0, "lipschitz": 1.0, "variation": 1.0}
    assert bound_discretization(1, 8, **known).guaranteed
    result = bound_discretization(1, 8, **known | {constant: Estimate(1.0, "a guess")})
    assert not result.guaranteed
    assert "an estimate, not a guarantee" in str(result)


def test_estimates_travel_through_bounds_nested_anywhere():
    guess = Estimate(1.0, "a guess")
    first = bound_discretization(1, 8, lipschitz=[guess])
    assert not bound_precision("fp16", 8, sup=first).guaranteed
    assert not bound_discretization(1, 8, derivatives={2: [guess]}, periodic=True).guaranteed
    assert not bound_discretization(1, 8, sobolev=(2.0, guess), periodic=True).guaranteed
    assert not lower_bound_discretization(1, 8, sup=1, lipschitz=guess).guaranteed


def test_constants_from_samples_come_back_as_estimates():
    x = np.linspace(0, 1, 11)
    samples = 3 * x[:, None] - 2 * np.abs(x[None, :] - 0.5)
    lipschitz, variation = estimate_lipschitz(samples), estimate_variation(samples)
    assert [float(item) for item in lipschitz] == pytest.approx([3, 2])
    assert [float(item) for item in variation] == pytest.approx([3, 2])
    assert all(isinstance(item, Estimate) for item in lipschitz + variation)
    assert not bound_discretization((1, 0), 10, lipschitz=lipschitz).guaranteed


def test_periodic_samples_count_the_step_across_the_boundary():
    ramp = np.arange(8) / 8
    assert float(estimate_variation(ramp)[0]) == pytest.approx(7 / 8)
    assert float(estimate_variation(ramp, periodic=True)[0]) == pytest.approx(14 / 8)


def test_arrays_and_scalars_of_other_libraries_are_numbers_too():
    plain = bound_discretization((1, 2), (8, 16), sup=1.5, lipschitz=(1.0, 2.0))
    arrays = bound_discretization(
        np.array([1, 2]), torch.Size([8, 16]), sup=np.float32(1.5), lipschitz=np.array([1, 2])
    )
    assert arrays == plain
    scalars = bound_discretization(np.int64(1), torch.tensor(8), sup=torch.tensor(1.5), lipschitz=np.array(2.0))
    assert scalars == bound_discretization(1, 8, sup=1.5, lipschitz=2.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"sup": -1.0}, "sup must be a number >= 0, got -1.0"),
        ({"sup": math.nan}, "sup must be a number >= 0, got nan"),
        ({"sup": "big"}, "sup must be a number >= 0, got 'big'"),
        ({"lipschitz": math.inf}, "lipschitz must be a number >= 0, got inf"),
        ({"lipschitz": [1.0, 2.0]}, "lipschitz has 2 values: expected one number, or 1"),
        ({"grid": 0, "sup": 1}, "grid must have at least one point along each axis, got (0,)"),
        ({"grid": 2.5, "sup": 1}, "grid must be an integer"),
        ({"grid": True, "sup": 1}, "grid must be an integer"),
        ({"frequency": 0.5, "sup": 1}, "frequency must be an integer"),
        ({"frequency": (1, 2), "grid": (8,), "sup": 1}, "frequency (1, 2) has 2 components, grid (8,) has 1 axes"),
        ({}, "no bound without a constant of v: give sup, lipschitz, variation"),
        ({"frequency": 8, "lipschitz": 1}, "frequency (8,) is aliased to 0 on grid (8,): a bound there needs sup"),
        ({"derivatives": {2: 1.0}}, "pass periodic=True"),
        ({"derivatives": {1: 1.0}, "periodic": True}, "derivatives must map orders k >= 2"),
        ({"sobolev": (2.0, 1.0)}, "pass periodic=True"),
        ({"sobolev": (0.5, 1.0), "periodic": True}, "sobolev needs s > d/2 = 0.5, got s = 0.5"),
        ({"sobolev": 2.0, "periodic": True}, "sobolev must be a pair"),
    ],
)
def test_nonsense_is_refused_with_what_is_missing(arguments, said):
    call = {"frequency": 1, "grid": 8} | arguments
    with pytest.raises(InputError) as refusal:
        bound_discretization(call.pop("frequency"), call.pop("grid"), **call)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)
