"""Every bound against its own formula with 60 digits: never below it, and above by the outward rounding alone.

The formulas are those of docs/theory.md, written once more in mpmath. `benchmarks/mutate_bounds.py` takes the terms of
the library's out one by one: each shows here.
"""

import math

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from halfwave.numerics import FORMATS, Accumulation
from halfwave.theory import (
    Layer,
    Pipeline,
    bound_block,
    bound_discretization,
    bound_network,
    bound_pointwise,
    bound_precision,
    bound_precision_system,
    bound_rounding,
    largest_scale,
    lower_bound_discretization,
)
from halfwave.theory.bound import outward_down, outward_up
from halfwave.theory.dft_matrix import matrix_error
from halfwave.theory.growth import Growth
from halfwave.theory.lattice import read_lattice
from halfwave.theory.lipschitz import Smoothness, lipschitz_bounds
from halfwave.theory.overflow import fft_peak
from halfwave.theory.roundoff import roundoff_of
from halfwave.theory.smooth import derivative_bounds, sobolev_bound
from halfwave.theory.variation import variation_bounds

mpmath.mp.dps = 60
ROOT2 = mpmath.sqrt(2)
SLACK = mpf("3e-12")


def outward(bound, formula):
    """At least the formula, and above it by rounding alone."""
    value = mpf(float(bound))
    assert value >= formula, (value - formula) / formula
    assert value <= formula * (1 + SLACK) + mpf("1e-288"), (value - formula) / formula


class Unit:
    """u', eta, mu and rho of a format, to 60 digits."""

    def __init__(self, name, flush=False):
        format = FORMATS[name]
        u = mpf(2) ** -format.precision
        self.u = u / (1 + u)
        self.format = format
        self.normal = mpf(2) ** format.min_exponent
        self.eta = self.normal if flush else mpf(2) ** (format.min_exponent - format.precision)
        self.flushed = self.eta if flush else mpf(0)
        self.rho = self.u * (1 + ROOT2 * (1 + self.u))

    def mu(self, scale=1):
        both = mpf(scale) < ROOT2 * self.normal
        return mpmath.hypot(self.u, (ROOT2 if both else 1) * self.eta / mpf(scale))


PRODUCTS = {1: 1, 2: 3, 3: 6}
LEFT_OUT = {1: mpf(0), 2: mpf(2) ** -16, 3: mpf(2) ** -24 + mpf(2) ** -34}


def product_growth(name, sums, additions):
    """1 + k u or (1 + u)^k; by parts twice, moduli (1 + 2^-7)^2 as large, and what is left out."""
    parts, unit = FORMATS[name].parts, mpf(sums.unit)
    counts = additions, PRODUCTS[parts] - 1
    first, second = (1 + count * unit if sums.nearest else (1 + unit) ** count for count in counts)
    excess = first * second - 1
    return 1 + LEFT_OUT[parts] + excess * ((1 + mpf(2) ** -7) ** 2 if parts > 1 else 1)


def stages(sides):
    return [side.bit_length() - 1 for side in sides]


def fft_growth(unit, sides):
    twiddles = sum(max(s - 2, 0) for s in stages(sides))
    return (1 + unit.u) ** sum(stages(sides)) * ((1 + unit.mu()) * (1 + unit.rho)) ** twiddles


def losses(sides, gain):
    """2 sqrt2 for each stage that multiplies, times gain for each later one; the last axis runs first."""
    multiplies = [stage >= 2 for count in reversed(stages(sides)) for stage in range(count)]
    total = sum(gain ** (len(multiplies) - 1 - t) for t, does in enumerate(multiplies) if does)
    return 2 * ROOT2 * total / mpf(gain) ** len(multiplies)


@pytest.mark.parametrize("name", list(FORMATS))
@pytest.mark.parametrize("sup", [1.0, 3e-7, 1e-30])
def test_rounded_inputs_and_products(name, sup):
    unit = Unit(name)
    a, b = (1 + unit.u) * (1 + unit.mu()), unit.eta * (1 + unit.mu())
    outward(bound_precision(name, 64, sup=sup), mpf(sup) * (a - 1) + b)
    outward(bound_precision(name, 64, sup=sup, scale=0.25), mpf(sup) * (a - 1) + 4 * b)
    # Products, sums to nearest in fp64 (wider than twice every other format, so exact) and the output cast.
    options = {"algorithm": "gemm", "accumulate": "fp64", "products_rounded": True, "output_cast": True}
    growth = product_growth(name, Accumulation.to_nearest(FORMATS["fp64"]), 63)
    a, b = a * (1 + unit.u) * growth, (b * (1 + unit.u) + ROOT2 * unit.eta) * growth
    a, b = a * (1 + unit.u), b * (1 + unit.u) + ROOT2 * unit.eta
    outward(bound_precision(name, 64, sup=sup, **options), mpf(sup) * (a - 1) + b)


@pytest.mark.parametrize("sums", ["fp32", Accumulation(FORMATS["fp32"], 2.0**-22, nearest=False)])
@pytest.mark.parametrize("sup", [1e-30, 1e-44])
def test_sums_of_inexact_products(sums, sup):
    """fp32 in fp32: products are rounded in the accumulator, to nearest or cut off, and so are sums."""
    unit = Unit("fp32")
    nearest = isinstance(sums, str)
    product = unit.u if nearest else mpf(2) ** -22
    lost = unit.eta if nearest else 2 * unit.eta
    a, b = (1 + unit.u) * (1 + unit.mu()), unit.eta * (1 + unit.mu())
    a, b = a * (1 + product), b * (1 + product) + ROOT2 * lost
    growth = 1 + 63 * mpf(2) ** -24 if nearest else (1 + mpf(2) ** -22) ** 63
    found = bound_precision("fp32", 64, sup=sup, algorithm="gemm", accumulate=sums)
    outward(found, mpf(sup) * (a * growth - 1) + b * growth)


@pytest.mark.parametrize("name", ["bf16x2", "bf16x3"])
@pytest.mark.parametrize("unit_of_sums", [2.0**-24, 2.0**-22])
@pytest.mark.parametrize("sup", [1.0, 1e-30, 1e-40])
def test_products_by_parts(name, unit_of_sums, sup):
    """Each of them may underflow in the accumulator; there are three or six sums, which are added up."""
    nearest = unit_of_sums == 2.0**-24
    sums = Accumulation(FORMATS["fp32"], unit_of_sums, nearest)
    unit, wide = Unit(name), Unit("fp32")
    product, lost = (wide.u, wide.eta) if nearest else (mpf(unit_of_sums), 2 * wide.eta)
    a, b = (1 + unit.u) * (1 + unit.mu()), unit.eta * (1 + unit.mu())
    a, b = a * (1 + product), b * (1 + product) + PRODUCTS[FORMATS[name].parts] * ROOT2 * lost
    growth = product_growth(name, sums, 63)
    found = bound_precision(name, 64, sup=sup, algorithm="gemm", accumulate=sums)
    outward(found, mpf(sup) * (a * growth - 1) + b * growth)


@pytest.mark.parametrize("name", list(FORMATS))
@pytest.mark.parametrize("sides", [(1,), (4,), (8,), (1024,), (16, 2, 8), (64, 64, 64)])
@pytest.mark.parametrize("mean", [1e-4, 1e-9])
def test_half_ffts(name, sides, mean):
    unit = Unit(name)
    growth = fft_growth(unit, sides)
    scale = min(1.0, largest_scale(name, sides, mean)) or 2.0**-20
    b = (1 + losses(sides, 2)) * unit.eta * growth / mpf(scale)
    found = bound_precision(name, sides, mean=mean, algorithm="fft", scale=scale)
    if largest_scale(name, sides, mean):
        outward(found, mpf(mean) * ((1 + unit.u) * growth - 1) + b)
    else:
        assert float(found) == math.inf
    peak = math.prod(sides) * growth * ((1 + unit.u) * mpf(scale) * mpf(mean) + (1 + losses(sides, 2)) * unit.eta)
    outward(fft_peak(FORMATS[name], sides, mean, scale), peak)


@pytest.mark.parametrize("system", [(1e-3, 0.01, 700), (0.9, 0.2, 3), (2.0**-14, 2.0**-10, 11355), (1e-6, 1.0, 12)])
@pytest.mark.parametrize("sup", [1e-7, 1.0, 1.6, 40.0])
def test_precision_systems(system, sup):
    a0, eps, steps = mpf(system[0]), mpf(system[1]), system[2]
    largest, delta = a0 * (1 + eps) ** steps, eps / (2 + eps)

    def error(size):
        return max(delta * size, min(size, a0 / 2), size - largest)

    inside = a0 <= mpmath.sqrt(mpf(1) / 2) and largest >= 1
    phi = mpmath.hypot(delta, a0 / 2) if inside else ROOT2 * error(mpf(1))
    formula = mpf(sup) * phi + error(mpf(sup)) * (1 + phi)
    found = mpf(float(bound_precision_system(sup, *system)))
    assert formula <= found <= formula * (1 + SLACK) + 2 * SLACK * largest


def cell_constants(w, sides):
    """t, x, f = cot x - 1/x of each axis, in the theorems' own words (no care for cancellation)."""
    xs = [mpmath.pi * k / m for k, m in zip(w, sides, strict=True)]
    fs = [None if k % m == 0 else mpmath.cot(x) - 1 / x for k, m, x in zip(w, sides, xs, strict=True)]
    return xs, fs


GRIDS = [((0,), (8,)), ((3,), (8,)), ((1,), (4096,)), ((11,), (8,)), ((8,), (8,)), ((2, 1), (8, 8)), ((2, 0), (5, 9))]
GRIDS += [((9, 3), (5, 9)), ((1, 2, 1), (6, 6, 6)), ((5, 0), (5, 9))]


@pytest.mark.parametrize(("w", "sides"), GRIDS)
@pytest.mark.parametrize(("sup", "lipschitz"), [(1.0, 1.0), (0.01, 7.0), (1e-160, 1e-160)])
@pytest.mark.parametrize("periodic", [False, True])
def test_lipschitz_theorems(w, sides, sup, lipschitz, periodic):
    d, lattice = len(sides), read_lattice(w, sides)
    v = Smoothness((lipschitz,) * d, lipschitz, sup, math.inf, periodic)
    found = dict(lipschitz_bounds(v, lattice))
    big, steep = mpf(sup), mpf(lipschitz)
    resonant = all(k % m == 0 for k, m in zip(w, sides, strict=True))
    star = big if resonant else min(big, min(steep * mpmath.sqrt(d), steep * d) / (4 if periodic else 2))
    xs, fs = cell_constants(w, sides)
    corner, centre, coefficient = mpmath.mpc(1), mpf(1), star
    for k, m, x in zip(w, sides, xs, strict=True):
        sinc = mpf(1) if k == 0 else (mpf(0) if k % m == 0 else mpmath.sin(x) / x)
        corner, centre = corner * mpmath.expj(x) * sinc, centre * sinc
        if k % m:
            step = steep / (m * abs(mpmath.sin(x)))
            coefficient = min(coefficient, step / 2 if periodic else step * (1 - mpf(1) / m))
    means = {1: mpf(1) / 2, 2: (ROOT2 + mpmath.asinh(1)) / 3}
    means[3] = mpmath.sqrt(3) / 4 - mpmath.pi / 24 + mpmath.log(2 + mpmath.sqrt(3)) / 2
    cube = means[d] / sides[0] if len(set(sides)) == 1 else mpmath.sqrt(sum(1 / (3 * mpf(m) ** 2) for m in sides))
    mean = min(steep * cube, sum(steep / (2 * mpf(m)) for m in sides))
    square = steep**2 * sum(1 / (3 * mpf(m) ** 2) for m in sides)
    expected = {"T1a": mean + abs(corner - 1) * coefficient}
    expected["T1b"] = mpmath.sqrt(square + 2 * (1 - corner.real) * star**2)
    aliased = sum(1 for k, m in zip(w, sides, strict=True) if k and k % m == 0) * star
    axes = [mpf(1) / 2 if f is None else mpmath.sqrt((1 + f * mpmath.cot(x)) / 2) for f, x in zip(fs, xs, strict=True)]
    expected["T1c"] = sum(steep * c / m for c, m in zip(axes, sides, strict=True)) + aliased
    if periodic:
        expected["T3a"] = mean / 2 + (1 - centre) * coefficient
        expected["T3b"] = mpmath.sqrt(square / 4 + 2 * (1 - centre) * star**2)
        axes = [
            mpf(1) / 4 if f is None else mpmath.sqrt(mpmath.csc(x) ** 2 - x**-2) / 2
            for f, x in zip(fs, xs, strict=True)
        ]
        expected["T3c"] = sum(steep * c / m for c, m in zip(axes, sides, strict=True)) + aliased
    assert {name.split()[0] for name in found} == set(expected)
    for name, value in found.items():
        outward(outward_up(value), expected[name.split()[0]])
    zero = not any(w)
    reach = big if zero else min(big, min(steep * mpmath.sqrt(d), steep * d) / (4 if periodic else 2))
    best = (1 if zero else 2 / mpmath.pi) * reach + coefficient
    constants = {"sup": sup, "lipschitz": lipschitz, "periodic": periodic}
    outward(bound_discretization(w, sides, **constants), min([best, *expected.values()]))


@pytest.mark.parametrize(("w", "sides"), GRIDS)
@pytest.mark.parametrize(("sup", "variation"), [(1.0, 3.0), (1.0, 0.1)])
def test_variation_and_derivative_theorems(w, sides, sup, variation):
    lattice = read_lattice(w, sides)
    xs, fs = cell_constants(w, sides)
    resonant = all(k % m == 0 for k, m in zip(w, sides, strict=True))
    tv, d = mpf(variation), len(sides)
    found = dict(variation_bounds((variation,) * d, sup, lattice, True))
    for periodic in (False, True):
        reach = mpf(sup) if resonant else min(mpf(sup), d * tv / (4 if periodic else 2))
        total = mpf(0)
        for k, m, x, f in zip(w, sides, xs, fs, strict=True):
            ends = mpf(1) / 2 if f is None else mpmath.hypot(1, f) / 2
            inner = ends if abs(k) <= m or f is None else (1 / abs(x) + 1 / abs(mpmath.sin(x))) / 2
            total += tv * (inner if periodic else inner + ends) / m + (reach if k and k % m == 0 else 0)
        name = next(key for key in found if key.startswith("T2p" if periodic else "T2 "))
        outward(outward_up(found[name]), total)
    for order in (2, 5):
        total = mpf(0)
        for k, m in zip(w, sides, strict=True):
            near = sum(abs(mpf(k) / m + q) ** -order for q in range(-40, 41) if q and k + q * m)
            t = abs(mpf(k) / m)
            far = mpmath.zeta(order, 41 + t) + mpmath.zeta(order, 41 - t)
            total += tv * (2 * mpmath.pi * m) ** -order * (near + far) + (mpf(sup) if k and k % m == 0 else 0)
        ((_, value),) = derivative_bounds({order: (variation,) * d}, sup, lattice)
        outward(outward_up(value), total)


@pytest.mark.parametrize("s", [0.8, 2.0, 60.0])
@pytest.mark.parametrize(("w", "m"), [(0, 8), (3, 8), (11, 8), (8, 8), (1, 1000)])
def test_sobolev_theorem_in_one_dimension(s, w, m):
    near = sum(abs(mpf(w) / m + q) ** (-2 * mpf(s)) for q in range(-40, 41) if q and w + q * m)
    far = mpmath.zeta(2 * mpf(s), 41 + mpf(w) / m) + mpmath.zeta(2 * mpf(s), 41 - mpf(w) / m)
    size = 1e80
    formula = mpf(size) * (2 * mpmath.pi * m) ** -mpf(s) * mpmath.sqrt(near + far) + (w == m) * mpf(0.5)
    outward(outward_up(sobolev_bound(read_lattice(w, m), s, size, 0.5)), formula)


def test_sobolev_sum_in_two_dimensions_covers_its_tail():
    """Near s = d/2 most of the sum is beyond the terms that are taken one by one."""
    s, m = 1.1, 3
    q = np.arange(-900, 901)
    squares = (2 * np.pi * m) ** 2 * (q[:, None] ** 2 + q[None, :].astype(float) ** 2)
    squares[900, 900] = np.inf
    partial = math.sqrt(np.sum(squares**-s))
    inside = np.abs(q) <= 200
    taken = math.sqrt(np.sum(squares[np.ix_(inside, inside)] ** -s))
    found = sobolev_bound(read_lattice((0, 0), (m, m)), s, 1.0, 0.0)
    assert taken < 0.95 * partial < partial < found < 1.3 * partial


@pytest.mark.parametrize(("w", "sides"), GRIDS)
def test_lower_bounds_round_down(w, sides):
    sup, lipschitz, d = mpf(0.3), mpf(1.7), len(sides)
    diagonal = mpmath.sqrt(sum(mpf(m) ** -2 for m in sides))
    means = {1: mpf(1) / 2, 2: (ROOT2 + mpmath.asinh(1)) / 3}
    means[3] = mpmath.sqrt(3) / 4 - mpmath.pi / 24 + mpmath.log(2 + mpmath.sqrt(3)) / 2
    mean = means[d] / sides[0] if len(set(sides)) == 1 else diagonal / 2
    length = mpmath.sqrt(sum(mpf(k) ** 2 for k in w))
    teeth = min(lipschitz / mpmath.sqrt(1 + (mpmath.pi * diagonal * length) ** 2), 2 * sup / diagonal)
    values = [teeth * mean / 4]
    if not any(w):
        values.append(min(lipschitz, 4 * sup / diagonal) * mean / 2)
        slope = min(lipschitz, 2 * sup / mpmath.sqrt(d)) / mpmath.sqrt(d)
        values.append(slope * sum(1 / (2 * mpf(m)) for m in sides))
    moving = [(k, m) for k, m in zip(w, sides, strict=True) if k]
    if len(moving) == 1 and moving[0][0] % moving[0][1]:
        k, m = moving[0]
        x = mpmath.pi * k / m
        values.append(min(lipschitz, 2 * sup) / (2 * m) * mpmath.hypot(1, mpmath.cot(x) - 1 / x))
    found = mpf(float(lower_bound_discretization(w, sides, sup=0.3, lipschitz=1.7)))
    assert max(values) * (1 - SLACK) <= found <= max(values)


class Block:
    """B1 once more: (N, E) through the stages, each number with 60 digits."""

    def __init__(self, pipeline, grid, modes, c_in, c_out, r2, ra, norm, bias):
        self.p, self.grid, self.modes, self.c = pipeline, grid, modes, (c_in, c_out)
        self.kept = math.prod(modes)
        self.norm, self.error, self.format = mpf(norm), mpf(0), None
        self.forward()
        self.contract(mpf(r2), mpf(ra))
        if bias:
            self.bias(mpf(bias))
        self.inverse()

    def unit(self, name):
        return Unit(name, self.p.flush_to_zero)

    def wide(self, name):
        sums = self.p.accumulator(FORMATS[name])
        unit = Unit(sums.format.name, self.p.flush_to_zero or sums.flushes)
        if not sums.nearest:
            unit.eta = max(unit.eta, mpf(2) * Unit(sums.format.name).eta)
        return unit

    def growth(self, name, terms):
        return product_growth(name, self.p.accumulator(FORMATS[name]), terms)

    def through(self, alpha, relative, absolute):
        self.error = alpha * self.error + relative * (self.norm + self.error) + absolute
        self.norm *= alpha
        self.format = None

    def cast(self, name, entries):
        if self.format is not None and FORMATS[self.format].precision <= FORMATS[name].precision:
            inner, outer = FORMATS[self.format], FORMATS[name]
            if inner.largest <= outer.largest and inner.smallest_subnormal >= outer.smallest_subnormal:
                return
        unit = self.unit(name)
        self.through(1, unit.u, unit.eta * mpmath.sqrt(entries))
        self.format = name

    def axis(self, name, side, kept, terms, scales, last, entries):
        unit, wide = self.unit(name), self.wide(name)
        sums = self.p.accumulator(FORMATS[name])
        rounding = roundoff_of(FORMATS[name], flush_to_zero=self.p.flush_to_zero)
        delta = mpf(matrix_error(side, kept, FORMATS[name], rounding, scales))
        entry = 1 + max(unit.mu(scale) for scale in scales)
        excess = self.growth(name, terms) * (1 + mpf(sums.unit)) ** 2 - 1
        self.through(
            1,
            delta + (1 if last else ROOT2) * excess * entry * mpmath.sqrt(kept),
            terms * PRODUCTS[FORMATS[name].parts] * wide.eta * mpmath.sqrt(entries),
        )

    def settle(self, name, entries, end):
        keep = not (end or self.p.cast_every_step)
        self.cast(self.p.accumulator(FORMATS[name]).format.name if keep else name, entries)

    def forward(self):
        name, c = self.p.forward, self.c[0]
        self.cast(name, mpf(c) / mpf(self.p.scale) ** 2)
        if self.p.transform != "gemm":
            return self.forward_fft(name, c)
        kept = 1
        for axis in reversed(range(len(self.grid))):
            last = axis == len(self.grid) - 1
            m, kept = self.grid[axis], kept * self.modes[axis]
            self.axis(name, m, self.modes[axis], m if last else 2 * m, (1.0, 1.0 / m), last, 2 * kept * c)
            self.settle(name, 2 * kept * c, axis == 0)

    def fft(self, name, channels, size):
        if self.p.transform == "fft":
            unit = Unit(name)
            growth, lost = fft_growth(unit, self.grid), losses(self.grid, ROOT2)
        else:
            unit = Unit(self.p.accumulator(FORMATS[name]).format.name)
            count = sum(m.bit_length() - 1 if m & (m - 1) == 0 else 3 * (m.bit_length() + 2) for m in self.grid)
            growth = ((1 + unit.u) * (1 + unit.mu()) * (1 + unit.rho)) ** count
            lost = 2 * (2 + ROOT2)
        self.through(1, growth - 1, lost * unit.eta * growth * mpmath.sqrt(channels) * size)

    def forward_fft(self, name, c):
        points, unit = math.prod(self.grid), self.unit(name)
        self.fft(name, c, 1 / mpf(self.p.scale))
        if self.p.transform == "cast":
            self.through(1, unit.u, unit.eta / points * mpmath.sqrt(2 * self.kept * c))
        rounded = mpf(float(np.float16(1 / points))) if name == "fp16" else mpf(1) / points
        self.through(1, abs(rounded * points - 1), 0)
        self.cast(name, 2 * self.kept * c)

    def contract(self, r2, ra):
        name, (c, o) = self.p.contraction, self.c
        unit, wide = self.unit(name), self.wide(name)
        self.cast(name, 2 * self.kept * c)
        first = self.unit(self.p.weights)
        relative, eta = first.u, first.eta
        outer, inner = FORMATS[name], FORMATS[self.p.weights]
        if not (outer.precision >= inner.precision and outer.smallest_subnormal <= inner.smallest_subnormal):
            relative, eta = (1 + relative) * (1 + unit.u) - 1, eta * (1 + unit.u) + unit.eta
        weights = relative * ra + ROOT2 * eta * mpmath.sqrt(c * o)
        sums = ROOT2 * (self.growth(name, 2 * c) - 1) * (ra + weights)
        lost = ROOT2 * 2 * c * PRODUCTS[FORMATS[name].parts] * wide.eta * mpmath.sqrt(self.kept * o)
        local = weights + sums
        if self.p.cast_every_step:
            local += ROOT2 * unit.u * (r2 + weights + sums)
            lost += ROOT2 * unit.eta * mpmath.sqrt(4 * self.kept * o)
        self.through(r2, local, lost)
        self.cast(name, 2 * self.kept * o)

    def bias(self, size):
        units = [self.unit(self.p.contraction), self.unit(self.p.inverse)]
        u, eta = max(unit.u for unit in units), max(unit.eta for unit in units)
        format = self.format
        self.error += u * size + eta * mpmath.sqrt(self.c[1])
        self.norm += size
        self.through(1, u, max(unit.flushed for unit in units) * mpmath.sqrt(self.c[1]))
        self.format = format

    def inverse(self):
        self.p = self.p.back()
        name, o = self.p.inverse, self.c[1]
        self.cast(name, 2 * self.kept * o)
        if self.p.transform != "gemm":
            self.fft(name, o, mpmath.sqrt(math.prod(self.grid)))
            return self.cast(name, o) if self.p.transform == "cast" else None
        kept = self.kept
        for axis, (m, k) in enumerate(zip(self.grid, self.modes, strict=True)):
            last = axis == len(self.grid) - 1
            kept //= k
            entries = o if last else 2 * kept * o
            terms = 2 * (k // 2 + 1) if last else 2 * k
            self.axis(name, m, k, terms, (1.0, 2.0) if last else (1.0,), last, entries)
            self.settle(name, entries, last)


CUT = Accumulation(FORMATS["fp32"], 2.0**-22, nearest=False)
PIPELINES = [
    Pipeline.uniform("fp16"),
    Pipeline(*["fp16"] * 4, cast_every_step=False),
    Pipeline(*["bf16"] * 4, flush_to_zero=True),
    Pipeline(*["fp16"] * 4, flush_to_zero=True),
    Pipeline("fp16", "fp16", "fp32", "fp32"),
    Pipeline(*["fp16"] * 4, accumulate=CUT),
    # Weights of a format that the contraction's does not hold, and stages after which the next is wider.
    Pipeline("fp32", "bf16", "fp32", "fp16"),
    Pipeline("fp16", "fp32", "fp32", "fp32", "cast"),
    Pipeline.uniform("bf16x2"),
    Pipeline(*["bf16x3"] * 4, flush_to_zero=True),
    Pipeline("bf16x2", "bf16x3", "fp32", "bf16x2", accumulate=CUT),
    Pipeline.uniform("fp64"),
    Pipeline.uniform("fp16", "cast"),
    Pipeline.uniform("fp32", "cast"),
    # A library whose FFT is in fp16 itself: its losses to underflow show.
    Pipeline(*["fp16"] * 4, "cast", accumulate="fp16"),
    Pipeline.uniform("fp16", "fft"),
    Pipeline(*["fp16"] * 4, "fft", scale=0.125, inverse_transform="gemm"),
]


@pytest.mark.parametrize("pipeline", PIPELINES, ids=str)
@pytest.mark.parametrize("norm", [1.0, 1e-8, 1e-38])
@pytest.mark.parametrize("bias", [0.0, 0.3])
def test_spectral_convolutions(pipeline, norm, bias):
    grid, modes = (16, 32), (6, 9)
    sizes = {"grid": grid, "modes": (6, 8), "in_channels": 3, "out_channels": 5}
    found = bound_block(pipeline, **sizes, r2=1.5, ra=2.5, norm=norm, bias=bias)
    outward(found, Block(pipeline, grid, modes, 3, 5, 1.5, 2.5, norm, bias).error)


def test_library_ffts_of_any_side():
    sizes = {"grid": (12, 20), "modes": (6, 8), "in_channels": 3, "out_channels": 5}
    pipeline = Pipeline.uniform("fp64", "cast")
    found = bound_block(pipeline, **sizes, r2=1.5, ra=2.5, norm=1.0)
    formula = Block(pipeline, (12, 20), (6, 9), 3, 5, 1.5, 2.5, 1.0, 0.0).error
    # 1/240 is rounded in fp64: by less than a unit of it.
    assert 0 <= mpf(found.value) - formula <= mpf(2) ** -52 * 10


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp32", "fp64", "bf16x2", "bf16x3"])
@pytest.mark.parametrize("sums", ["fp32", CUT])
@pytest.mark.parametrize("size", [1e-6, 1e-39])
def test_pointwise_layers_and_roundings(name, sums, size):
    unit, wide = Unit(name), Unit("fp32")
    c, o, w2, wa, norm, bias = 7, 5, mpf(1.5), mpf(2.5), mpf(size), mpf(2 * size)
    outward(bound_rounding(name, norm=size, channels=5), unit.u * norm + unit.eta * mpmath.sqrt(o))
    entered = unit.u * norm + unit.eta * mpmath.sqrt(c)
    weights = unit.u * wa + unit.eta * mpmath.sqrt(c * o)
    shift = unit.u * bias + unit.eta * mpmath.sqrt(o)
    excess = product_growth(name, Accumulation.to_nearest(FORMATS["fp32"]) if sums == "fp32" else sums, c + 1) - 1
    lost = PRODUCTS[FORMATS[name].parts] * (c + 1) * (1 if sums == "fp32" else 2) * wide.eta * mpmath.sqrt(o)
    before = w2 * entered + weights * (norm + entered) + shift
    before += excess * ((wa + weights) * (norm + entered) + bias + shift) + lost
    formula = before + unit.u * (w2 * norm + bias + before) + unit.eta * mpmath.sqrt(o)
    sizes = {"in_channels": c, "out_channels": o, "w2": 1.5, "wa": 2.5, "norm": size, "bias": 2 * size}
    outward(bound_pointwise(name, **sizes, accumulate=sums), formula)


def test_compositions():
    layers = [Layer(1.5, 0.5, (0.1, 0.2), "gelu", 0.01), Layer(0.3, 1.0, (0.05,), 2.0, 0.0)]
    first = mpf(1.128905) * ((mpf(1.5) + mpf(0.5)) * mpf(0.07) + mpf(0.1) + mpf(0.2)) + mpf(0.01)
    outward(bound_network(layers, input_error=0.07), 2 * ((mpf(0.3) + 1) * first + mpf(0.05)))


def test_a_factor_keeps_what_exceeds_one():
    u = 2.0**-53
    assert Growth(u).factor == 1.0
    assert mpf((Growth(u) * Growth(u)).excess) >= 2 * mpf(u)
    exact = (1 + mpf(u)) ** 1000 - 1
    assert abs(mpf((Growth(u) ** 1000).excess) - exact) <= exact * mpf("1e-15")
    assert (Growth(1.0) ** 5000).excess == math.inf
    assert Growth().factor == 1.0


def test_nothing_is_rounded_to_zero():
    """The complaint: fp64 had a guaranteed error of 0."""
    assert 2.2e-16 < float(bound_precision("fp64", 64, sup=1)) < 2.3e-16
    assert float(bound_precision("fp64", 64, sup=1, algorithm="gemm", accumulate="fp64")) > 60 * 2.0**-53
    assert outward_up(0.0) >= 1e-290
    assert outward_down(1e-300) == 0.0 == outward_down(0.0)
    assert float(bound_discretization(1, 1000, sobolev=(120.0, 1.0), periodic=True)) > 0.0
