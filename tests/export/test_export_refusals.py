"""What cannot leave Python is refused in one line that says why."""

import sys

import pytest
import torch
from exported_models import build

import halfwave as hw
from halfwave.errors import InputError
from halfwave.export import build_program

sys.path.append(str(__import__("pathlib").Path(__file__).parents[1] / "models"))
from small_models import build as build_any


def _refused(message, model, **options):
    with pytest.raises(ValueError, match=message) as caught:
        build_program(model, **options)
    assert "\n" not in str(caught.value)


def test_models_that_cannot_be_exported():
    _refused("a GINO cannot be exported: it searches the neighbours", build_any("GINO"), grid=(8, 8, 8))
    _refused("a Linear cannot be exported: expected a model of halfwave", torch.nn.Linear(1, 1), grid=(8,))


def test_grids_that_cannot_be_free():
    free = {"dynamic": ("batch", "grid")}
    _refused("SFNO cannot have a free grid: the Legendre functions", build("sphere")[0], **free)
    _refused("layout 'neuralop' treats", build("2-D, two blocks", layout="neuralop")[0], **free)
    scaled = build("2-D, two blocks", resolution_scaling_factor=2.0)[0]
    _refused("its blocks scale the grid", scaled, **free)
    _refused("at least 8 x 8 points here, got 8 x 7", build("2-D, two blocks")[0], grid=(8, 7), **free)


def test_options_that_nothing_honours():
    model, grid = build("2-D, two blocks")
    _refused("needs to know it: give grid", model)
    _refused("grid must be 2 positive sizes", model, grid=(8,))
    _refused("dynamic has 'channels'", model, grid=grid, dynamic=("channels",))
    _refused("unknown weights 'int8'", model, grid=grid, weights="int8")
    fp8 = hw.Policy(contraction="fp8_e4m3")
    _refused("a policy with fp8_e4m3 cannot be exported", model, grid=grid, policy=fp8)
    with pytest.raises(ValueError, match="unknown format 'exe'"):
        hw.export(model, "model.exe", grid=grid, format="exe")
    with pytest.raises(InputError, match="the ending names no format"):
        hw.export(model, "model.exe", grid=grid)
    with pytest.raises(InputError, match="does not exist"):
        hw.export("no/such/run", "model.onnx")


def test_the_least_grid_counts_the_padding():
    model, _ = build("2-D, padded, group norm")
    for axis, fewest in enumerate(build_program(model, dynamic=("grid",)).shapes.least):
        padded = fewest + sum(model.padding.widths((fewest, fewest))[axis])
        below = fewest - 1 + sum(model.padding.widths((fewest - 1, fewest - 1))[axis])
        assert below < 8 <= padded


def test_the_package_is_called_as_the_function_is():
    import halfwave.export
    from halfwave.export import export

    assert callable(hw.export)
    assert hw.export is halfwave.export
    with pytest.raises(ValueError, match="unknown format"):
        export(torch.nn.Linear(1, 1), "x", format="none")
    with pytest.raises(ValueError, match="unknown format"):
        hw.export(torch.nn.Linear(1, 1), "x", format="none")
