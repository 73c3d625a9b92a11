import numpy as np
import pytest

from halfwave.data import Darcy
from halfwave.data.elliptic import solve_elliptic
from halfwave.errors import InputError


def manufactured(dim, nodes):
    """u = prod sin(pi x_i), a = 1 + sum x_i^2 / 2: the f that makes u the exact solution."""
    x = np.stack(np.meshgrid(*[np.linspace(0, 1, nodes)] * dim, indexing="ij"))
    a = 1 + (x**2).sum(axis=0) / 2
    u = np.sin(np.pi * x).prod(axis=0)
    others = [np.prod([np.sin(np.pi * x[j]) for j in range(dim) if j != i], axis=0) for i in range(dim)]
    grad_a_grad_u = sum(x[i] * np.pi * np.cos(np.pi * x[i]) * others[i] for i in range(dim))
    return a, a * dim * np.pi**2 * u - grad_a_grad_u, u


@pytest.mark.parametrize(("dim", "coarse"), [(1, 33), (2, 33), (3, 17)])
def test_second_order_on_a_smooth_problem(dim, coarse):
    errors = []
    for nodes in (coarse, 2 * coarse - 1):
        a, f, u = manufactured(dim, nodes)
        errors.append(np.abs(solve_elliptic(a, f) - u).max())
    assert 1.9 < np.log2(errors[0] / errors[1]) < 2.1


def test_flux_across_a_jump_is_exact_in_one_dimension():
    """Harmonic faces: two materials, f = 0 apart from the known exact discrete solution's own equation."""
    a = np.where(np.arange(41) < 20, 3.0, 12.0)
    u = solve_elliptic(a, np.ones(41))
    faces = 2 * a[1:] * a[:-1] / (a[1:] + a[:-1])
    flux = faces * np.diff(u) * 40
    np.testing.assert_allclose(-np.diff(flux) * 40, 1.0, rtol=1e-8)


@pytest.mark.parametrize(("dim", "resolution"), [(1, 200), (2, 128), (2, 211), (3, 24)])
def test_residual_on_the_datasets_coefficients(dim, resolution):
    generator = Darcy(resolution=resolution, dim=dim)
    a = generator.coefficient(0, "train", 0)
    f = np.ones_like(a)
    u = solve_elliptic(a, f)
    inner = (slice(1, -1),) * dim
    residual = f[inner].copy()
    for axis in range(dim):
        coefficient, solution = np.moveaxis(a, axis, 0), np.moveaxis(u, axis, 0)
        flux = 2 / (1 / coefficient[1:] + 1 / coefficient[:-1]) * np.diff(solution, axis=0)
        balance = np.diff(flux, axis=0) * (resolution - 1) ** 2
        residual += np.moveaxis(balance[(slice(None), *inner[1:])], 0, axis)
    assert np.linalg.norm(residual) < 1e-8 * np.linalg.norm(f[inner])


def test_sparse_direct_solve_agrees():
    """The same discrete problem, assembled node by node as a sparse matrix and solved by scipy."""
    from scipy.sparse import lil_matrix
    from scipy.sparse.linalg import spsolve

    a = Darcy(resolution=12).coefficient(5, "test", 2)
    matrix = lil_matrix((144, 144))
    for i, j in np.ndindex(12, 12):
        for k, n in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
            if 0 < i < 11 and 0 < j < 11:
                face = 2 / (1 / a[i, j] + 1 / a[k, n]) * 11**2
                matrix[12 * i + j, 12 * i + j] += face
                matrix[12 * i + j, 12 * k + n] -= face
    inner = np.flatnonzero(np.pad(np.ones((10, 10)), 1))
    direct = spsolve(matrix.tocsc()[inner][:, inner], np.ones(100)).reshape(10, 10)
    np.testing.assert_allclose(solve_elliptic(a, np.ones_like(a))[1:-1, 1:-1], direct, rtol=1e-8)


def test_sample_is_the_published_law():
    x, y = Darcy(resolution=32).sample(0, "train", 3)
    assert x.shape == y.shape == (1, 32, 32)
    assert x.dtype == y.dtype == np.float32
    assert set(np.unique(x)) == {3.0, 12.0}
    assert y[0, 1:-1, 1:-1].min() > 0
    assert not y[0, 0].any()
    assert not y[0, :, -1].any()


def test_same_medium_at_every_resolution():
    coarse = Darcy(resolution=17).coefficient(0, "train", 1)
    fine = Darcy(resolution=65).coefficient(0, "train", 1)
    np.testing.assert_array_equal(coarse, fine[::4, ::4])


def test_samples_depend_on_seed_split_and_index():
    generator = Darcy(resolution=16)
    one = generator.coefficient(0, "train", 0)
    for other in ((1, "train", 0), (0, "test", 0), (0, "train", 1)):
        assert (generator.coefficient(*other) != one).any()
    with pytest.raises(InputError, match="validation"):
        generator.coefficient(0, "validation", 0)


@pytest.mark.parametrize(
    ("change", "word"), [({"dim": 4}, "dim"), ({"resolution": 3}, "resolution is 3"), ({"low": 0}, "low")]
)
def test_bad_parameters_are_refused(change, word):
    with pytest.raises(InputError, match=word):
        Darcy(**change)


def test_the_solver_refuses_what_it_cannot_solve():
    with pytest.raises(InputError, match="positive"):
        solve_elliptic(np.zeros((5, 5)), np.ones((5, 5)))
    with pytest.raises(InputError, match=r"\(5, 6\)"):
        solve_elliptic(np.ones((5, 6)), np.ones((5, 6)))
