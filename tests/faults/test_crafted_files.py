"""Every crafted file is refused in one line, quickly and in little memory; the harmless ones among them are read."""

from crafted_files import CRAFTED, READS, run_crafted


def test_crafted_files_do_no_harm(tmp_path):
    outcome = run_crafted(tmp_path)
    assert not outcome.notes
    assert (outcome.tried, outcome.equal, outcome.altered) == (len(CRAFTED), len(READS), 0)
    assert outcome.refused == len(CRAFTED) - len(READS)
    assert len(CRAFTED) >= 200
