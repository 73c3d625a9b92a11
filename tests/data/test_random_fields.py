import numpy as np
import pytest

from halfwave.data import GaussianField
from halfwave.errors import InputError


@pytest.mark.parametrize("boundary", ["periodic", "neumann"])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_one_seed_is_one_function_on_every_grid(boundary, dim):
    field = GaussianField(dim, alpha=2.0, tau=3.0, boundary=boundary, modes=6)
    coarse, fine = (4, 32) if boundary == "periodic" else (5, 33)
    step = (slice(None, None, 8),) * dim
    a = field.sample(np.random.default_rng(1), coarse)
    b = field.sample(np.random.default_rng(1), fine)
    assert a.shape == (coarse,) * dim
    np.testing.assert_allclose(a, b[step], atol=1e-14)


@pytest.mark.parametrize("resolution", [2, 3, 5, 7, 9])
def test_coarse_and_odd_periodic_grids(resolution):
    field = GaussianField(1, alpha=1.0, tau=1.0, modes=6)
    coarse = field.sample(np.random.default_rng(1), resolution)
    np.testing.assert_allclose(coarse, field.sample(np.random.default_rng(1), 16 * resolution)[::16], atol=1e-13)


@pytest.mark.parametrize("boundary", ["periodic", "neumann"])
def test_more_modes_keep_the_coarser_ones(boundary):
    few = GaussianField(2, alpha=2.0, tau=3.0, boundary=boundary, modes=5).draw(np.random.default_rng(3))
    many = GaussianField(2, alpha=2.0, tau=3.0, boundary=boundary, modes=9).draw(np.random.default_rng(3))
    np.testing.assert_array_equal(few, many[: few.shape[0], : few.shape[1]])


def test_fourier_basis_is_what_the_docstring_says():
    field = GaussianField(2, alpha=1.0, tau=1.0, modes=4, length=2.0)
    x = np.arange(10) / 10
    coefficients = np.zeros((7, 7))
    coefficients[1, 4] = 1.0  # cos of frequency 1 along x, sin of frequency 2 along y
    expected = 2 * np.outer(np.cos(2 * np.pi * x), np.sin(4 * np.pi * x))
    np.testing.assert_allclose(field.evaluate(coefficients, 10), expected, atol=1e-14)


def test_cosine_basis_is_what_the_docstring_says():
    field = GaussianField(2, alpha=1.0, tau=1.0, boundary="neumann", modes=4)
    x = np.linspace(0, 1, 7)
    coefficients = np.zeros((4, 4))
    coefficients[0, 3] = 1.0
    expected = np.outer(np.ones(7), np.sqrt(2) * np.cos(3 * np.pi * x))
    np.testing.assert_allclose(field.evaluate(coefficients, 7), expected, atol=1e-14)


def test_eigenvalues_are_those_of_the_law():
    periodic = GaussianField(1, alpha=2.5, tau=7.0, scale=3.0, length=2 * np.pi, modes=3)
    np.testing.assert_allclose(periodic.eigenvalues(), 3.0 * (np.array([0, 1, 1, 2, 2]) ** 2 + 49.0) ** -2.5)
    neumann = GaussianField(2, alpha=2.0, tau=3.0, boundary="neumann", modes=2)
    k2 = np.pi**2 * np.array([[0, 1], [1, 2]])
    np.testing.assert_allclose(neumann.eigenvalues(), (k2 + 9.0) ** -2.0)


@pytest.mark.parametrize("boundary", ["periodic", "neumann"])
def test_sample_covariance_matches_the_law(boundary):
    """The covariance of values at grid points against sum lambda phi(x) phi(y), within five standard errors."""
    field = GaussianField(1, alpha=2.0, tau=3.0, scale=27.0, boundary=boundary, modes=16)
    rng, draws = np.random.default_rng(0), 20_000
    samples = np.stack([field.sample(rng, 8) for _ in range(draws)])
    basis = np.stack([field.evaluate(row, 8) for row in np.eye(len(field.eigenvalues()))])
    exact = np.einsum("m,mi,mj->ij", field.eigenvalues(), basis, basis)
    spread = np.sqrt((np.outer(np.diag(exact), np.diag(exact)) + exact**2) / draws)
    assert np.abs(samples.T @ samples / draws - exact).max() < 5 * spread.max()
    assert np.abs(samples.mean(axis=0)).max() < 5 * np.sqrt(np.diag(exact).max() / draws)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_coefficient_variances_match_the_spectrum(dim):
    """Each draw's coefficients over their standard deviations are standard normal, mode by mode."""
    field = GaussianField(dim, alpha=2.0, tau=3.0, modes=2)
    rng, draws = np.random.default_rng(0), 4000
    xi = np.stack([field.draw(rng) for _ in range(draws)]) / np.sqrt(field.eigenvalues())
    assert np.abs((xi**2).mean(axis=0) - 1).max() < 5 * np.sqrt(2 / draws)


def test_zero_mean_drops_the_constant():
    field = GaussianField(2, alpha=2.0, tau=3.0, zero_mean=True, modes=8)
    assert abs(field.sample(np.random.default_rng(0), 16).mean()) < 1e-15


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"dim": 4}, "dim is 4"),
        ({"boundary": "dirichlet"}, "dirichlet"),
        ({"modes": 0}, "modes is 0"),
        ({"length": 0.0}, "length"),
        ({"scale": -1.0}, "scale"),
    ],
)
def test_bad_parameters_are_refused(change, word):
    with pytest.raises(InputError, match=word):
        GaussianField(**{"dim": 2, "alpha": 2.0, "tau": 3.0, **change})


def test_a_law_without_variance_and_a_grid_of_one_point_are_refused():
    with pytest.raises(InputError, match="zero_mean"):
        GaussianField(2, alpha=2.0, tau=0.0).draw(np.random.default_rng(0))
    with pytest.raises(InputError, match="resolution is 1"):
        GaussianField(2, alpha=2.0, tau=3.0).sample(np.random.default_rng(0), 1)
