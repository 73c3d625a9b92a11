"""Seeded damage to every kind of file: refused in one line or read as it was; never altered under checksums."""

import numpy as np
import pytest
from file_mutations import KINDS, mutate, run_mutations
from specimens import SPECIMENS

MUTATIONS = 25


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda specimen: specimen.name)
def test_damage_is_refused_or_harmless(specimen):
    outcome = run_mutations(specimen, MUTATIONS, seed=1)
    assert outcome.tried == outcome.refused + outcome.equal + outcome.altered == MUTATIONS, outcome.notes
    assert not outcome.bad, outcome.notes
    assert not (specimen.checked and outcome.altered)
    assert outcome.refused > 0


def test_every_kind_of_damage_changes_something_and_is_repeatable():
    content = bytes(range(256)) * 40
    for number in range(300):
        once, again = (mutate(content, np.random.default_rng([0, number])) for _ in range(2))
        assert once == again != content
    for kind in KINDS:
        assert any(kind(bytearray(content), np.random.default_rng(i)) != content for i in range(5))
