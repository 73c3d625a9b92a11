"""Fields on other grids, against the functions that they are samples of."""

import math

import pytest
import torch
from scipy.special import sph_harm_y

from halfwave.domains import Box, Cloud, Sphere, Torus
from halfwave.domains.sphere_grids import latitudes
from halfwave.errors import InputError

SIZES = [(64, 32), (64, 48), (33, 20), (20, 33), (32, 64), (31, 64), (9, 8), (8, 9)]


def on_axes(function, *axes):
    """function(x, y, ..) on the product of some axes, as one float32 field; evaluated in float64."""
    return function(*torch.meshgrid(*axes, indexing="ij")).float()[None, None]


def cells(n, length=1.0):
    return (torch.arange(n, dtype=torch.float64) + 0.5) * length / n


def nodes(n, length=1.0):
    return torch.arange(n, dtype=torch.float64) * length / (n - 1)


def periodic(n, length=1.0):
    return torch.arange(n, dtype=torch.float64) * length / n


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_waves_on_a_torus_are_exact_up_and_down(n, m):
    def wave(x):
        return torch.sin(2 * math.pi * 3 * x / 5.0 + 0.3) + 0.5

    found = Torus((5.0,)).resample(on_axes(wave, periodic(n, 5.0)), (m,))
    torch.testing.assert_close(found, on_axes(wave, periodic(m, 5.0)), atol=1e-6, rtol=0)


def test_waves_on_a_torus_in_every_direction():
    def wave(x, y, z):
        return torch.cos(2 * math.pi * (2 * x - y + z)) + z * 0

    before, after = (on_axes(wave, *map(periodic, grid)) for grid in ((12, 9, 8), (7, 16, 11)))
    torch.testing.assert_close(Torus((1, 1, 1)).resample(before, (7, 16, 11)), after, atol=2e-6, rtol=0)


def test_the_highest_wave_of_an_even_grid_is_a_cosine():
    def wave(x):
        return torch.cos(2 * math.pi * 4 * x)

    found = Torus((1.0,)).resample(on_axes(wave, periodic(8)), (15,))
    torch.testing.assert_close(found, on_axes(wave, periodic(15)), atol=1e-6, rtol=0)


@pytest.mark.parametrize("lengths", [(1.0, 1.0), (2.0, 0.1)])
@pytest.mark.parametrize(("points", "axis"), [("nodes", nodes), ("cells", cells)])
@pytest.mark.parametrize(
    ("before", "after"), [((9, 12), (5, 7)), ((5, 7), (12, 9)), ((8, 8), (4, 24)), ((2, 3), (9, 2))]
)
def test_linear_functions_in_a_box_are_exact(points, axis, lengths, before, after):
    def plane(x, y):
        return 1 + 2 * x - 3 * y

    fields, expected = (
        on_axes(plane, *(axis(n, side) for n, side in zip(grid, lengths, strict=True))) for grid in (before, after)
    )
    torch.testing.assert_close(Box(lengths, points).resample(fields, after), expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize(
    ("domain", "n", "m", "taken"),
    [
        (Torus((1.0,)), 12, 4, slice(None, None, 3)),
        (Box((1.0,), "nodes"), 13, 4, slice(None, None, 4)),
        (Box((1.0,), "cells"), 12, 4, slice(1, None, 3)),
    ],
)
def test_points_that_both_grids_have_keep_their_value(domain, n, m, taken):
    two_valued = torch.tensor([3.0, 12.0])[torch.randint(2, (2, 1, n), generator=torch.Generator().manual_seed(0))]
    assert torch.equal(domain.resample(two_valued, (m,)), two_valued[..., taken])


def harmonic(l, m, kind, grid):  # noqa: E741  (the degree's name everywhere)
    theta, phi = latitudes(kind, grid[0])[0], periodic(grid[1], 2 * math.pi)
    return on_axes(lambda t, p: torch.from_numpy(sph_harm_y(l, m, t.numpy(), p.numpy()).real), theta, phi)


@pytest.mark.parametrize("kind", ["equiangular", "legendre-gauss"])
@pytest.mark.parametrize(("before", "after"), [((16, 32), (11, 20)), ((17, 32), (9, 16)), ((16, 33), (31, 50))])
def test_resolved_harmonics_on_the_sphere_are_exact(kind, before, after):
    sphere = Sphere(kind)
    for degree, order in [(0, 0), (1, 0), (1, 1), (2, 1), (4, 2), (7, 7), (13, 3), (14, 6)]:
        found = sphere.resample(harmonic(degree, order, kind, before), after)
        torch.testing.assert_close(found, harmonic(degree, order, kind, after), atol=2e-6, rtol=0)


def test_a_grid_that_does_not_fit_is_refused():
    with pytest.raises(InputError, match="box 1 x 1 has 2 axes; it was given a grid of 8"):
        Box((1, 1)).resample(torch.zeros(1, 1, 4, 4), (8,))
    with pytest.raises(InputError, match="at least 2 points a side"):
        Box((1,)).resample(torch.zeros(1, 1, 4), (1,))
    with pytest.raises(InputError, match="point clouds have none"):
        Cloud().resample(torch.zeros(1, 1, 4), (2,))


def test_every_kth_point_is_a_grid_of_the_same_kind_or_refused():
    torus, sphere = Torus((1.0, 2.0)), Sphere()
    assert torus.every(4, (12, 8)) == torus
    with pytest.raises(InputError, match="a stride of 5 leaves no periodic grid of 12 points"):
        torus.every(5, (12, 10))
    assert sphere.every(2, (17, 32)) == sphere
    with pytest.raises(InputError, match="a stride of 2 leaves no equiangular grid of 16x32 points"):
        sphere.every(2, (16, 32))
    with pytest.raises(InputError, match="no legendre-gauss grid"):
        Sphere("legendre-gauss").every(3, (16, 30))
    assert Cloud().every(7, ()) == Cloud()


@pytest.mark.parametrize(("points", "axis"), [("nodes", nodes), ("cells", cells)])
@pytest.mark.parametrize(("n", "step"), [(421, 5), (421, 4), (24, 3), (30, 4)])
def test_every_kth_point_of_a_box_has_the_slope_of_the_whole(points, axis, n, step):
    """Where the points taken do not fill the box, it is a smaller or a shifted one: spacing and slope are right."""
    whole = Box((3.0,), points)
    taken = on_axes(lambda x: 2 * x, axis(n, 3.0))[..., ::step]
    (slope,) = whole.every(step, (n,)).gradient(taken)
    torch.testing.assert_close(slope, torch.full_like(slope, 2.0), atol=2e-4, rtol=0)
