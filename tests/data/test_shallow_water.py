"""The sphere: Williamson's steady flow stays steady, mass stays, samples follow their law."""

import math

import numpy as np
import pytest
import torch

from halfwave.data import ShallowWater, live_dataset
from halfwave.errors import InputError


def williamson_case_2(solver, wind=38.6):
    """Solid-body rotation in geostrophic balance: u = u0 cos(lat), phi = phi0 - (R Omega u0 + u0^2 / 2) sin^2(lat)."""
    lats = solver.lats.reshape(-1, 1).expand(solver.nlat, solver.nlon)
    radius, omega = float(solver.radius), float(solver.omega)
    phi = 2.94e4 - (radius * omega * wind + wind**2 / 2) * torch.sin(lats) ** 2
    velocity = torch.stack([wind * torch.cos(lats), torch.zeros_like(lats)])
    state = torch.zeros(
        3, solver.lmax, solver.mmax, dtype=torch.complex64 if lats.dtype == torch.float32 else torch.complex128
    )
    state[0] = solver.grid2spec(phi)
    state[1:] = solver.vrtdivspec(velocity)
    return state


def test_williamson_case_2_stays_steady_for_a_day():
    generator = ShallowWater(resolution=32, hours=24.0)
    solver = generator.solver()
    start = williamson_case_2(solver)
    end = solver.timestep(start.clone(), generator.steps)
    phi_0, phi_1 = solver.spec2grid(start)[0], solver.spec2grid(end)[0]
    assert phi_0.std() > 1000  # a real flow, not a resting layer
    assert ((phi_1 - phi_0).norm() / (phi_0 - phi_0.mean()).norm()).item() < 1e-5
    vorticity_0, vorticity_1 = solver.spec2grid(start)[1], solver.spec2grid(end)[1]
    assert ((vorticity_1 - vorticity_0).norm() / vorticity_0.norm()).item() < 1e-5


def test_mass_is_conserved():
    generator = ShallowWater(resolution=32, hours=6.0)
    solver = generator.solver()
    start = generator.initial_state(0, "train", 0)
    end = solver.timestep(start.clone(), generator.steps)
    before, after = (
        float(solver.integrate_grid(solver.spec2grid(s)[0].double(), dimensionless=True)) for s in (start, end)
    )
    assert abs(after - before) / before < 1e-6
    assert ((end - start).abs().max() / start[1:].abs().max()) > 1  # while the state did change


def test_initial_states_are_those_of_torch_harmonics():
    """The same law as its own random_initial_condition: equal variance of every coefficient."""
    generator = ShallowWater(resolution=32)
    solver = generator.solver()
    torch.manual_seed(0)
    theirs = torch.stack([solver.random_initial_condition(mach=0.2) for _ in range(300)])
    ours = torch.stack([generator.initial_state(0, "train", i) for i in range(300)])
    lower = torch.tril(torch.ones(generator.degrees, generator.degrees)).bool()
    for field in range(3):
        a, b = (states[:, field][:, lower].var(dim=0).mean() for states in (ours, theirs))
        assert a / b == pytest.approx(1, abs=0.05)
    assert ours[:, 0, 0, 0].mean().real / theirs[:, 0, 0, 0].mean().real == pytest.approx(1, abs=1e-3)


def test_fields_are_normalised():
    x = np.stack([ShallowWater(resolution=32).sample(0, "train", i)[0] for i in range(12)]).astype(np.float64)
    weights = np.sin(np.linspace(0, math.pi, 32))[:, None]
    weights = weights / (weights.sum() * 64)
    mean = (x * weights).sum(axis=(-2, -1)).mean(axis=0)
    power = (x**2 * weights).sum(axis=(-2, -1)).mean(axis=0)
    np.testing.assert_allclose(mean, 0, atol=0.2)
    np.testing.assert_allclose(power, 1, atol=0.2)


def test_shapes_and_same_degrees_at_every_resolution():
    coarse, fine = ShallowWater(resolution=16), ShallowWater(resolution=32)
    x, y = coarse.sample(0, "test", 0)
    assert x.shape == y.shape == (3, 16, 32)
    assert x.dtype == y.dtype == np.float32
    a, b = coarse.initial_state(0, "test", 0), fine.initial_state(0, "test", 0)
    torch.testing.assert_close(a, b[:, : coarse.degrees, : coarse.degrees])


def test_live_dataset_is_new_each_epoch_and_repeatable():
    dataset = live_dataset(ShallowWater(resolution=8), n_train=3, n_test=2)
    assert (dataset.n_train, dataset.n_test, dataset.in_channels, dataset.grid) == (3, 2, 3, (8, 16))
    first, test = dataset.train[[0, 2]][0], dataset.test[0][0]
    dataset.set_epoch(1)
    assert not torch.equal(dataset.train[[0, 2]][0], first)
    assert torch.equal(dataset.test[0][0], test)
    dataset.set_epoch(0)
    assert torch.equal(dataset.train[[0, 2]][0], first)
    assert dataset.train[[]][0].shape == (0, 3, 8, 16)
    with pytest.raises(InputError, match="epoch"):
        dataset.set_epoch(-1)
    with pytest.raises(InputError, match="n_train"):
        live_dataset(ShallowWater(resolution=8), n_train=0)


@pytest.mark.parametrize("change", [{"resolution": 4}, {"hours": 0.0}, {"mach": -1.0}])
def test_bad_parameters_are_refused(change):
    with pytest.raises(InputError, match=next(iter(change))):
        ShallowWater(**change)
