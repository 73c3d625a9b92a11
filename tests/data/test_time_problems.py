"""The problems in time, and the smooth steady ones, against exact solutions and against themselves on finer grids."""

import math

import numpy as np
import pytest
import torch
from scipy import fft

from halfwave.data import (
    Advection,
    Burgers,
    Heat,
    KuramotoSivashinsky,
    Poisson,
    SmoothDarcy,
    VorticityTrajectories,
    generate,
    open_dataset,
)
from halfwave.data.generator import sample_rng
from halfwave.data.periodic_line import PeriodicLine, wavenumbers
from halfwave.domains import Torus
from halfwave.errors import InputError


def relative(a, b):
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def cole_hopf(u, viscosity, time):
    """u = -2 nu phi_x / phi, where phi solves the heat equation from exp(-int u / 2 nu): exact on a fine grid."""
    n = len(u)
    k = 2j * np.pi * np.arange(n // 2 + 1)
    primitive = np.divide(fft.rfft(u), k, out=np.zeros(n // 2 + 1, complex), where=k != 0)
    phi_hat = fft.rfft(np.exp(-fft.irfft(primitive, n) / (2 * viscosity))) * np.exp(viscosity * (k**2).real * time)
    return -2 * viscosity * fft.irfft(k * phi_hat, n) / fft.irfft(phi_hat, n)


def test_burgers_is_the_cole_hopf_solution_at_every_state():
    problem = Burgers(resolution=256, viscosity=0.02, time=0.5, steps=5)
    states = problem.trajectory(0, "test", 1)[:, 0]
    start = problem.field.sample(sample_rng(0, "test", 1), 2048)  # the reference must resolve exp(-int u / 2 nu)
    for i in range(6):
        assert relative(states[i], cole_hopf(start, 0.02, 0.1 * i)[::8]) < 2e-6


def test_burgers_default_is_li_et_als_operator():
    problem = Burgers(resolution=128)
    u = problem.trajectory(0, "train", 0)[:, 0]
    assert relative(u[-1], cole_hopf(problem.field.sample(sample_rng(0, "train", 0), 1024), 0.1, 1.0)[::8]) < 2e-6
    assert abs(u.mean(axis=1)).max() < 1e-6


def test_exponential_time_differencing_is_of_fourth_order():
    length, n = 32.0, 64
    k = wavenumbers(length, n)
    start = np.cos(2 * np.pi * np.arange(n) / n) * (1 + np.sin(4 * np.pi * np.arange(n) / n))

    def end(step):
        line = PeriodicLine(length, n, tuple((-0.1 * k**2).tolist()), step)
        return list(line.states(start, 2.0, 1))[-1]

    exact = end(0.02)
    errors = [relative(end(step), exact) for step in (0.2, 0.1)]
    assert 3.6 < math.log2(errors[0] / errors[1]) < 4.6


def test_kuramoto_sivashinsky_grows_as_its_linear_part_says_and_stays_bounded():
    """A tiny wave k grows by exp((k^2 - k^4) t); on the attractor |u| is about 1.3 in the mean square."""
    problem = KuramotoSivashinsky(resolution=64, length=64.0)
    k = 2 * np.pi * 4 / 64
    wave = 1e-8 * np.cos(k * np.arange(64.0))
    [end] = problem.solver().states(wave, 5.0, 1)
    assert relative(end, wave * math.exp((k**2 - k**4) * 5)) < 1e-6
    u = KuramotoSivashinsky(resolution=64, length=64.0, steps=20).trajectory(0, "test", 0)
    assert u.shape == (21, 1, 64)
    assert 1.0 < u.std() < 1.7
    assert abs(u.mean(axis=-1)).max() < 1e-6


def test_kuramoto_sivashinsky_on_a_finer_grid_is_the_same():
    coarse, fine = (
        KuramotoSivashinsky(resolution=n, length=32.0, steps=4, warm_up=0.0).trajectory(0, "test", 3) for n in (64, 128)
    )
    assert relative(coarse, fine[..., ::2]) < 1e-6


@pytest.mark.parametrize("dim", [1, 2])
def test_heat_decays_wave_by_wave(dim):
    problem = Heat(resolution=16, dim=dim, time=2.0, steps=4, diffusivity=3e-3)
    x = np.arange(16) / 16
    wave = np.cos(2 * np.pi * 2 * x)
    wave = wave if dim == 1 else wave[:, None] * np.sin(2 * np.pi * 3 * x)
    squared = 4 if dim == 1 else 13
    np.testing.assert_allclose(
        problem.state(wave, 1.5), wave * math.exp(-3e-3 * 4 * np.pi**2 * squared * 1.5), atol=1e-14
    )
    states = problem.trajectory(0, "train", 0)
    assert states.shape == (5, 1, *[16] * dim)
    assert np.linalg.norm(states[-1]) < np.linalg.norm(states[0])


def test_advection_moves_by_whole_points_and_comes_back():
    problem = Advection(resolution=32, dim=2, time=1.0, steps=8, speed=1.0)
    states = problem.trajectory(0, "train", 2)[:, 0]
    np.testing.assert_allclose(states[1], np.roll(states[0], (4, 4), (0, 1)), atol=2e-6)
    np.testing.assert_allclose(states[-1], states[0], atol=2e-6)


def test_poisson_solves_its_equation_on_every_grid():
    coarse, fine = (Poisson(resolution=n, modes=5).sample(0, "test", 0) for n in (17, 33))
    np.testing.assert_allclose(coarse[0], fine[0][:, ::2, ::2], atol=1e-5)
    np.testing.assert_allclose(coarse[1], fine[1][:, ::2, ::2], atol=1e-6)
    f, u = (np.float64(v[0]) for v in Poisson(resolution=129, modes=5).sample(0, "test", 0))
    laplacian = (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]) * 128**2
    assert relative(-laplacian, f[1:-1, 1:-1]) < 0.01


def test_smooth_darcy_converges_with_order_two_and_has_the_law_it_says():
    samples = [np.float64(SmoothDarcy(resolution=n).sample(0, "test", 5)[1][0]) for n in (17, 33, 65)]
    errors = [np.abs(samples[i] - samples[2][:: 4 >> i, :: 4 >> i]).max() for i in (0, 1)]
    # The finest stands for the limit: (16 - 1) / (4 - 1) = 5 between the two differences.
    assert 4.0 < errors[0] / errors[1] < 6.5
    logs = [np.log(SmoothDarcy(resolution=17).coefficient(0, "train", i)) for i in range(200)]
    assert np.mean(np.square(logs)) == pytest.approx(1.0, rel=0.2)


def test_vorticity_of_one_wave_follows_the_forcing_and_the_viscosity():
    """f and its response are functions of x + y alone, for which the flow carries nothing: w_t = nu Lap w + f."""
    problem = VorticityTrajectories(resolution=16, viscosity=1e-2, interval=0.5, steps=1)
    rate = 1e-2 * 8 * math.pi**2
    w = problem.solver().solve(problem.forcing(), 0.5, initial=torch.zeros(1, 16, 16))
    expected = problem.forcing() * (1 - math.exp(-rate * 0.5)) / rate
    assert relative(w.numpy(), expected.numpy()) < 1e-8
    finer = VorticityTrajectories(resolution=16, solve_resolution=64, steps=2).trajectory(0, "test", 0)
    same = VorticityTrajectories(resolution=64, steps=2).trajectory(0, "test", 0)
    np.testing.assert_array_equal(finer, same[..., ::4, ::4])


def test_a_file_of_trajectories_is_read_from_first_to_last_or_as_asked(tmp_path):
    from halfwave.data import ReadOptions

    problem = Heat(resolution=16, steps=6)
    path = generate(problem, tmp_path / "heat.h5", n_train=3, n_test=2)
    dataset = open_dataset(path)
    states = problem.trajectory(0, "train", 1)
    x, y = dataset.train[1]
    np.testing.assert_array_equal(x, states[0])
    np.testing.assert_array_equal(y, states[-1])
    assert dataset.domain == Torus((1.0,))
    assert dataset.metadata["interval"] == pytest.approx(1 / 6)
    x, y = open_dataset(path, ReadOptions(steps=(2, 3))).test[[1, 0]]
    np.testing.assert_array_equal(x[0], problem.trajectory(0, "test", 1)[2])
    np.testing.assert_array_equal(y[1], problem.trajectory(0, "test", 0)[3])
    with pytest.raises(InputError, match="7 time steps; step 7"):
        open_dataset(path, ReadOptions(steps=(0, 7)))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Burgers(viscosity=-1), "viscosity is -1"),
        (lambda: Heat(dim=4), "dim is 4"),
        (lambda: Advection(steps=0), "at least 1 step"),
        (lambda: Poisson(resolution=8, modes=16), "resolution >= modes"),
        (lambda: KuramotoSivashinsky(resolution=31), "even number"),
        (lambda: VorticityTrajectories(resolution=48, solve_resolution=64), "multiple"),
    ],
)
def test_parameters_that_cannot_be_are_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()
