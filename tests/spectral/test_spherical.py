"""The spherical transform against torch-harmonics, against exact functions, and in every format."""

import math

import mpmath
import pytest
import torch
from torch_harmonics import InverseRealSHT, RealSHT
from torch_harmonics.legendre import legpoly
from torch_harmonics.quadrature import clenshaw_curtiss_weights, legendre_gauss_weights

from halfwave.numerics import FORMATS, arithmetic
from halfwave.precision import Policy
from halfwave.spectral import SpectralConv, SphericalTransform
from halfwave.spectral.legendre import legendre_functions, quadrature
from halfwave.spectral.legendre_matrix import legendre_matrix
from halfwave.spectral.spherical_gemm import analyse, synthesise

pytestmark = pytest.mark.hardware

KINDS = ["equiangular", "legendre-gauss"]
SIZES = [((16, 32), (16, 32)), ((17, 30), (9, 20)), ((33, 64), (33, 66)), ((12, 11), (12, 12))]
FP32, FP64, FP16 = (arithmetic(FORMATS[name], "cpu") for name in ("fp32", "fp64", "fp16"))


def _relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def _as_complex(transform, spectrum, grid, batch):
    """Our spectrum (L, 2, M B, C) as torch-harmonics' (B, C, L, M), orthonormal."""
    degrees, orders = transform.kept(grid)
    pairs = spectrum.view(degrees, 2, orders, batch, -1).permute(3, 4, 0, 2, 1)
    return torch.view_as_complex(pairs.contiguous()) * math.sqrt(4 * math.pi)


def _band_limited(transform, grid, batch=2, channels=3, dtype=torch.float64):
    """Coefficients of real fields (L, 2, M B, C): none where l < m, and m = 0 is real."""
    degrees, orders = transform.kept(grid)
    spectrum = torch.randn(degrees, 2, orders, batch, channels, dtype=dtype)
    degree, order = torch.arange(degrees)[:, None], torch.arange(orders)
    spectrum *= (order <= degree)[:, None, :, None, None]
    spectrum[:, 1, 0] = 0
    return spectrum.flatten(2, 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 3, 8, 33, 512])
def test_quadrature_equals_torch_harmonics(kind, n):
    theta, weights = quadrature(n, kind)
    nodes, theirs = {"equiangular": clenshaw_curtiss_weights, "legendre-gauss": legendre_gauss_weights}[kind](n, -1, 1)
    torch.testing.assert_close(theta.cos().flip(0), nodes, rtol=0, atol=1e-14)
    torch.testing.assert_close(2 * weights, theirs, rtol=0, atol=1e-14)


def test_legendre_functions_equal_torch_harmonics():
    theta, _ = quadrature(24, "equiangular")
    expected = legpoly(12, 20, theta.cos()) * math.sqrt(4 * math.pi)
    table = legendre_functions(range(12), 20, theta)
    torch.testing.assert_close(table, expected, rtol=0, atol=1e-12)
    assert torch.equal(legendre_functions(range(5, 12), 20, theta), table[5:])


def _exact_legendre(degree, order, theta):
    """(-1)^m sqrt((2l+1) (l-m)!/(l+m)!) (sin θ)^m d^m/dx^m P_l(x) at x = cos θ, term by term with 600 digits."""
    with mpmath.workdps(600):
        x, s = mpmath.cos(mpmath.mpf(theta)), mpmath.sin(mpmath.mpf(theta))
        terms = (
            (-1) ** k * math.comb(degree, k) * math.comb(2 * degree - 2 * k, degree)
            * math.perm(degree - 2 * k, order) * x ** (degree - 2 * k - order)
            for k in range((degree - order) // 2 + 1)
        )  # fmt: skip
        ratio = mpmath.mpf(math.factorial(degree - order)) / math.factorial(degree + order)
        return float((-s) ** order * mpmath.sqrt((2 * degree + 1) * ratio) * sum(terms) / mpmath.mpf(2) ** degree)


@pytest.mark.parametrize("order", [0, 3, 100, 300, 480, 512])
def test_legendre_functions_are_accurate_at_degree_512(order):
    """Between the pole and the equator; high orders start from numbers below 1e-300 there."""
    theta = torch.tensor([0.0, 0.003, 0.05, 0.2, 0.7, 1.2, 1.57], dtype=torch.float64)
    found = legendre_functions(range(order, order + 1), 513, theta)[0, 512]
    exact = torch.tensor([_exact_legendre(512, order, t) for t in theta.tolist()], dtype=torch.float64)
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["gemm", "fft"])
@pytest.mark.parametrize(("grid", "modes"), SIZES)
def test_equals_torch_harmonics(grid, modes, backend, kind):
    torch.manual_seed(0)
    transform = SphericalTransform(modes, kind, backend)
    degrees, orders = transform.kept(grid)
    x = torch.randn(2, 3, *grid)
    spectrum = transform.forward(x, FP32)
    expected = RealSHT(*grid, degrees, orders, grid=kind)(x)
    assert _relative(_as_complex(transform, spectrum, grid, 2), expected) < 1e-5
    field = InverseRealSHT(*grid, degrees, orders, grid=kind)(expected)
    assert _relative(transform.inverse(spectrum, grid, grid, FP32), field) < 1e-5


@pytest.mark.parametrize("backend", ["gemm", "auto"])
@pytest.mark.parametrize(("kind", "degrees"), [("equiangular", 16), ("legendre-gauss", 31)])
@pytest.mark.parametrize(
    ("name", "tolerance"), [("fp64", 1e-12), ("fp32", 1e-5), ("tf32", 4), ("fp16", 4), ("bf16", 4)]
)
def test_round_trip_of_band_limited_fields(kind, degrees, name, tolerance, backend):
    """Exact but for rounding; in half formats within four unit roundoffs, one for each rounded operand and result."""
    torch.manual_seed(0)
    arith, grid = arithmetic(FORMATS[name], "cpu"), (31, 62)
    transform = SphericalTransform((degrees, 2 * degrees), kind, backend)
    field = transform.inverse(_band_limited(transform, grid), grid, grid, FP64)
    x = field.to(arith.storage)
    back = transform.inverse(transform.forward(x, arith), grid, grid, arith)
    limit = tolerance * arith.format.unit_roundoff if arith.format.half else tolerance
    assert back.dtype is arith.storage
    assert _relative(back.double(), field) < limit


def test_half_coefficients_stay_within_the_field():
    """Means: bounded by max|v| even for the largest number that fp16 has."""
    transform = SphericalTransform((32, 64))
    x = torch.full((1, 1, 64, 128), 6e4)
    x[..., ::2] *= -1
    spectrum = transform.forward(x, FP16)
    assert spectrum.isfinite().all()
    assert transform.forward(torch.full_like(x, 6e4), FP16)[0, 0, 0].item() == pytest.approx(6e4, rel=2e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", [(48, 96), (33, 64), (20, 40)])
def test_inverse_on_another_grid_samples_the_same_function(kind, target):
    torch.manual_seed(0)
    transform = SphericalTransform((12, 24), kind)
    spectrum = _band_limited(transform, (24, 48))
    moved = transform.inverse(spectrum, target, (24, 48), FP64)
    assert moved.shape == (2, 3, *target)
    expected = InverseRealSHT(*target, 12, 12, grid=kind)(_as_complex(transform, spectrum, (24, 48), 2))
    assert _relative(moved, expected) < 1e-12


def test_a_coarse_grid_keeps_the_degrees_that_it_has():
    transform = SphericalTransform((12, 24))
    assert transform.kept((8, 10)) == (8, 6)
    coarse = transform.inverse(_band_limited(transform, (24, 48)), (8, 10), (24, 48), FP64)
    assert coarse.shape == (2, 3, 8, 10)


@pytest.mark.parametrize("backend", ["gemm", "fft"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradcheck_in_float64(kind, backend):
    torch.manual_seed(0)
    transform = SphericalTransform((5, 8), kind, backend)
    conv = SpectralConv(2, 3, (5, 8), transform=transform, precision=Policy.uniform("fp64")).double()
    x = torch.randn(2, 2, 6, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: conv(x), (x, *conv.parameters()), fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda x: transform.forward(x, FP64), (x,), fast_mode=True)


def test_slices_equal_one_piece(monkeypatch):
    """Small slices skip degrees below their first order; one slice computes them all."""
    torch.manual_seed(0)
    conv = SpectralConv(2, 2, (16, 32), transform=SphericalTransform((16, 32)))
    x = torch.randn(3, 2, 20, 40, requires_grad=True)
    whole = conv(x)
    (expected,) = torch.autograd.grad(whole.square().sum(), x)
    monkeypatch.setattr("halfwave.spectral.slicing.slices.__defaults__", (2000,))
    sliced = conv(x)
    (found,) = torch.autograd.grad(sliced.square().sum(), x)
    torch.testing.assert_close(sliced, whole, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_convolution_commutes_with_rotation_about_the_axis():
    torch.manual_seed(0)
    conv = SpectralConv(2, 2, (8, 12), transform=SphericalTransform((8, 12)))
    x = torch.randn(1, 2, 12, 24)
    assert _relative(conv(x.roll(5, dims=-1)), conv(x).roll(5, dims=-1)) < 1e-5


def test_bias_is_a_constant_field():
    conv = SpectralConv(1, 2, (8, 12), transform=SphericalTransform((8, 12)))
    y = conv(torch.zeros(3, 1, 12, 24))
    torch.testing.assert_close(y, conv.bias.view(1, 2, 1, 1).expand(3, 2, 12, 24))


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("bf16", 0.02), ("fp16", 0.0025), ("tf32", 0.0025), ("fp8_e4m3", 0.4), ("bf16x2", 4e-5), ("bf16x3", 1e-6)],
)
def test_half_formats_are_near_full(name, tolerance):
    """A few unit roundoffs: the tolerance is about five of them, as for the Fourier transform."""
    torch.manual_seed(0)
    conv = SpectralConv(3, 5, (12, 24), transform=SphericalTransform((12, 24)))
    x = torch.randn(2, 3, 24, 48)
    full = conv(x)
    conv.set_precision(Policy.named("half", dtype=name))
    y = conv(x)
    assert y.dtype is FORMATS[name].storage
    assert 0 < _relative(y.float(), full) < tolerance


@pytest.mark.parametrize(("longitudes", "orders"), [(9, 5), (10, 6)])
@pytest.mark.parametrize("weighting", ["mean", "hermitian"])
def test_backends_are_the_same_linear_maps(weighting, longitudes, orders):
    """Both directions, both weightings, with the order W/2 that stands for itself alone."""
    torch.manual_seed(0)
    place = ((12, longitudes), (12, orders), weighting, FP64, torch.device("cpu"))
    gemm, fft = (SphericalTransform((12, 24), backend=name)._plan(*place) for name in ("gemm", "fft"))
    x = torch.randn(2, 3, 12, longitudes, dtype=torch.float64)
    spectrum = torch.randn_like(analyse(x, gemm))
    torch.testing.assert_close(analyse(x, fft), analyse(x, gemm))
    torch.testing.assert_close(synthesise(spectrum, fft), synthesise(spectrum, gemm))


def test_plan_says_what_it_does():
    plan = SphericalTransform((8, 12)).plan((12, 24), FP16, torch.device("cpu"))
    assert str(plan) == f"gemm transform of 12x24 equiangular points, 8 degrees, 6 orders in {FP16}"


def test_meta_device():
    conv = SpectralConv(3, 5, (8, 8), transform=SphericalTransform((8, 8)), precision="half").to("meta")
    assert conv(torch.empty(2, 3, 16, 32, device="meta")).shape == (2, 5, 16, 32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SphericalTransform((8,)), r"n_modes of the sphere must be \(degrees >= 1, twice the orders >= 2\)"),
        (lambda: SphericalTransform((8, 1)), "n_modes of the sphere must be"),
        (lambda: SphericalTransform((8, 8), "healpix"), "unknown grid 'healpix' .*equiangular, legendre-gauss"),
        (lambda: SphericalTransform((8, 8), backend="dft"), "unknown backend 'dft': expected one of auto"),
        (lambda: SpectralConv(1, 1, (4, 8), transform=SphericalTransform((8, 8))), "contradicts the transform's"),
        (
            lambda: SpectralConv(1, 1, (8, 8), layout="neuralop", transform=SphericalTransform((8, 8))),
            "backend and layout",
        ),
        (lambda: SphericalTransform((8, 8)).forward(torch.ones(1, 1, 1, 8), FP32), "at least 2 latitudes, got 1"),
        (
            lambda: SphericalTransform((8, 8)).forward(torch.ones(1, 1, 8), FP32),
            r"needs a grid \(latitudes, longitudes\)",
        ),
    ],
)
def test_bad_arguments_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_empty_batch_gives_an_empty_batch():
    transform = SphericalTransform((64, 64))
    spectrum = transform.forward(torch.randn(0, 3, 64, 128), FP32)
    assert spectrum.shape == (64, 2, 0, 3)
    plan = transform.plan((64, 128), FP32, spectrum.device)
    assert plan.backend == "fft"
    assert synthesise(spectrum, plan).shape == (0, 3, 64, 128)


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("weighting", ["mean", "hermitian"])
def test_no_product_meets_a_subnormal_number(name, weighting):
    """A CPU takes a hundred times as long for one; at this degree P_lm falls to 1e-150 near the poles."""
    arith = arithmetic(FORMATS[name], "cpu")
    matrix = legendre_matrix((128, 128, 128), "equiangular", weighting, arith, torch.device("cpu")).float()
    sizes = matrix[matrix != 0].abs()
    assert sizes.min() > torch.finfo(torch.float32).smallest_normal * 2.0**30
    exact = legendre_functions(range(128), 128, quadrature(128, "equiangular")[0])
    assert (exact[(exact != 0) & (exact.abs() < 1e-45)]).numel() > 1000
