"""The SFNO: its gradient against float64, its policies, its grids."""

import pytest
import torch

from halfwave.models import SFNO, build_model, set_precision
from halfwave.precision import Policy
from halfwave.recipes import get_recipe


def _model(**options):
    torch.manual_seed(0)
    return SFNO((6, 8), 1, 1, 8, **{"n_layers": 2, **options})


def test_gradients_are_those_of_float64():
    model = _model()
    x = torch.randn(3, 1, 12, 21)
    model(x).square().mean().backward()
    found = [p.grad.clone() for p in model.parameters()]
    model.double().zero_grad()
    set_precision(model, Policy.uniform("fp64"))
    model(x.double()).square().mean().backward()
    for gradient, p in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(gradient.double(), p.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["equiangular", "legendre-gauss"])
def test_gradcheck(kind):
    model = _model(n_layers=1, sht_grids=kind).double()
    set_precision(model, Policy.uniform("fp64"))
    x = torch.randn(1, 1, 6, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: model(x), (x, *model.parameters()), fast_mode=True)


@pytest.mark.parametrize("grid", [(4, 6), (9, 31), (5, 4), (32, 64)])
@pytest.mark.parametrize("kind", ["equiangular", "legendre-gauss"])
def test_any_grid(grid, kind):
    assert _model(sht_grids=kind)(torch.randn(2, 1, *grid)).shape == (2, 1, *grid)


def test_papers_resolution():
    """256x512, mixed precision, forward and backward."""
    model = SFNO((64, 64), 3, 3, 2, n_layers=1, precision="mixed")
    model(torch.randn(1, 3, 256, 512)).square().mean().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", ["shallow-water", "shallow-water-paper"])
def test_recipe_builds(name):
    recipe = get_recipe(name)
    model = build_model(recipe.model, {**recipe.arguments, "in_channels": 3, "out_channels": 3})
    size = recipe.parameters["resolution"]
    assert model.to("meta")(torch.empty(1, 3, size, 2 * size, device="meta")).shape == (1, 3, size, 2 * size)


_SMALL = {"n_modes": [4, 4], "in_channels": 1, "out_channels": 1, "hidden_channels": 2}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SFNO((4, 4, 4), 1, 1, 8), r"n_modes of an SFNO must be \(degrees, twice the orders\)"),
        (lambda: SFNO((4, 1), 1, 1, 8), "n_modes of the sphere must be"),
        (lambda: SFNO((4, 4), 1, 1, 0), "hidden_channels must be a positive integer, got 0"),
        (lambda: SFNO((4, 4), 1, 1, 8, sht_grids="cubed"), "unknown grid 'cubed' .*equiangular, legendre-gauss"),
        (lambda: SFNO((4, 4), 1, 1, 8, fno_skip="dense"), "unknown skip 'dense'"),
        (lambda: SFNO((4, 4), 1, 1, 8, positional_embedding="rope"), "unknown positional_embedding 'rope'"),
        (lambda: SFNO((4, 4), 1, 1, 8)(torch.ones(1, 2, 8, 8)), r"expected input \(batch, 1, latitudes, longitudes\)"),
        (lambda: build_model("SFNO", {**_SMALL, "domain_padding": 0.1}), "SFNO: .*domain_padding"),
    ],
)
def test_bad_arguments_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()
