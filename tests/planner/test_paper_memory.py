"""The paper's tables from plans: what each claim becomes here. The 3-D models are left to the command: seconds each."""

from __future__ import annotations

import pytest

from halfwave.errors import InputError
from halfwave.planner.paper_memory import TABLES, paper_batch, paper_tables, paper_workload


def _ratios(table: str) -> dict[tuple[str, str], float]:
    return {(row.dataset, row.setting): row.planned_ratio for row in paper_tables((table,))}


def test_half_settings_of_the_block_never_need_more() -> None:
    ratios = _ratios("blocks")
    assert len(ratios) == 8
    assert max(ratios.values()) <= 1.0
    assert min(ratios.values()) == ratios["darcy", "HHH"]


def test_one_einsum_of_all_pairs_needs_most() -> None:
    ratios = _ratios("contraction")
    assert ratios["navier-stokes", "option A"] == 1.0
    assert ratios["navier-stokes", "option B"] < 0.7
    assert ratios["navier-stokes", "option C"] < 0.7


def test_rows_say_what_the_paper_printed_and_why_ours_differs() -> None:
    row = next(row for row in paper_tables(("unet",)) if row.setting == "amp")
    assert row.paper_ratio == pytest.approx(0.791)
    assert 0.5 < row.planned_ratio < 0.9
    assert row.reason
    assert row.to_dict()["planned_mb"] == row.planned_mb


def test_sizes_are_the_papers() -> None:
    assert paper_workload("navier-stokes").inputs(paper_batch("navier-stokes")) == (8, 1, 128, 128)
    assert paper_workload("shallow-water").inputs(4) == (4, 3, 256, 512)
    points = paper_workload("car").inputs(1)["input_geom"]
    assert points.shape == (1, 3586, 3)
    assert points.min() >= 0
    assert points.max() <= 1


def test_unknown_names() -> None:
    with pytest.raises(InputError, match="no table 'speed'"):
        list(paper_tables(("speed",)))
    with pytest.raises(InputError, match="no dataset 'burgers'"):
        paper_workload("burgers")
    with pytest.raises(InputError, match="one geometry at a time"):
        paper_workload("ahmed").inputs(2)
    assert len(TABLES) == 6
