"""Symmetries: motions of a grid that keep a solution a solution, checked on problems that have them."""

import numpy as np
import pytest
import torch

from halfwave.domains import Box, Cloud, Sphere, Torus, check_symmetries, moved
from halfwave.errors import InputError


def test_a_moved_solution_of_poissons_equation_on_the_torus_is_a_solution():
    """-Lap u = f solved by Fourier series: of the moved f the solution is the moved u, for both kinds of motion."""
    torch.manual_seed(0)
    f = torch.randn(6, 1, 12, 12, dtype=torch.float64)
    x, y = moved(("translations", "reflections"), Torus((1.0, 1.0)), f, _poisson(f), [(0, i) for i in range(6)])
    torch.testing.assert_close(_poisson(x), y)
    assert not torch.equal(x, f)
    assert len({tuple(sample.flatten().tolist()) for sample in x}) == 6


@pytest.mark.parametrize("placement", ["nodes", "cells"])
def test_reflections_of_a_square_are_its_eight_symmetries(placement):
    sample = torch.arange(9.0).reshape(1, 1, 3, 3)
    x, y = moved(
        ("reflections",), Box((1.0, 1.0), placement), sample.repeat(200, 1, 1, 1), sample.repeat(200, 1, 1, 1),
        [(1, i) for i in range(200)],
    )  # fmt: skip
    assert torch.equal(x, y)
    images = {tuple(image.flatten().tolist()) for image in x}
    turned = [torch.rot90(sample[0, 0], k) for k in range(4)]
    assert images == {tuple(t.flatten().tolist()) for r in turned for t in (r, r.T)}


def test_axes_of_unequal_sides_are_not_swapped():
    sample = torch.arange(9.0).reshape(1, 1, 3, 3).repeat(100, 1, 1, 1)
    x, _ = moved(("reflections",), Box((1.0, 2.0), "nodes"), sample, sample, [(2, i) for i in range(100)])
    assert len({tuple(image.flatten().tolist()) for image in x}) == 4


def test_a_sphere_turns_about_its_axis_alone():
    sample = torch.randn(4, 2, 4, 8)
    x, _ = moved(("translations",), Sphere(), sample, sample, [(3, i) for i in range(4)])
    for image, of in zip(x, sample, strict=True):
        assert any(torch.equal(image, of.roll(k, -1)) for k in range(8))


@pytest.mark.parametrize(
    ("name", "domain", "says"),
    [
        ("rotations", Torus((1.0,)), "unknown symmetry 'rotations'"),
        ("translations", Box((1.0, 1.0), "nodes"), "periodic"),
        ("reflections", Sphere(), "boxes and tori"),
        ("translations", Cloud(), "has none"),
    ],
)
def test_what_a_domain_has_not_got_is_refused(name, domain, says):
    with pytest.raises(InputError, match=says):
        check_symmetries((name,), domain)


def _poisson(f: torch.Tensor) -> torch.Tensor:
    n = f.shape[-1]
    k = torch.from_numpy(np.fft.fftfreq(n, 1 / n))
    squares = (k[:, None] ** 2 + k**2).clamp_min(1)
    spectrum = torch.fft.fft2(f) / squares
    spectrum[..., 0, 0] = 0
    return torch.fft.ifft2(spectrum).real
