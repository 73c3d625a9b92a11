"""One dimension: the true supremum by linear programming lies between the lower and the upper bound.

Over piecewise linear v with nodes in and between the grid points, Re(e^{-i theta} (int v phi - v_h)) is linear in the
node values, and |v| <= M, |v'| <= L are linear constraints. The best of several directions theta is a value that some
function attains, so it is at most the supremum: it must not exceed the upper bound, and the lower bound must not
exceed it (its witnesses are in the class, or beaten in it).
"""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import diags_array

from halfwave.theory import Interpolant, bound_discretization, lower_bound_discretization


def error_functional(w, m, nodes):
    """The complex weights e with int v phi - v_h = sum_i e_i v(node i)."""
    basis = Interpolant(np.eye(nodes + 1))
    return basis.fourier(w) - basis.coefficient(w, m)


def supremum(w, m, sup, lipschitz, directions=4):
    nodes = max(2, (4 if m <= 8 else 2) * m)
    e = error_functional(w, m, nodes)
    step = lipschitz / nodes
    differences = diags_array([-np.ones(nodes), np.ones(nodes)], offsets=[0, 1], shape=(nodes, nodes + 1)).tocsr()
    # The ramp's own direction is among those tried, so that its value is reached exactly.
    first = np.angle(e @ np.linspace(0, 1, nodes + 1))
    best = 0.0
    for theta in first + np.pi * np.arange(directions) / directions:
        objective = -(np.exp(-1j * theta) * e).real
        found = linprog(
            objective,
            A_ub=_stacked(differences),
            b_ub=np.full(2 * nodes, step),
            bounds=(-sup, sup),
            method="highs",
        )
        assert found.status == 0
        best = max(best, abs(e @ found.x))
    return best


def _stacked(differences):
    from scipy.sparse import vstack

    return vstack([differences, -differences])


@pytest.mark.parametrize("m", range(1, 33))
def test_supremum_lies_between_the_bounds_for_every_frequency(m):
    for w in range(m + 1):
        sup, lipschitz = (1.0, 1.0) if (w + m) % 2 else (0.02, 3.0)
        lower = float(lower_bound_discretization(w, m, sup=sup, lipschitz=lipschitz))
        found = supremum(w, m, sup, lipschitz, directions=4 if m <= 8 else 2)
        for sign in (1, -1):
            upper = float(bound_discretization(sign * w, m, sup=sup, lipschitz=lipschitz))
            assert lower <= found * (1 + 1e-7) <= upper * (1 + 1e-6), (m, w, lower, found, upper)
            assert lower == pytest.approx(
                float(lower_bound_discretization(sign * w, m, sup=sup, lipschitz=lipschitz)), rel=1e-9
            )


def test_functional_reproduces_known_errors():
    """v = x at w = 0 is off by 1/(2m), and at w = 1 by |1/(2 pi i) - (-1/2 - i/2 cot(pi/m))/m|."""
    x = np.linspace(0, 1, 41)
    assert abs(error_functional(0, 10, 40) @ x) == pytest.approx(0.05)
    expected = abs(1 / (2j * math.pi) - (-0.5 - 0.5j / math.tan(math.pi / 10)) / 10)
    assert abs(error_functional(1, 10, 40) @ x) == pytest.approx(expected)


def test_upper_bound_is_the_supremum_at_zero_frequency_and_close_elsewhere():
    ratios = []
    for w in range(9):
        ratios.append(supremum(w, 16, 10.0, 1.0) / float(bound_discretization(w, 16, sup=10.0, lipschitz=1.0)))
    assert ratios[0] == pytest.approx(1.0, abs=1e-6)
    assert min(ratios) > 0.7
