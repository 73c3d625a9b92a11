"""Hypothesis drives the seeds, each seed a batch of random cases; no ratio may exceed 1, and the cases are counted."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import Tally

# Equality cases reach 1; the theorems compared one by one are not rounded outward yet.
ONE = 1 + 1e-12


def search(check, *arguments, examples):
    """Run `check(rng, tally, *arguments)` for `examples` seeds; returns how many cases it compared."""
    total = Tally()

    @settings(max_examples=examples, deadline=None, database=None, derandomize=True)
    @given(st.integers(0, 2**32 - 1))
    def run(seed):
        tally = Tally()
        check(np.random.default_rng(seed), tally, *arguments)
        total.cases += tally.cases
        assert all(ratio <= ONE for ratio in tally.worst.values()), {k: r for k, r in tally.worst.items() if r > ONE}

    run()
    return total.cases
