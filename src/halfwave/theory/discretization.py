"""How far a discrete Fourier coefficient is from the true one: the smallest bound that the given constants allow.

Disc(v, w) = |int_D v phi_w dx - (1/n) sum_j v(xi_j) phi_w(xi_j)|, phi_w = e^{2 pi i <w,x>}, D = [0,1]^d,
xi_j = (j_1/m_1, ..., j_d/m_d). Real v.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from halfwave.errors import InputError
from halfwave.theory.bound import Bound, Number, all_known, is_several, read_number, read_per_axis, smallest, upper
from halfwave.theory.lattice import Integers, Lattice, read_lattice
from halfwave.theory.lipschitz import Smoothness, coefficient_bound, effective_sup, half_oscillation, lipschitz_bounds
from halfwave.theory.smooth import derivative_bounds, sobolev_bound
from halfwave.theory.variation import variation_bounds

PerAxis = Number | Sequence[Number]


def bound_discretization(
    frequency: Integers,
    grid: Integers,
    *,
    sup: Number | None = None,
    lipschitz: PerAxis | None = None,
    variation: PerAxis | None = None,
    derivatives: Mapping[int, PerAxis] | None = None,
    sobolev: tuple[float, Number] | None = None,
    periodic: bool = False,
    coefficient: Number | complex | None = None,
) -> Bound:
    """The smallest upper bound on Disc(v, w) among theorems T0 to T4 that the given constants allow.

    Args:
        frequency: w, an int or one int for each axis; any integers, beyond the grid's range too.
        grid: points along every axis (int), or along each (sequence).
        sup: M with |v| <= M.
        lipschitz: the Euclidean Lipschitz constant, or one for each axis.
        variation: the largest total variation along lines of any axis, or one for each axis (v may jump).
        derivatives: {k: V_k}, k >= 2, V_k >= int |d_j^k v| dx_j along every line (or the variation of d_j^(k-1) v);
            a number or one for each axis. Needs `periodic`.
        sobolev: (s, |v|_s) with s > d/2, |v|_s^2 = sum_q |2 pi q|^(2s) |v^(q)|^2. Needs `periodic`.
        periodic: v and its constants are those of the periodic extension (no jump at the boundary).
        coefficient: the measured grid coefficient v_h(w) or its modulus, which sharpens T1a and T3a.

    Returns:
        A `Bound`; an estimate if any constant is an `Estimate`.
    """
    lattice = read_lattice(frequency, grid)
    v = _read_smoothness(lattice, sup, lipschitz, coefficient, periodic)
    tv = None if variation is None else read_per_axis("variation", variation, lattice.dimension)
    orders = _read_derivatives(derivatives, lattice.dimension, periodic)
    exponent, seminorm = _read_sobolev(sobolev, lattice.dimension, periodic)
    smooth = not all(constant is None for constant in (lipschitz, variation, derivatives, sobolev))
    candidates = [_sup_bound(v, lattice, smooth)]
    if lipschitz is not None:
        candidates += lipschitz_bounds(v, lattice)
    if tv is not None:
        candidates += variation_bounds(tv, effective_sup(v, lattice), lattice, periodic)
    candidates += derivative_bounds(orders, effective_sup(v, lattice), lattice)
    if sobolev is not None:
        value = sobolev_bound(lattice, exponent, seminorm, effective_sup(v, lattice))
        candidates.append((f"T4s (periodic, Sobolev s = {exponent:g})", value))
    finite = [(theorem, value) for theorem, value in candidates if math.isfinite(value)]
    if not finite:
        raise InputError(_what_is_missing(lattice, lipschitz, variation, derivatives, sobolev))
    known = all_known(sup, lipschitz, variation, derivatives, sobolev, coefficient)
    assumptions = tuple(_assumptions(sup, lipschitz, variation, derivatives, sobolev, periodic, coefficient))
    return smallest([upper(value, theorem, assumptions, known) for theorem, value in finite])


def _sup_bound(v: Smoothness, lattice: Lattice, smooth: bool) -> tuple[str, float]:
    """T0: |int v phi| <= (2/pi) M* for w != 0 (M at w = 0: the mean of |cos| is 2/pi), and |v_h| beside it."""
    share = 1.0 if lattice.zero else 2.0 / math.pi
    reach = v.sup if lattice.zero else min(v.sup, half_oscillation(v, lattice))
    hint = "" if smooth else "; without lipschitz, variation or derivatives no bound falls with the grid"
    return f"T0 (bounded{hint})", share * reach + coefficient_bound(v, lattice)


def _read_smoothness(
    lattice: Lattice,
    sup: Number | None,
    lipschitz: PerAxis | None,
    coefficient: Number | complex | None,
    periodic: bool,
) -> Smoothness:
    size = math.inf if sup is None else read_number("sup", sup)
    seen = abs(coefficient) if isinstance(coefficient, complex) else coefficient
    measured = math.inf if seen is None else read_number("coefficient", seen)
    if lipschitz is None:
        return Smoothness((math.inf,) * lattice.dimension, math.inf, size, measured, periodic)
    axes = read_per_axis("lipschitz", lipschitz, lattice.dimension)
    scalar = not is_several(lipschitz)
    return Smoothness(axes, axes[0] if scalar else math.hypot(*axes), size, measured, periodic)


def _read_derivatives(
    derivatives: Mapping[int, PerAxis] | None, dimension: int, periodic: bool
) -> dict[int, tuple[float, ...]]:
    if derivatives is None:
        return {}
    if not isinstance(derivatives, Mapping) or not all(isinstance(k, int) and k >= 2 for k in derivatives):
        raise InputError(f"derivatives must map orders k >= 2 to bounds on int|d^k v|, got {derivatives!r}")
    if not periodic:
        raise InputError("derivatives bound the error of periodic functions only: pass periodic=True, or a lipschitz")
    return {k: read_per_axis(f"derivatives[{k}]", value, dimension) for k, value in derivatives.items()}


def _read_sobolev(sobolev: tuple[float, Number] | None, dimension: int, periodic: bool) -> tuple[float, float]:
    if sobolev is None:
        return 0.0, 0.0
    if not isinstance(sobolev, tuple) or len(sobolev) != 2:
        raise InputError(f"sobolev must be a pair (s, seminorm), got {sobolev!r}")
    if not periodic:
        raise InputError("a sobolev norm bounds the error of periodic functions only: pass periodic=True")
    s = read_number("sobolev s", sobolev[0])
    if 2.0 * s <= dimension:
        raise InputError(f"sobolev needs s > d/2 = {dimension / 2:g}, got s = {s:g}")
    return s, read_number("sobolev seminorm", sobolev[1])


def _what_is_missing(lattice: Lattice, *constants: object) -> str:
    if all(constant is None for constant in constants):
        return (
            "no bound without a constant of v: give sup, lipschitz, variation, derivatives (periodic) "
            "or sobolev (periodic)"
        )
    w, m = tuple(axis.frequency for axis in lattice.axes), lattice.sides
    return f"frequency {w} is aliased to 0 on grid {m}: a bound there needs sup as well"


def _assumptions(
    sup: Number | None,
    lipschitz: PerAxis | None,
    variation: PerAxis | None,
    derivatives: Mapping[int, PerAxis] | None,
    sobolev: tuple[float, Number] | None,
    periodic: bool,
    coefficient: Number | complex | None,
) -> Iterator[str]:
    yield "v is real" + (" and periodic" if periodic else "")
    if sup is not None:
        yield f"|v| <= {_show(sup)}"
    if lipschitz is not None:
        yield f"Lipschitz constant {_show(lipschitz)}"
    if variation is not None:
        yield f"variation along an axis {_show(variation)}"
    for order, size in (derivatives or {}).items():
        yield f"derivatives of order {order} integrate to at most {_show(size)}"
    if sobolev is not None:
        yield f"Sobolev seminorm of order {sobolev[0]:g} at most {_show(sobolev[1])}"
    if coefficient is not None:
        yield "the grid coefficient was measured in float64 or better"


def _show(value: PerAxis) -> str:
    if is_several(value):
        return "(" + ", ".join(_show(item) for item in value) + ")"  # type: ignore[union-attr]
    return f"{float(value):.6g}" + ("" if all_known(value) else " (estimated)")  # type: ignore[arg-type]
