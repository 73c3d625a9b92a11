"""Gradients on every domain, against analytic ones."""

import itertools
import math

import pytest
import torch

from halfwave.domains import Box, Cloud, Sphere, Torus
from halfwave.domains.derivatives import difference, spectral
from halfwave.domains.sphere_grids import latitudes
from halfwave.errors import InputError
from halfwave.training.losses import RelativeL2


@pytest.mark.parametrize("n", [15, 16])
def test_spectral_derivative_is_exact_for_waves(n):
    x = torch.arange(n, dtype=torch.float64) * (3.0 / n)
    k = 2 * math.pi / 3.0 * 5
    for dim in range(3):
        shape = [1, 1, 1]
        shape[dim] = n
        u = torch.sin(k * x).reshape(shape).expand(*(n if d == dim else 2 for d in range(3)))
        expected = (k * torch.cos(k * x)).reshape(shape).expand_as(u)
        torch.testing.assert_close(spectral(u, dim, 3.0), expected, rtol=1e-10, atol=1e-10)


def test_differences_converge_at_second_order_with_the_ends():
    errors = []
    for n in (32, 64, 128):
        x = torch.arange(n, dtype=torch.float64) / n
        error = difference(torch.exp(x), 0, 1 / n) - torch.exp(x)
        errors.append(float(error.abs().max()))
    orders = [math.log2(coarse / fine) for coarse, fine in itertools.pairwise(errors)]
    assert all(1.9 < order < 2.1 for order in orders), orders


@pytest.mark.parametrize("points", ["nodes", "cells"])
def test_the_slope_of_a_plane_in_a_box_is_exact(points):
    """On nodes the spacing is L / (n - 1), on cells L / n."""
    sides, grid = (2.0, 0.5), (5, 8)
    axes = [
        torch.linspace(0, side, n) if points == "nodes" else (torch.arange(n) + 0.5) * side / n
        for side, n in zip(sides, grid, strict=True)
    ]
    plane = (3 * axes[0][:, None] - 7 * axes[1])[None, None]
    for component, slope in zip(Box(sides, points).gradient(plane), (3.0, -7.0), strict=True):
        torch.testing.assert_close(component, torch.full_like(plane, slope), rtol=2e-5, atol=0)


@pytest.mark.parametrize("derivative", ["spectral", "difference"])
def test_waves_on_a_torus(derivative):
    n, side = 256, 4.0
    x = torch.arange(n, dtype=torch.float64) * side / n
    k = 2 * math.pi / side
    along, across = Torus((side, 1.0), derivative).gradient(torch.sin(k * x)[None, None, :, None].expand(1, 1, n, 4))
    expected = (k * torch.cos(k * x))[:, None].expand(n, 4)
    torch.testing.assert_close(along[0, 0], expected, rtol=0, atol=1e-10 if derivative == "spectral" else 2e-4)
    assert float(across.abs().max()) < 1e-12


@pytest.mark.parametrize("kind", ["equiangular", "legendre-gauss"])
def test_the_gradient_of_a_harmonic_integrates_to_its_eigenvalue(kind):
    """Mean of |∇Y|^2 over mean of Y^2 is l (l + 1): here Y = sin θ cos θ cos φ, l = 2."""
    sphere, grid = Sphere(kind), (129, 64)
    theta = latitudes(kind, grid[0])[0][:, None]
    phi = torch.arange(grid[1], dtype=torch.float64) * (2 * math.pi / grid[1])
    y = (torch.sin(theta) * torch.cos(theta) * torch.cos(phi))[None, None]
    weights = sphere.weights(grid)
    energy = sum((weights * component**2).sum() for component in sphere.gradient(y))
    assert float(energy / (weights * y**2).sum()) == pytest.approx(6.0, rel=2e-3)


def test_quadrature_on_the_sphere_is_exact_for_low_harmonics():
    for kind in ("equiangular", "legendre-gauss"):
        theta = latitudes(kind, 9)[0][:, None]
        weights = Sphere(kind).weights((9, 16))
        assert float((weights * theta.cos() ** 2).sum() / weights.sum()) == pytest.approx(1 / 3, rel=1e-12)
    assert Box((1, 1)).weights((4, 4)) is None
    assert Torus((1, 1)).weights((4, 4)) is None


def test_what_has_no_derivative_says_so():
    with pytest.raises(InputError, match="at least 4 points"):
        Box((1, 1)).gradient(torch.zeros(1, 1, 8, 3))
    with pytest.raises(InputError, match="no derivatives"):
        Cloud().gradient(torch.zeros(1, 1, 8))


def test_nested_transforms_leave_nothing_behind_on_the_sphere() -> None:
    """Weights that a transform of torch.func was the first to ask for must serve the next one."""
    loss = RelativeL2(Sphere())
    x, y = torch.randn(2, 1, 1, 11, 16).unbind(0)

    def second() -> torch.Tensor:
        return torch.func.jvp(lambda a: torch.func.jvp(lambda b: loss(b, y), (a,), (x,))[1], (x,), (x,))[1]

    assert torch.equal(second(), second())
