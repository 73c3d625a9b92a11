"""Every crafted file is refused in one line, quickly and in little memory; the harmless ones among them are read."""

import pytest
from crafted_files import CRAFTED, READS, run_one


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_file(name, tmp_path):
    outcome = run_one(tmp_path, name)
    assert not outcome.bad, outcome.notes
    assert (outcome.refused, outcome.equal) == ((0, 1) if name in READS else (1, 0))


def test_there_are_enough_of_them():
    assert len(CRAFTED) >= 200
