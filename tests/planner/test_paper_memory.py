"""The paper's tables from plans: what each claim becomes here. The 3-D models are left to the command: seconds each."""

from __future__ import annotations

import pytest
import torch

from halfwave.data import sample_shapes
from halfwave.errors import InputError
from halfwave.measure.bench_cases import unit_grid
from halfwave.models import GINO
from halfwave.planner import plan_memory
from halfwave.planner.paper_memory import TABLES, paper_batch, paper_tables, paper_workload
from halfwave.recipes import problem


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


@pytest.mark.parametrize("name", ["navier-stokes", "shallow-water"])
def test_inputs_are_what_the_generator_of_the_paper_s_recipe_makes(name: str) -> None:
    recipe, work = problem(name, "paper"), paper_workload(name)
    x, y = sample_shapes(recipe.build_generator())
    batch = paper_batch(name)
    assert work.inputs(batch) == (batch, *x)
    assert work.model.config.items() >= {"in_channels": x[0], "out_channels": y[0]}.items()


@pytest.mark.parametrize("name", ["car", "ahmed"])
def test_a_body_fills_the_unit_box_along_its_longest_side(name: str) -> None:
    points = paper_workload(name).inputs(1)["input_geom"]
    assert points.shape[1] == pytest.approx(problem(name, "paper").parameters["points"], rel=1e-4)
    assert points.amin((0, 1)).tolist() == [0, 0, 0]
    assert points.max() == 1


def test_a_gino_on_meta_is_planned_with_real_points() -> None:
    """As those of the paper's size are: its weights take no memory, its graphs are searched among real points."""
    with torch.device("meta"):
        model = GINO(1, 1, fno_n_modes=(4, 4, 4), fno_hidden_channels=8, in_gno_radius=0.3, out_gno_radius=0.3)
    points, grid = torch.rand(1, 50, 3), unit_grid((6, 6, 6))[None]
    inputs = {"input_geom": points, "latent_queries": grid, "output_queries": points, "x": torch.rand(1, 50, 1)}
    on_meta = plan_memory(model, inputs | {"y": torch.rand(1, 50, 1)}, policy="full").peak_bytes
    real = model.to_empty(device="cpu")
    assert plan_memory(real, inputs | {"y": torch.rand(1, 50, 1)}, policy="full").peak_bytes == on_meta > 0
    with torch.device("meta"):
        model = GINO(1, 1, fno_n_modes=(4, 4, 4), fno_hidden_channels=8)
    with pytest.raises(ValueError, match="x is on cpu and the weights are on meta"):
        model(**inputs)


def test_unknown_names() -> None:
    with pytest.raises(InputError, match=f"no table 'speed' .*: expected one of {', '.join(TABLES)}"):
        list(paper_tables(("speed",)))
    with pytest.raises(InputError, match="no dataset 'burgers'"):
        paper_workload("burgers")
    with pytest.raises(InputError, match="one geometry at a time"):
        paper_workload("ahmed").inputs(2)
