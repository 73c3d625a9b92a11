"""Losses against analytic norms and against neuraloperator."""

import math

import pytest
import torch
from neuralop.losses import H1Loss, LpLoss

from halfwave.domains import Box, Cloud, Sphere, Torus
from halfwave.domains.sphere_grids import latitudes
from halfwave.errors import InputError
from halfwave.training.clouds import Pressures
from halfwave.training.losses import CloudL2, RelativeH1, RelativeL2, build_loss

GRIDS = [(16,), (12, 10), (8, 6, 10)]
SQUARE = Box((1.0, 1.0))


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
    sides = (1.0,) * len(grid)
    domain = Torus(sides, "difference") if periodic else Box(sides, "cells")
    torch.testing.assert_close(RelativeH1(domain)(p, y), peer.rel(p, y), rtol=1e-5, atol=0)


def test_h1_of_a_wave_has_the_analytic_value():
    """y = sin(2 pi x), p = y + a sin(2 pi k x): H1 error a sqrt((1 + (2 pi k)^2) / (1 + (2 pi)^2))."""
    n, a, k = 64, 0.1, 3
    x = torch.arange(n) / n
    y = torch.sin(2 * math.pi * x)
    p = y + a * torch.sin(2 * math.pi * k * x)
    expected = a * math.sqrt((1 + (2 * math.pi * k) ** 2) / (1 + (2 * math.pi) ** 2))
    loss = RelativeH1(Torus((1.0,)))
    assert float(loss(p.view(1, 1, n), y.view(1, 1, n))) == pytest.approx(expected, rel=1e-5)


def test_lengths_scale_the_derivatives():
    p, y = fields((16,))
    short, long = (RelativeH1(Torus((side,)))(p, y) for side in (1e-3, 1e6))
    assert float(long) == pytest.approx(float(RelativeL2()(p, y)), rel=1e-4)
    assert float(short) != pytest.approx(float(long), rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("loss", [RelativeL2(), RelativeH1(SQUARE)])
def test_half_predictions_are_measured_in_fp32(loss, dtype):
    p, y = (1000 * u for u in fields((64, 64)))  # the sum of squares of these overflows fp16
    p = p.to(dtype)
    value = loss(p, y)
    assert value.dtype is torch.float32
    assert float(value) == float(loss(p.float(), y))
    assert math.isfinite(float(value))


@pytest.mark.parametrize("loss", [RelativeL2(), RelativeH1(SQUARE)])
def test_a_perfect_prediction_has_a_finite_gradient(loss):
    p, y = fields((8, 8))
    p = y.clone().requires_grad_()
    loss(p, y).backward()
    assert torch.equal(p.grad, torch.zeros_like(p))


def test_area_weights_make_the_error_independent_of_sampling():
    """Points doubled in one region, with halved areas, change nothing."""
    p, y = (u[:1] for u in fields((10,)))
    doubled = torch.arange(10).repeat_interleave(torch.tensor([2] * 5 + [1] * 5))
    areas = torch.tensor([0.5] * 10 + [1.0] * 5)
    truth = Pressures(y[0].T[doubled], areas, torch.tensor([0, 15]))
    torch.testing.assert_close(CloudL2(by_area=True)(p[0].T[doubled], truth), RelativeL2()(p, y))


def test_negative_areas_are_refused():
    _, y = fields((10,))
    with pytest.raises(InputError, match="must not be negative"):
        CloudL2(by_area=True)(y[0].T, Pressures(y[0].T, -torch.ones(10), torch.tensor([0, 10])))


@pytest.mark.parametrize("kind", ["equiangular", "legendre-gauss"])
@pytest.mark.parametrize(("name", "expected"), [("l2", 0.1), ("h1", 0.1 * math.sqrt(7 / 3))])
def test_harmonics_have_the_analytic_error(name, expected, kind):
    """|∇Y_l|^2 integrates to l(l+1): y = Y_1 = cos θ, p = y + a Y_2 (same norm), H1^2 ratio a^2 (1+6)/(1+2)."""
    theta = latitudes(kind, 129)[0][:, None]
    phi = torch.arange(64, dtype=torch.float64) * (2 * math.pi / 64)
    y1 = math.sqrt(3.0) * torch.cos(theta).expand(129, 64)
    y2 = math.sqrt(15.0) * torch.sin(theta) * torch.cos(theta) * torch.cos(phi)
    found = build_loss(name, Sphere(kind))((y1 + 0.1 * y2)[None, None], y1[None, None])
    assert float(found) == pytest.approx(expected, rel=1e-8 if name == "l2" else 2e-3)


def test_bad_arguments_are_named():
    p, y = fields((12, 10))
    with pytest.raises(InputError, match=r"unknown loss 'l7': expected one of l2, h1"):
        build_loss("l7", SQUARE)
    with pytest.raises(InputError, match="shape"):
        RelativeL2()(p, y[..., :-1])
    with pytest.raises(InputError, match="at least 4 points"):
        RelativeH1(SQUARE)(p[..., :3], y[..., :3])
    with pytest.raises(InputError, match="has 3 axes; it was given a grid of 12x10"):
        RelativeH1(Torus((1, 1, 1)))(p, y)
    with pytest.raises(InputError, match="not defined on point clouds: expected l2"):
        build_loss("h1", Cloud())


def test_build_loss_follows_the_domain():
    assert build_loss("h1", Torus((2, 3))) == RelativeH1(Torus((2.0, 3.0)))
    assert build_loss("l2", Sphere(), 0.5) == RelativeL2(Sphere(), 0.5)
    assert build_loss("l2", Cloud(), by_area=True) == CloudL2(by_area=True)
