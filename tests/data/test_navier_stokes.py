"""The vorticity solver against analytic solutions and against itself on finer grids."""

import math

import numpy as np
import pytest
import torch

from halfwave.data import NavierStokes
from halfwave.data.vorticity import VorticitySolver
from halfwave.errors import InputError


def grid(n):
    x = torch.arange(n, dtype=torch.float64) * (2 * math.pi / n)
    return x[:, None], x[None, :]


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def test_taylor_green_vortices_decay_as_they_should():
    """w = 2 k cos(kx) cos(ky) exp(-2 k^2 t / Re): the nonlinear term vanishes although the velocity does not."""
    x, y = grid(32)
    k, reynolds, time = 3, 50.0, 2.0
    start = (2 * k * torch.cos(k * x) * torch.cos(k * y))[None]
    end = VorticitySolver(32, reynolds=reynolds).solve(torch.zeros_like(start), time, initial=start)
    assert relative(end, start * math.exp(-2 * k**2 * time / reynolds)) < 1e-10


def test_forced_single_mode():
    """f = cos(3x + 2y): w = f (1 - exp(-13 t / Re)) Re / 13 from rest."""
    x, y = grid(24)
    f = torch.cos(3 * x + 2 * y)[None]
    rate = 13 / 500.0
    w = VorticitySolver(24).solve(f, 5.0)
    assert relative(w, f * (1 - math.exp(-rate * 5)) / rate) < 1e-8


def test_advection_of_two_interacting_modes():
    """The tendency is -u . grad w, computed by hand for modes of unequal length (equal ones do not interact)."""
    x, y = grid(32)
    solver = VorticitySolver(32)
    w = (torch.cos(x) + torch.cos(2 * y))[None]  # phi = cos x + cos(2y) / 4, u = -sin(2y) / 2, v = sin x
    advection = (-torch.sin(2 * y) / 2) * (-torch.sin(x)) + torch.sin(x) * (-2 * torch.sin(2 * y))
    tendency, speed = solver.tendency(solver.to_modes(w), torch.zeros(1, dtype=torch.complex128))
    torch.testing.assert_close(solver.to_grid(tendency)[0], -advection, atol=1e-13, rtol=0)
    assert speed.item() == pytest.approx(1.5, abs=0.02)


def test_fourth_order_in_time():
    f = turbulent_forcing(32)
    exact = VorticitySolver(32, max_step=1 / 320, courant=9).solve(f, 2.0)
    errors = [relative(VorticitySolver(32, max_step=step, courant=9).solve(f, 2.0), exact) for step in (1 / 10, 1 / 20)]
    assert 3.7 < math.log2(errors[0] / errors[1]) < 4.5


def test_spectral_convergence_in_space():
    errors = []
    fine = VorticitySolver(96, max_step=0.01).solve(turbulent_forcing(96), 1.0)
    for n in (16, 32, 48):
        coarse = VorticitySolver(n, max_step=0.01).solve(turbulent_forcing(n), 1.0)
        errors.append(relative(coarse, fine[:, :: 96 // n, :: 96 // n]))
    assert errors[1] < errors[0] / 100
    assert errors[2] < errors[1] / 30


def turbulent_forcing(n):
    x, y = grid(n)
    return (2 * torch.sin(x + 2 * y) + torch.cos(2 * x) - torch.sin(y))[None]


def test_the_default_step_is_accurate_to_a_hundred_thousandth():
    generator = NavierStokes(resolution=32)
    f = torch.from_numpy(generator.sample(0, "train", 0)[0].astype(np.float64))
    exact = VorticitySolver(32, courant=0.05, max_step=0.01).solve(f, 5.0)
    assert relative(VorticitySolver(32).solve(f, 5.0), exact) < 1e-5


def test_single_precision_agrees():
    f = turbulent_forcing(32)
    assert (
        relative(VorticitySolver(32, dtype=torch.float32).solve(f, 1.0).double(), VorticitySolver(32).solve(f, 1.0))
        < 1e-5
    )


def test_a_sample_does_not_depend_on_its_batch():
    generator = NavierStokes(resolution=32, time=2.0)
    together = generator.samples(0, "train", range(3))
    for i, sample in enumerate(together):
        x, y = generator.sample(0, "train", i)
        assert sample["x"].tobytes() == x.tobytes()
        assert sample["y"].tobytes() == y.tobytes()


def test_law_and_shape_of_a_sample():
    x, y = NavierStokes(resolution=32, time=0.5).sample(0, "test", 0)
    assert x.shape == y.shape == (1, 32, 32)
    assert x.dtype == y.dtype == np.float32
    assert abs(x.mean()) < 1e-4
    assert abs(y.mean()) < 1e-6
    np.testing.assert_allclose(y, 0.5 * x, atol=0.2 * np.abs(x).max())  # soon after rest w is about t f


def test_same_sample_at_several_resolutions():
    fine = NavierStokes(resolution=64, time=1.0)
    coarse = NavierStokes(resolution=16, solve_resolution=64, time=1.0)
    for a, b in zip(fine.sample(0, "train", 1), coarse.sample(0, "train", 1), strict=True):
        np.testing.assert_array_equal(a[:, ::4, ::4], b)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"resolution": 7}, "resolution is 7"),
        ({"resolution": 48, "solve_resolution": 64}, "multiple"),
        ({"reynolds": 0.0}, "reynolds"),
        ({"dtype": "float16"}, "float16"),
        ({"time": 0.0}, "time"),
    ],
)
def test_bad_parameters_are_refused(change, word):
    with pytest.raises(InputError, match=word):
        NavierStokes(**change)
