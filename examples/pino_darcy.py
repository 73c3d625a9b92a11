"""Physics-informed training (PINO): an FNO for Darcy flow from 20 solved samples, and the equation itself.

    python examples/pino_darcy.py                          # data only, then both forms of the residual: some 4 minutes
    python examples/pino_darcy.py --residual autograd --precision mixed
    python examples/pino_darcy.py --smoke                  # seconds: does it run?

The problem, on the unit square with u = 0 on its boundary:

    -div(a grad u) = f,    f = 2π² sin πx sin πy,    log a = a random sum of cos πkx cos πly, k and l < 5

The operator a -> u is learnt from few labelled media (a solver has found u) and many unlabelled ones, where a wrong u
shows by its residual alone,  r = f + div(a grad u):

    loss = |u - u_solver| / |u_solver|  over labelled media  +  |r| / |f|  over all media

|r| is the norm of H⁻¹ (each sine of r over its wave number), because it follows the error of u: in L2 the finest waves
of the grid would outweigh all others.

On the torus of period 2, a continued as an even function and u and f as odd ones solve the same equation, and all three
are smooth. The FNO works there, on 2N x 2N nodes, N + 1 a side on the square. It sees log a, cos πx and cos πy, and
its answer is multiplied by sin πx sin πy, which keeps u = 0 on the boundary.

Two ways to the residual:

- autograd: what is differentiated is the network. An FNO without padding or grid of its own commutes with translations
  of the torus, so u(x, y) at any point is its answer on a grid moved until a node lies there, and the derivative along
  x is that of the answer by the shift: `torch.func.jvp`, through every layer, twice. Nothing is discretised: the
  derivatives are exact (up to rounding), and they are those of the network between the nodes as well.
- spectral: what is differentiated is the answer on the nodes of the square, by the FFT of its odd continuation. Exact
  for waves below N; what a, u and their product have beyond is aliased: up to 2e-4 of f for these media and N = 12.

The labels themselves come from finite volumes on a grid 8 times finer, second order: a relative 1e-4.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.func import jvp, vmap

import halfwave as hw
from halfwave.data.elliptic import solve_elliptic
from halfwave.data.generator import sample_rng
from halfwave.data.random_fields import GaussianField
from halfwave.domains import Torus
from halfwave.training.losses import RelativeL2

Field = Callable[[Tensor, Tensor], Tensor]
"""A function of the nodes x (X,) and y (Y,) of a grid: its values (B, X, Y), or (X, Y)."""
Residual = Callable[[Field, Field, Tensor], Tensor]
"""From a, u and the nodes of the torus to r on the inner nodes of the square, (B, N-1, N-1)."""

LOG_PERMEABILITY = GaussianField(dim=2, alpha=2.0, tau=3.0, scale=24.0, boundary="neumann", modes=5)
LABELLED_BATCH, PHYSICS_BATCH = 10, 5
LEARNING_RATE = 1e-2
UNLABELLED, TEST_MEDIA = 200, 100
SMOKE = {"cells": 6, "epochs": 2}


def torus_nodes(cells: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """j / N for j < 2N: one axis of the torus, of which the first N + 1 nodes are those of the square."""
    return torch.arange(2 * cells, dtype=dtype) / cells


def draw_media(seed: int, split: str, indices: Sequence[int]) -> Tensor:
    """Coefficients (B, 5, 5) of log a, one medium for each index: as a function, so on any grid."""
    return torch.from_numpy(np.stack([LOG_PERMEABILITY.draw(sample_rng(seed, split, i)) for i in indices])).float()


def log_permeability(media: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The cosine series of log a on any nodes: even and of period 2."""
    k = torch.arange(media.shape[-1], dtype=x.dtype)[:, None]
    size = torch.sqrt(2 - (k == 0).to(k))  # which makes each wave one of mean square 1
    return torch.einsum("bkl,kx,ly->bxy", media, size * torch.cos(math.pi * k * x), size * torch.cos(math.pi * k * y))


def permeability(media: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return log_permeability(media, x, y).exp()


def bump(x: Tensor, y: Tensor) -> Tensor:
    return torch.outer(torch.sin(math.pi * x), torch.sin(math.pi * y))


def source(x: Tensor, y: Tensor) -> Tensor:
    return 2 * math.pi**2 * bump(x, y)


def solve(media: Tensor, cells: int, refine: int = 8) -> Tensor:
    """u on the nodes of the square (B, N+1, N+1), by finite volumes on a finer grid."""
    x = torch.linspace(0, 1, cells * refine + 1, dtype=torch.float64)
    a, f = permeability(media.double(), x, x).numpy(), source(x, x).numpy()
    return torch.from_numpy(np.stack([solve_elliptic(one, f)[::refine, ::refine] for one in a])).to(media.dtype)


def build_model(precision: str) -> hw.FNO:
    """No coordinates of its own and no padding: either would tell it where the torus begins."""
    return hw.FNO((9, 9), 3, 1, hidden_channels=24, n_layers=3, positional_embedding=None, precision=precision)


def predict(model: torch.nn.Module, media: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The network's u on the nodes of a torus, which may begin anywhere."""
    log_a = log_permeability(media, x, y)
    position = torch.stack(torch.meshgrid(torch.cos(math.pi * x), torch.cos(math.pi * y), indexing="ij"))
    inputs = torch.cat([log_a[:, None], position.expand(len(media), -1, -1, -1)], dim=1)
    return bump(x, y) * model(inputs)[:, 0]


def autograd_residual(a: Field, u: Field, nodes: Tensor) -> Tensor:
    """f + ∂x(a ∂x u) + ∂y(a ∂y u), each ∂ by how the fields change when the grid is shifted."""
    start, unit = torch.zeros((), dtype=nodes.dtype), torch.ones((), dtype=nodes.dtype)

    def diffusion(direction: Tensor) -> Tensor:
        def shifted(field: Field) -> Callable[[Tensor], Tensor]:
            return lambda shift: field(nodes + shift * direction[0], nodes + shift * direction[1])

        def flux(shift: Tensor) -> Tensor:
            return shifted(a)(shift) * jvp(shifted(u), (shift,), (unit,))[1]

        return jvp(flux, (start,), (unit,))[1]

    both = vmap(diffusion)(torch.eye(2, dtype=nodes.dtype))
    return inner_nodes(source(nodes, nodes) + both.sum(0))


def spectral_residual(a: Field, u: Field, nodes: Tensor) -> Tensor:
    """The same by Fourier series: of the even continuation of a, and of the odd one of u on the square."""
    torus = Torus(lengths=(2.0, 2.0))
    pressure = odd_continuation(odd_continuation(u(nodes, nodes), -1), -2)
    flux_x, flux_y = (a(nodes, nodes)[:, None] * slope for slope in torus.gradient(pressure[:, None]))
    divergence = torus.gradient(flux_x)[0] + torus.gradient(flux_y)[1]
    return inner_nodes(source(nodes, nodes) + divergence[:, 0])


def odd_continuation(field: Tensor, axis: int) -> Tensor:
    """Values at 2 - x become minus those at x, whatever they were; zero at 0 and 1."""
    inner = field.narrow(axis, 1, field.shape[axis] // 2 - 1)
    edge = torch.zeros_like(field.narrow(axis, 0, 1))
    return torch.cat([edge, inner, edge, -inner.flip(axis)], dim=axis)


def inner_nodes(field: Tensor) -> Tensor:
    return field[..., 1 : field.shape[-2] // 2, 1 : field.shape[-1] // 2]


RESIDUALS: dict[str, Residual | None] = {"data": None, "autograd": autograd_residual, "spectral": spectral_residual}


def relative_residual(residual: Residual, a: Field, u: Field, nodes: Tensor) -> Tensor:
    """|r| / |f| of each sample, (B,), in H⁻¹."""
    return dual_norm(residual(a, u, nodes)) / dual_norm(inner_nodes(source(nodes, nodes)))


def dual_norm(r: Tensor) -> Tensor:
    """|r|² = the sum of (r_kl / π|(k, l)|)² over the sine coefficients r_kl of r on the inner nodes."""
    k = torch.arange(1, r.shape[-1] + 1, dtype=r.dtype)
    sines = torch.sin(math.pi / (len(k) + 1) * torch.outer(k, k)) * (2 / (len(k) + 1))
    return torch.linalg.vector_norm(sines @ r @ sines / (math.pi * torch.hypot(k[:, None], k)), dim=(-2, -1))


def train(model: hw.FNO, residual: Residual | None, media: Tensor, labels: Tensor, options: argparse.Namespace) -> None:
    """An epoch passes once over the labelled media, the first of `media`; the equation takes some of all, each time."""
    steps = options.epochs * math.ceil(len(labels) / LABELLED_BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    order, nodes = torch.Generator().manual_seed(options.seed), torus_nodes(options.cells)
    for epoch in range(options.epochs):
        for batch in torch.randperm(len(labels), generator=order).split(LABELLED_BATCH):
            loss = errors(model, media[batch], labels[batch]).mean()
            chosen = media[torch.randint(len(media), (PHYSICS_BATCH,), generator=order)]
            if residual is not None:
                a, u = partial(permeability, chosen), partial(predict, model, chosen)
                loss = loss + relative_residual(residual, a, u, nodes).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if (epoch + 1) % max(1, options.epochs // 5) == 0:
            print(f"  epoch {epoch + 1:4d}: loss {loss.item():.4f}", flush=True)


def errors(model: hw.FNO, media: Tensor, labels: Tensor) -> Tensor:
    """Relative L2 error of u on the square, of each sample."""
    side = labels.shape[-1]
    nodes = torus_nodes(side - 1)
    return RelativeL2().per_sample(predict(model, media, nodes, nodes)[:, :side, :side], labels)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--residual", choices=[*RESIDUALS, "all"], default="all", help="what joins the labels")
    parser.add_argument("--precision", choices=["full", "amp", "half", "mixed"], default="full", help="of the network")
    parser.add_argument("--samples", type=positive, default=20, help="labelled media (20)")
    parser.add_argument("--epochs", type=positive, default=200, help="passes over the labelled media (200)")
    parser.add_argument("--cells", type=int, choices=(6, 8, 12, 16, 24), default=12, help="N, along a side (12)")
    parser.add_argument("--seed", type=int, default=0, help="of the media, the initial weights and the batches (0)")
    parser.add_argument("--smoke", action="store_true", help="a coarse grid and two epochs, to see it run")
    if parser.parse_args(arguments).smoke:
        parser.set_defaults(**SMOKE)
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Train with each residual asked for; the test errors by name."""
    options = parse(arguments)
    media = draw_media(options.seed, "train", range(options.samples + UNLABELLED))
    fresh = draw_media(options.seed, "test", range(TEST_MEDIA))
    labels, truth = solve(media[: options.samples], options.cells), solve(fresh, options.cells)
    found = {}
    for name in RESIDUALS if options.residual == "all" else [options.residual]:
        print(f"{name}:", flush=True)
        torch.manual_seed(options.seed)
        model = build_model(options.precision)
        train(model, RESIDUALS[name], media, labels, options)
        with torch.no_grad():
            found[name] = errors(model, fresh, truth).mean().item()
    print(f"\nrelative L2 error on {TEST_MEDIA} fresh media, from {options.samples} labelled ones")
    for name, error in found.items():
        print(f"  {name:9s} {error:7.2%}")
    return found


if __name__ == "__main__":
    main()
