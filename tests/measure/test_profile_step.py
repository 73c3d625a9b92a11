"""Profiles of training steps: shares that add up, backward time in its module, memory that another counter confirms."""

import json
from dataclasses import replace

import pytest
import torch

from halfwave.errors import InputError
from halfwave.measure import TrainingStep
from halfwave.measure.profile import measure_memory, profile_step
from halfwave.measure.profile_times import PROFILE_PARTS
from halfwave.recipes import get_recipe, recipes
from halfwave.report.profile import draw_profile
from halfwave.training.recipe_step import build_recipe_step


def small(name="demo", **arguments):
    """A recipe with a model that takes milliseconds."""
    recipe = get_recipe(name)
    tiny = {"hidden_channels": 4, "n_layers": 2, "n_modes": [4, 4]} if "n_modes" in recipe.arguments else {}
    return replace(recipe, arguments={**recipe.arguments, **tiny, **arguments})


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    trace = tmp_path_factory.mktemp("profile") / "trace.json"
    step = build_recipe_step(small(), precision="mixed", batch=2, grid=16)
    return step, profile_step(step, steps=2, trace=trace), trace


def test_shares_add_up(profiled):
    _, result, _ = profiled
    assert [row["name"] for row in result["parts"]] == list(PROFILE_PARTS)
    for table in ("parts", "modules", "kernels"):
        assert sum(row["share"] for row in result[table]) == pytest.approx(1)
        assert sum(row["seconds"] for row in result[table]) == pytest.approx(result["seconds"])
    assert all(row["share"] > 0 for row in result["parts"])
    assert 0 < result["spectral_share"] < 1
    assert result["grid"] == [16, 16]
    assert result["batch"] == 2


def test_backward_time_is_in_the_module_that_made_it(profiled):
    """Every layer computes in both passes; what has no module is the sums of gradients alone, and little."""
    _, result, _ = profiled
    rows = {row["name"]: row for row in result["modules"]}
    layers = ["lifting", "projection", *(f"blocks.{i}{part}" for i in range(2) for part in ("", ".conv"))]
    for name in layers:
        assert rows[name]["forward"] > 0
        assert rows[name]["backward"] > 0
    assert set(rows) <= {*layers, "(model)", "(loss)", "(update)", "(gradients)", "(rest)"}
    assert rows.get("(rest)", {"share": 0})["share"] < 0.1
    assert rows["(update)"]["backward"] == 0


def test_a_module_that_takes_longer_has_a_larger_share():
    """A convolution that is slow in its backward pass alone: the time must be found there."""
    step = build_recipe_step(small(), precision="full", batch=2, grid=16)
    before = _share(profile_step(step, steps=1), "blocks.1.conv")
    inverse = type(step.model.blocks[1].conv.transform).inverse
    slow = step.model.blocks[1].conv

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            for _ in range(60):
                torch.randn(256, 256) @ torch.randn(256, 256)
            return grad

    class Transform(type(slow.transform)):
        def inverse(self, *arguments):
            return Slow.apply(inverse(self, *arguments))

    slow.transform = Transform(slow.transform.n_modes)
    result = profile_step(step, steps=1)
    after = _share(result, "blocks.1.conv")
    assert after > 0.5
    assert after / (1 - after) > 4 * before / (1 - before), "its time over that of the rest, whatever it was before"
    parts = {row["name"]: row["share"] for row in result["parts"]}
    assert parts["transforms"] > 0.5


def _share(result, name):
    return next(row["share"] for row in result["modules"] if row["name"] == name)


def test_profiling_leaves_the_model_as_it_was(profiled):
    step, _, _ = profiled
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in step.model.modules())
    assert "contract" not in vars(step.model.blocks[0].conv.weight)


def test_memory_is_what_the_counter_of_training_says():
    step = build_recipe_step(small(), precision="mixed", batch=2, grid=16)
    for _ in range(2):
        step.run()
    memory = measure_memory(step)
    # The same step without the gradients of the one before, which `measure_memory` clears first.
    step.optimizer.zero_grad(set_to_none=True)
    counted = step.measure()
    assert memory["peak_bytes"] == counted.peak_memory_bytes
    assert memory["held_bytes"] == counted.parameter_bytes + counted.optimizer_bytes + counted.batch_bytes
    assert max(memory["live_bytes"]) == memory["peak_bytes"]
    assert [phase["name"] for phase in memory["phases"]] == ["forward", "backward", "update"]


def test_the_trace_is_one_that_chrome_reads(profiled):
    trace = json.loads(profiled[2].read_text())
    names = {event.get("name", "") for event in trace["traceEvents"]}
    assert "halfwave:contraction:blocks.0.conv" in names


def test_the_picture_is_drawn_from_the_file(profiled, tmp_path):
    (tmp_path / "p.json").write_text(json.dumps(profiled[1]))
    draw_profile(tmp_path / "p.json", tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["darcy-unet", "shallow-water"])
def test_other_models(name):
    arguments = {"hidden_channels": 4, **({"n_levels": 2} if name == "darcy-unet" else {})}
    result = profile_step(build_recipe_step(small(name, **arguments), precision="mixed", batch=1, grid=16), steps=1)
    assert (result["spectral_share"] > 0) == (name == "shallow-water")
    assert result["memory"]["peak_bytes"] > result["memory"]["held_bytes"]


def test_point_clouds():
    recipe = replace(get_recipe("car"), parameters={"points": 200})
    arguments = {"fno_n_modes": [4, 4, 4], "fno_hidden_channels": 4, "fno_n_layers": 1}
    recipe = replace(recipe, arguments={**recipe.arguments, **arguments})
    result = profile_step(build_recipe_step(recipe, precision="mixed", batch=2, grid=8), steps=1)
    assert (result["batch"], result["grid"]) == (2, [8, 8, 8])
    assert 0 < result["spectral_share"] < 1
    assert result["memory"]["peak_bytes"] > result["memory"]["held_bytes"]
    with pytest.raises(InputError, match="fno_n_modes"):
        build_recipe_step(recipe, batch=1, grid=2)


def test_any_step_can_be_profiled():
    """A model that is not ours, without a recipe or a word on what it is."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    batch = torch.randn(4, 8), torch.randn(4, 1)
    step = TrainingStep(model, torch.nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    result = profile_step(step, steps=1)
    assert result["spectral_share"] == 0
    assert sum(row["share"] for row in result["parts"]) == pytest.approx(1)
    assert result["memory"]["held_bytes"] == 4 * (72 + 9 + 36)


def test_every_recipe_has_a_step():
    """Shapes only: nothing is run at the paper's sizes."""
    for recipe in recipes():
        if recipe.model == "GINO":
            continue  # its bodies have to be made: see test_point_clouds
        step = build_recipe_step(small(recipe.name), batch=1, grid=16)
        assert step.batch[0].shape[0] == 1


def test_sizes_that_cannot_be_are_refused():
    with pytest.raises(InputError, match=r"a grid of 8x8 is too small for n_modes \[24, 24\]"):
        build_recipe_step(get_recipe("demo"), grid=8)
    with pytest.raises(InputError, match="batch_size"):
        build_recipe_step(get_recipe("demo"), batch=0)
    with pytest.raises(InputError, match="steps must be at least 1"):
        profile_step(build_recipe_step(small(), batch=1, grid=16), steps=0)
