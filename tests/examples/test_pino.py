"""The physics-informed example: its residuals against the solver and against differences, and a short run of it."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

import halfwave as hw

CELLS = 12


def _load(name: str) -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pino = _load("pino_darcy")
FORMS = [name for name, residual in pino.RESIDUALS.items() if residual is not None]


@pytest.fixture(scope="module")
def media() -> Tensor:
    return pino.draw_media(0, "test", range(4)).double()


@pytest.fixture(scope="module")
def solution(media: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """The solver's u between its nodes: its sine series."""
    return _sine_series(pino.solve(media, CELLS, refine=16))


def _sine_series(values: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    cells = values.shape[-1] - 1
    k = torch.arange(1, cells, dtype=values.dtype)[:, None]
    sines = torch.sin(math.pi / cells * k * k.T) * (2 / cells)
    hat = sines @ values[:, 1:-1, 1:-1] @ sines

    def u(x: Tensor, y: Tensor) -> Tensor:
        return torch.einsum("bkl,kx,ly->bxy", hat, torch.sin(math.pi * k * x), torch.sin(math.pi * k * y))

    return u


def _relative(form: str, media: Tensor, u: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    nodes = pino.torus_nodes(CELLS, media.dtype)
    return pino.relative_residual(pino.RESIDUALS[form], partial(pino.permeability, media), u, nodes)


def _double_model(media: Tensor) -> tuple[hw.FNO, Callable[[Tensor, Tensor], Tensor]]:
    torch.manual_seed(0)
    model = pino.build_model("double").double()
    return model, partial(pino.predict, model, media)


@pytest.mark.parametrize("form", FORMS)
def test_the_solvers_solution_has_no_residual(form: str, media: Tensor, solution: Callable) -> None:
    assert (_relative(form, media, solution) < 3e-4).all()


@pytest.mark.parametrize("form", FORMS)
def test_a_wrong_solution_has_a_residual_of_its_error(form: str, media: Tensor, solution: Callable) -> None:
    """f + div(a grad(u/2)) is f/2; and what solves a = 1 solves no other medium."""
    half = _relative(form, media, lambda x, y: solution(x, y) / 2)
    torch.testing.assert_close(half, torch.full_like(half, 0.5), rtol=1e-3, atol=0)
    assert (_relative(form, media, lambda x, y: pino.bump(x, y).expand(len(media), -1, -1)) > 0.1).all()


@pytest.mark.parametrize("form", FORMS)
def test_the_residual_of_a_known_field(form: str) -> None:
    """For log a = cos πx / 2 and u = sin πx sin πy: div(a grad u) = a (π²/2 (-sin πx cos πx) sin πy - 2π² u)."""
    media = torch.zeros(1, 5, 5, dtype=torch.float64)
    media[0, 1, 0] = 0.5 / math.sqrt(2)
    nodes = pino.torus_nodes(CELLS, torch.float64)
    u = pino.bump(nodes, nodes)
    cosine = torch.cos(math.pi * nodes)[:, None]
    exact = 2 * math.pi**2 * u - torch.exp(cosine / 2) * math.pi**2 * u * (cosine / 2 + 2)
    found = pino.RESIDUALS[form](
        partial(pino.permeability, media), lambda x, y: pino.bump(x, y).expand(1, -1, -1), nodes
    )
    torch.testing.assert_close(found[0], pino.inner_nodes(exact), rtol=0, atol=1e-8)


def test_the_network_is_one_function_on_every_grid(media: Tensor) -> None:
    """A grid moved by a cell has the same nodes, so the same values: its derivative by the shift is that by x."""
    _, u = _double_model(media)
    nodes = pino.torus_nodes(CELLS, torch.float64)
    moved = u(nodes + 3 / CELLS, nodes - 1 / CELLS)
    torch.testing.assert_close(moved, u(nodes, nodes).roll((-3, 1), (1, 2)), rtol=0, atol=1e-12)


def test_the_autograd_residual_equals_central_differences(media: Tensor) -> None:
    _, u = _double_model(media)
    nodes, h = pino.torus_nodes(CELLS, torch.float64), 1e-3
    a = partial(pino.permeability, media)

    def flux(shift: float, axis: int) -> Tensor:
        """a times the difference of u over h, about the grid moved by `shift` along an axis."""

        def moved(by: float) -> list[Tensor]:
            return [nodes + by if axis == i else nodes for i in (0, 1)]

        return a(*moved(shift)) * (u(*moved(shift + h / 2)) - u(*moved(shift - h / 2))) / h

    differences = sum((flux(h / 2, axis) - flux(-h / 2, axis)) / h for axis in (0, 1))
    expected = pino.inner_nodes(pino.source(nodes, nodes) + differences)
    found = pino.autograd_residual(a, u, nodes)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * expected.abs().max().item())


def test_its_gradient_in_the_weights_equals_central_differences(media: Tensor) -> None:
    model, u = _double_model(media[:1])
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(_relative("autograd", media[:1], u).sum(), parameters, allow_unused=True)
    assert all(g is not None for g in gradients)
    along = [torch.randn_like(p) for p in parameters]
    slope = sum(float((g * d).sum()) for g, d in zip(gradients, along, strict=True))
    sides = []
    with torch.no_grad():
        for step in (1e-5, -2e-5):
            for p, d in zip(parameters, along, strict=True):
                p.add_(d, alpha=step)
            sides.append(float(_relative("autograd", media[:1], u).sum()))
    assert slope == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-5)


def test_both_forms_agree_on_a_smooth_network(media: Tensor, solution: Callable) -> None:
    found = [_relative(form, media, lambda x, y: solution(x, y) + 0.1 * pino.bump(2 * x, 3 * y)) for form in FORMS]
    torch.testing.assert_close(found[0], found[1], rtol=1e-2, atol=0)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_the_residual_in_half_precision(dtype: str, media: Tensor) -> None:
    """Two derivatives of a half-precision network are those of the full one, to some roundings."""
    torch.manual_seed(0)
    model, media = pino.build_model("full"), media.float()
    full = _relative("autograd", media, partial(pino.predict, model, media))
    hw.set_precision(model, hw.Policy.named("mixed", dtype))
    half = _relative("autograd", media, partial(pino.predict, model, media))
    torch.testing.assert_close(half, full, rtol=2e-2, atol=0)
    half.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_a_short_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pino, "TEST_MEDIA", 5)
    found = pino.main(["--smoke", "--samples", "4", "--precision", "mixed"])
    assert list(found) == ["data", *FORMS]
    assert all(0 < error < 1 for error in found.values())
    assert "from 4 labelled ones" in capsys.readouterr().out


def test_the_equation_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the default run: with few labels the residual lowers the error on fresh media."""
    short = ["--cells", "8", "--samples", "5", "--epochs", "60"]
    monkeypatch.setattr(pino, "TEST_MEDIA", 25)
    error = {form: pino.main([*short, "--residual", form])[form] for form in ("data", "spectral")}
    assert error["spectral"] < 0.8 * error["data"]


@pytest.mark.parametrize("bad", [["--epochs", "0"], ["--samples", "none"], ["--cells", "7"], ["--residual", "pde"]])
def test_bad_options_are_refused(bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        pino.main(bad)
    assert f"argument {bad[0]}" in capsys.readouterr().err
