"""Losses against analytic norms and against neuraloperator."""

import itertools
import math

import numpy as np
import pytest
import torch
from neuralop.losses import H1Loss, LpLoss

from halfwave.errors import InputError
from halfwave.training import derivatives
from halfwave.training.losses import RelativeH1, RelativeL2, SphereH1, build_loss

GRIDS = [(16,), (12, 10), (8, 6, 10)]


def fields(grid, channels=1, batch=3):
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(batch, channels, *grid, generator=generator) for _ in range(2))


@pytest.mark.parametrize("grid", GRIDS)
def test_l2_is_neuraloperators(grid):
    p, y = fields(grid)
    expected = LpLoss(d=len(grid), p=2, reduction="mean").rel(p, y)
    torch.testing.assert_close(RelativeL2()(p, y), expected)


def test_l2_norms_all_channels_of_a_sample_together():
    p, y = fields((12, 10), channels=2)
    torch.testing.assert_close(RelativeL2()(p, y), LpLoss(d=3, p=2, reduction="mean").rel(p, y))


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("grid", GRIDS)
def test_h1_with_differences_is_neuraloperators(grid, periodic):
    p, y = fields(grid)
    names = ("periodic_in_x", "periodic_in_y", "periodic_in_z")
    peer = H1Loss(d=len(grid), reduction="mean", **dict.fromkeys(names, periodic))
    torch.testing.assert_close(RelativeH1(periodic=periodic)(p, y), peer.rel(p, y), rtol=1e-5, atol=0)


@pytest.mark.parametrize("n", [15, 16])
def test_spectral_derivative_is_exact_for_waves(n):
    x = torch.arange(n, dtype=torch.float64) * (3.0 / n)
    k = 2 * math.pi / 3.0 * 5
    for dim in range(3):
        shape = [1, 1, 1]
        shape[dim] = n
        u = torch.sin(k * x).reshape(shape).expand(*(n if d == dim else 2 for d in range(3)))
        expected = (k * torch.cos(k * x)).reshape(shape).expand_as(u)
        torch.testing.assert_close(derivatives.spectral(u, dim, 3.0), expected, rtol=1e-10, atol=1e-10)


def test_differences_converge_at_second_order_with_the_ends():
    errors = []
    for n in (32, 64, 128):
        x = torch.arange(n, dtype=torch.float64) / n
        error = derivatives.difference(torch.exp(x), 0, 1 / n, periodic=False) - torch.exp(x)
        errors.append(float(error.abs().max()))
    orders = [math.log2(coarse / fine) for coarse, fine in itertools.pairwise(errors)]
    assert all(1.9 < order < 2.1 for order in orders), orders


def test_h1_of_a_wave_has_the_analytic_value():
    """y = sin(2 pi x), p = y + a sin(2 pi k x): H1 error a sqrt((1 + (2 pi k)^2) / (1 + (2 pi)^2))."""
    n, a, k = 64, 0.1, 3
    x = torch.arange(n) / n
    y = torch.sin(2 * math.pi * x)
    p = y + a * torch.sin(2 * math.pi * k * x)
    expected = a * math.sqrt((1 + (2 * math.pi * k) ** 2) / (1 + (2 * math.pi) ** 2))
    loss = RelativeH1("spectral", periodic=True)
    assert float(loss(p.view(1, 1, n), y.view(1, 1, n))) == pytest.approx(expected, rel=1e-5)


def test_lengths_scale_the_derivatives():
    p, y = fields((16,))
    short, long = (RelativeH1(periodic=True, lengths=(side,))(p, y) for side in (1e-3, 1e6))
    assert float(long) == pytest.approx(float(RelativeL2()(p, y)), rel=1e-4)
    assert float(short) != pytest.approx(float(long), rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("loss", [RelativeL2(), RelativeH1()])
def test_half_predictions_are_measured_in_fp32(loss, dtype):
    p, y = (1000 * u for u in fields((64, 64)))  # the sum of squares of these overflows fp16
    p = p.to(dtype)
    value = loss(p, y)
    assert value.dtype is torch.float32
    assert float(value) == float(loss(p.float(), y))
    assert math.isfinite(float(value))


@pytest.mark.parametrize("loss", [RelativeL2(), RelativeH1()])
def test_a_perfect_prediction_has_a_finite_gradient(loss):
    p, y = fields((8, 8))
    p = y.clone().requires_grad_()
    loss(p, y).backward()
    assert torch.equal(p.grad, torch.zeros_like(p))


def test_a_zero_target_gives_a_finite_error():
    p, y = fields((8, 8))
    assert math.isfinite(float(RelativeL2()(p, torch.zeros_like(y))))


def test_area_weights_make_the_error_independent_of_sampling():
    """Points doubled in one region, with halved areas, change nothing."""
    p, y = fields((10,))
    doubled = torch.arange(10).repeat_interleave(torch.tensor([2] * 5 + [1] * 5))
    areas = torch.tensor([0.5] * 10 + [1.0] * 5)
    torch.testing.assert_close(RelativeL2(areas)(p[..., doubled], y[..., doubled]), RelativeL2()(p, y))


def test_negative_weights_are_refused():
    with pytest.raises(InputError, match="must not be negative"):
        RelativeL2(-torch.ones(10))


def test_sphere_h1_of_harmonics_has_the_analytic_value():
    """|∇Y_l|^2 integrates to l(l+1): y = Y_1 = cos θ, p = y + a Y_2 (same norm), H1^2 ratio a^2 (1+6)/(1+2)."""
    nodes, weights = (torch.from_numpy(v) for v in np.polynomial.legendre.leggauss(128))
    theta = torch.arccos(nodes)
    phi = torch.arange(32, dtype=torch.float64) * (2 * math.pi / 32)
    y1 = math.sqrt(3.0) * torch.cos(theta)[:, None].expand(128, 32)
    y2 = math.sqrt(15.0) * (torch.sin(theta) * torch.cos(theta))[:, None] * torch.cos(phi)
    loss = SphereH1(theta, weights)
    value = float(loss((y1 + 0.1 * y2)[None, None], y1[None, None]))
    assert value == pytest.approx(0.1 * math.sqrt(7 / 3), rel=2e-3)
    flat = float(RelativeL2(weights[:, None])((y1 + 0.1 * y2)[None, None], y1[None, None]))
    assert flat == pytest.approx(0.1, rel=1e-8)


@pytest.mark.parametrize(("name", "expected"), [("l2", 0.1), ("h1", 0.1 * math.sqrt(7 / 3))])
def test_shallow_water_is_measured_on_the_sphere_with_its_poles(name, expected):
    loss = build_loss(name, {"name": "shallow-water"})
    theta = torch.linspace(0, math.pi, 129, dtype=torch.float64)[:, None]
    phi = torch.arange(64, dtype=torch.float64) * (2 * math.pi / 64)
    y1 = math.sqrt(3.0) * torch.cos(theta).expand(129, 64)
    y2 = math.sqrt(15.0) * torch.sin(theta) * torch.cos(theta) * torch.cos(phi)
    assert float(loss((y1 + 0.1 * y2)[None, None], y1[None, None])) == pytest.approx(expected, rel=2e-3)


def test_bad_arguments_are_named():
    p, y = fields((12, 10))
    with pytest.raises(InputError, match=r"unknown loss 'l7': expected one of l2, h1"):
        build_loss("l7")
    with pytest.raises(InputError, match="periodic"):
        RelativeH1("spectral", periodic=False)
    with pytest.raises(InputError, match="shape"):
        RelativeL2()(p, y[..., :-1])
    with pytest.raises(InputError, match="at least 4 points"):
        RelativeH1()(p[..., :3], y[..., :3])
    with pytest.raises(InputError, match="3 lengths"):
        RelativeH1(lengths=(1, 1, 1))(p, y)


def test_build_loss_follows_the_dataset():
    assert build_loss("h1", {"periodic": True, "lengths": [2, 3]}) == RelativeH1("spectral", True, (2.0, 3.0))
    tau = 2 * math.pi
    assert build_loss("h1", {"name": "navier-stokes"}) == RelativeH1("spectral", True, (tau, tau))
    assert build_loss("h1", {}) == RelativeH1("difference", False, None)
