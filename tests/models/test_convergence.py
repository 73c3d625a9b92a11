"""Discretization convergence: answers on grids r and 2r, restricted, approach each other until rounding is left.

A U-Net is no operator and is not here: its convolutions reach a number of points, not a distance, so that its answers
on finer grids approach nothing.
"""

import itertools

import pytest
import torch
from small_models import OPERATORS, build

from halfwave.models import GINO
from halfwave.numerics import FORMATS
from halfwave.precision import Policy

SIZES = (8, 16, 32, 64)


def _plane(n):
    """A trigonometric polynomial at n x n points of the unit square."""
    s = torch.arange(n) / n
    field = torch.sin(2 * torch.pi * s)[:, None] * torch.cos(4 * torch.pi * s) + torch.cos(2 * torch.pi * s)
    return field.expand(1, 1, -1, -1)


def _sphere(n):
    """A polynomial in the coordinates of space, at n + 1 latitudes from pole to pole."""
    theta = torch.linspace(0, torch.pi, n + 1, dtype=torch.float64)[:, None]
    phi = torch.arange(2 * n, dtype=torch.float64) * (torch.pi / n)
    x, y, z = theta.sin() * phi.cos(), theta.sin() * phi.sin(), theta.cos().expand(-1, 2 * n)
    return (x * y + z**3 - 0.5 * x).float().expand(1, 1, -1, -1)


def _fields(name, policy, **options):
    """Answers of one model on finer and finer grids, each beside the next finer one at the same points."""
    model = build(name, precision=policy, **options)
    with torch.no_grad():
        out = [model(_sphere(n) if name == "SFNO" else _plane(n)) for n in SIZES]
    return [(a, b[..., ::2, ::2]) for a, b in itertools.pairwise(out)]


def _points(policy):
    """The same for a GINO on a square: denser points and a finer latent grid, asked at the same places."""
    torch.manual_seed(0)
    model = GINO(
        2, 1, gno_coord_dim=2, fno_in_channels=2, in_gno_radius=0.25, out_gno_radius=0.25, fno_n_modes=(4, 4),
        fno_hidden_channels=8, fno_n_layers=2, gno_embed_channels=4, gno_weighting_function="quartic",
        in_gno_channel_mlp_hidden_layers=(8,), out_gno_channel_mlp_hidden_layers=(8,), out_gno_reduction="mean",
        precision=policy,
    )  # fmt: skip
    queries, out = 0.2 + 0.6 * torch.rand(1, 50, 2), []
    for n in (6, 12, 24, 48):
        points = (torch.cartesian_prod(*2 * [torch.arange(2 * n)]) + 0.5)[None] / (2 * n)
        latent = torch.stack(torch.meshgrid(2 * [torch.arange(n) / n], indexing="ij"), -1)[None]
        with torch.no_grad():
            out.append(model(points, latent, queries, torch.sin(2 * torch.pi * points)))
    return list(itertools.pairwise(out))


def _gaps(pairs):
    return [((a - b).norm() / b.norm()).item() for a, b in pairs]


def _rounding(dtype):
    """What a few roundings of the answer are, relative to it; sums over the grid run in fp32, whose own add up."""
    return (16 if dtype == "fp32" else 4) * FORMATS[dtype].unit_roundoff


@pytest.mark.parametrize("name", OPERATORS)
def test_with_its_default_embedding_the_gap_halves_and_mixed_precision_adds_its_rounding(name):
    """Coordinates as channels jump at the edge of a periodic grid, so convergence is of first order."""
    run = _points if name == "GINO" else lambda policy: _fields(name, policy)
    full = _gaps(run(Policy.named("full")))
    assert all(finer < 0.6 * coarser for coarser, finer in itertools.pairwise(full))
    for dtype in ("fp16", "bf16"):
        mixed = _gaps(run(Policy.named("mixed", dtype)))
        assert all(abs(found - exact) < _rounding(dtype) for found, exact in zip(mixed, full, strict=True))


@pytest.mark.parametrize(("precision", "dtype"), [("full", "fp32"), ("mixed", "fp16"), ("mixed", "bf16")])
@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "GINO"])
def test_without_coordinates_the_gap_falls_to_the_rounding_of_the_format(name, precision, dtype):
    """All that is left is smooth, and its error falls faster than any power of the grid."""
    gaps = _gaps(_fields(name, Policy.named(precision, dtype), positional_embedding=None))
    assert gaps[1] < max(gaps[0] / 20, _rounding(dtype))
    assert gaps[2] < _rounding(dtype)
