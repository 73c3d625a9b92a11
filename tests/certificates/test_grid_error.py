"""The error of a grid itself, against fields whose continuation is known."""

import math

import numpy as np
import pytest
import torch

import halfwave as hw
from halfwave.certificates import estimate_grid_errors
from halfwave.certificates.grid_crossover import Crossover, Curves, Level, find_crossover
from halfwave.certificates.observing import run_as
from halfwave.domains import Torus
from halfwave.errors import InputError
from halfwave.precision import Policy

FINE = 128
PLANE = Torus((1.0, 1.0))


def _smooth(side):
    t = torch.arange(side, dtype=torch.float64) * (2 * math.pi / side)
    return (2 * (torch.sin(t)[:, None] * torch.cos(t) + 0.5 * torch.cos(2 * t)[:, None])).expand(2, 1, -1, -1)


def _smooth_case():
    torch.manual_seed(3)
    return hw.FNO((6, 6), 1, 1, 8, n_layers=2, positional_embedding=None)


def _relative(answer, truth):
    return float((answer - truth).norm() / truth.norm())


@torch.no_grad()
def _truth(model, fine, side):
    exact = run_as(model, Policy.uniform("fp64", stabilizer="none"))
    step = FINE // side
    return _relative(exact(fine[..., ::step, ::step]), exact(fine)[..., ::step, ::step])


@pytest.mark.parametrize("side", [32, 16])
def test_the_two_cases_that_the_half_grid_got_wrong(side):
    """||f_32 - f_16|| is the error of 16 points, a thousand times that of 32; and on 16 points fp16 costs more than the
    grid, while ||f_16 - f_8|| is larger than both."""
    model, x = _smooth_case(), _smooth(side).float()
    certificate = hw.certify(model, x, Policy.named("mixed", dtype="fp16"))
    truth = _truth(model, _smooth(FINE).float().double(), side)
    own = certificate.resolution.own
    assert truth < 2e-5
    # Data are fp32 numbers, whose own rounding continues as noise.
    assert float(own.high.max()) < 1.5 * truth + 1e-7
    assert bool((own.low <= truth).all())
    half_grid = {32: 1.8e-5, 16: 1.4e-3}[side]  # what the verdict used to compare with
    assert truth < half_grid / 50
    assert float(certificate.measured_error.min()) > 10 * truth
    assert certificate.resolution.limits == "rounding"
    assert "more digits would help more than a finer grid" in certificate.verdict


def _field(kind, rng):
    """Values at FINE points a side of a field with a known continuation."""
    k = np.fft.fftfreq(FINE, 1 / FINE)
    r = np.hypot(*np.meshgrid(k, k, indexing="ij"))
    noise = rng.normal(size=(FINE, FINE)) + 1j * rng.normal(size=(FINE, FINE))
    spectra = {
        "band": (r <= rng.integers(1, 25)) * (1 + r) ** -rng.uniform(0, 3),
        "power": (r < FINE // 2) * (1 + r) ** -rng.uniform(1.2, 6),
        "smooth": np.exp(-r * rng.uniform(0.15, 2)),
        "jump": (9 + r**2) ** -1.5,
        "kink": 1.0 * (r < 4),
    }
    v = np.fft.ifft2(noise * spectra[kind]).real
    v = np.sign(v) if kind == "jump" else abs(v) if kind == "kink" else v
    return torch.from_numpy((v - v.mean()) / v.std() * 10 ** rng.uniform(-1, 0.5))[None, None]


def _network(rng):
    torch.manual_seed(int(rng.integers(10**6)))
    model = hw.FNO(
        (int(rng.choice([6, 8])),) * 2, 1, 1, 6, n_layers=int(rng.integers(1, 3)),
        positional_embedding=[None, "grid"][int(rng.integers(2))],
        non_linearity=str(rng.choice(["gelu", "tanh", "relu", "silu"])),
    )  # fmt: skip
    with torch.no_grad():
        for parameter in model.lifting.parameters():
            parameter *= 10 ** rng.uniform(-0.7, 0.7)
    return model


def _verdict(rounding, error):
    if rounding < float(error.low):
        return "half"
    return "grid" if rounding > float(error.high) else "cannot tell"


@torch.no_grad()
def test_never_wrong_in_favour_of_half_on_random_fields():
    """60 fields of five kinds on 16 and 32 points; 850 more, on up to 64, had no wrong verdict either."""
    rng = np.random.default_rng(0)
    said = {"half": 0, "grid": 0, "cannot tell": 0}
    ratios = []
    for case in range(60):
        kind = ("band", "power", "smooth", "jump", "kink")[case % 5]
        fine, model, side = _field(kind, rng), _network(rng), int(rng.choice([16, 32]))
        x = fine[..., :: FINE // side, :: FINE // side]
        policy = Policy.named(str(rng.choice(["mixed", "half"])), dtype=str(rng.choice(["fp16", "bf16"])))
        exact = run_as(model, Policy.uniform("fp64", stabilizer="none"))
        error = estimate_grid_errors(exact, x, PLANE)[0]
        truth = _relative(exact(x), exact(fine)[..., :: FINE // side, :: FINE // side])
        rounding = _relative(run_as(model, policy)(x.float()).double(), exact(x))
        verdict = _verdict(rounding, error)
        said[verdict] += 1
        assert verdict == "cannot tell" or verdict == ("half" if rounding < truth else "grid"), (case, kind)
        assert float(error.low) <= truth
        ratios.append(float(error.value) / truth)
    assert said["half"] >= 12
    assert said["grid"] >= 12
    assert 0.5 < float(np.median(ratios)) < 2


def test_finer_inputs_replace_the_extrapolation():
    rng = np.random.default_rng(5)
    fine, model = _field("jump", rng), _network(rng)
    exact = run_as(model, Policy.uniform("fp64", stabilizer="none"))
    x = fine[..., ::4, ::4]
    own = estimate_grid_errors(exact, x, PLANE)[0]
    given = estimate_grid_errors(exact, x, PLANE, finer=fine)[0]
    truth = _truth(model, fine, 32)
    assert float(given.value) == pytest.approx(truth, rel=1e-9)
    assert float(given.low) <= truth <= float(given.high)
    assert given.side == own.side == 32
    certificate = hw.certify(model, x.float(), Policy.named("mixed", dtype="fp16"), finer=fine.float())
    assert float(certificate.resolution.own.value) == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize("shape", [(1, 1, 24, 24), (1, 1, 64, 63), (2, 1, 128, 128)])
def test_finer_inputs_that_do_not_fit_are_refused(shape):
    x = torch.randn(1, 1, 32, 32)
    with pytest.raises(InputError, match=r"finer (has shape|inputs)"):
        hw.certify(hw.FNO((4, 4), 1, 1, 4, n_layers=1), x, "mixed", finer=torch.randn(shape[0], 2, *shape[2:]))


def _curves(sides, errors, rounding, spread=1.5):
    levels = [Level(m, e / spread, e, e * spread, rounding, rounding) for m, e in zip(sides, errors, strict=True)]
    return Curves(tuple(levels))


def test_the_crossing_of_a_power_law_is_found_beyond_the_grids():
    """D = m^-2, p = 1e-5: m* = 316."""
    found = find_crossover(_curves((16, 32, 64), [m**-2.0 for m in (16, 32, 64)], 1e-5))
    assert isinstance(found, Crossover)
    assert found.m == pytest.approx(10**2.5, rel=1e-6)
    assert found.low < found.m < found.high


def test_the_crossing_of_an_exponential_is_found_beyond_the_grids():
    """D = e^(-m/8), p = 1e-6: m* = 8 ln 10^6 = 110.5."""
    curves = _curves((16, 32, 64), [math.exp(-m / 8) for m in (16, 32, 64)], 1e-6)
    found = find_crossover(curves)
    assert curves.law == "exponential"
    assert found.m == pytest.approx(8 * math.log(1e6), rel=1e-6)


def test_between_grids_it_is_interpolated_and_below_them_continued():
    inside = find_crossover(_curves((16, 32, 64), [m**-2.0 for m in (16, 32, 64)], 1 / 40**2, spread=1.0001))
    assert inside.m == pytest.approx(40, rel=1e-6)
    assert 30 < inside.low < 40 < inside.high < 52  # rounding itself is known to 25%
    below = find_crossover(_curves((16, 32, 64), [m**-2.0 for m in (16, 32, 64)], 1 / 8**2))
    assert below.m == pytest.approx(8, rel=1e-6)


@pytest.mark.parametrize(
    ("sides", "errors", "reason"),
    [
        ((16, 32, 64), (0.1, 0.11, 0.1), "does not fall"),
        ((16, 32), (0.1, 0.01), "too few"),
        ((16, 32, 64), (0.1, 0.01, 0.0), "no error that could be seen"),
        ((16, 32, 64), (0.1, 0.01, math.inf), "not finite"),
    ],
)
def test_no_crossing_where_none_can_be_told(sides, errors, reason):
    assert reason in find_crossover(_curves(sides, errors, 1e-3))
