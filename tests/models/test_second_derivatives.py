"""A model is a module like any other of PyTorch: first and second derivatives, torch.func, forward mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck

import halfwave as hw

SMALL: dict[str, Any] = {"in_channels": 1, "out_channels": 1, "hidden_channels": 3, "n_layers": 2}

FIELD_MODELS: dict[str, tuple[Callable[..., nn.Module], tuple[int, ...]]] = {
    "FNO 1-D": (lambda: hw.FNO(n_modes=(6,), **SMALL), (2, 1, 9)),
    "FNO 2-D": (lambda: hw.FNO(n_modes=(4, 4), **SMALL), (1, 1, 5, 6)),
    "FNO 2-D padded": (lambda: hw.FNO(n_modes=(4, 4), domain_padding=0.25, **SMALL), (1, 1, 4, 4)),
    "FNO 2-D fft": (lambda: hw.FNO(n_modes=(4, 4), backend="fft", **SMALL), (1, 1, 5, 6)),
    "FNO 3-D": (lambda: hw.FNO(n_modes=(2, 2, 2), **SMALL), (1, 1, 3, 4, 3)),
    "FNO separable": (lambda: hw.FNO(n_modes=(4, 4), separable=True, **SMALL), (1, 1, 5, 6)),
    "TFNO cp": (lambda: hw.TFNO((4, 4), factorization="cp", rank=0.5, **SMALL), (1, 1, 5, 5)),
    "TFNO tucker": (lambda: hw.TFNO((4, 4), factorization="tucker", rank=0.5, **SMALL), (1, 1, 5, 5)),
    "TFNO tt": (lambda: hw.TFNO((4, 4), factorization="tt", rank=0.5, **SMALL), (1, 1, 5, 5)),
    "TFNO cp A": (lambda: hw.TFNO((4, 4), factorization="cp", rank=0.5, complex_mode="A", **SMALL), (1, 1, 5, 5)),
    "SFNO": (lambda: hw.SFNO(n_modes=(4, 6), **SMALL), (1, 1, 5, 8)),
    "UNet": (lambda: hw.UNet(1, 1, hidden_channels=4, n_levels=1), (1, 1, 4, 5)),
}


def _double(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    build, shape = FIELD_MODELS[name]
    model = build().double()
    hw.set_precision(model, hw.Policy.uniform("fp64"))
    return model, torch.randn(shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("name", FIELD_MODELS)
def test_first_and_second_derivatives_of_the_input_are_right(name: str) -> None:
    model, x = _double(name)
    assert gradcheck(model, (x,))
    assert gradgradcheck(model, (x,))


@pytest.mark.parametrize("name", FIELD_MODELS)
def test_second_derivatives_of_the_parameters_are_right(name: str) -> None:
    model, x = _double(name)
    _check_second_derivative(model, lambda: model(x).square().sum(), torch.float64, 1e-5, 1e-6)


def _check_second_derivative(
    model: nn.Module, loss: Callable[[], Tensor], dtype: torch.dtype, step: float, tolerance: float
) -> None:
    """v^T H w by a second backward pass, against differences of v^T gradient along w."""
    parameters = list(model.parameters())
    v, w = ([torch.randn_like(p, dtype=dtype) for p in parameters] for _ in range(2))

    def slope(create_graph: bool = False) -> Tensor:
        found = torch.autograd.grad(loss(), parameters, create_graph=create_graph)
        assert all(g is not None for g in found)
        return sum(((g * d).sum() for g, d in zip(found, v, strict=True)), torch.zeros((), dtype=dtype))

    found = torch.autograd.grad(slope(create_graph=True), parameters, allow_unused=True)
    missing = sum(g is None for g in found)
    assert missing <= 1, f"{missing} of {len(parameters)} parameters have no second derivative"
    curvature = sum(float((g * d).sum()) for g, d in zip(found, w, strict=True) if g is not None)
    sides = []
    for sign in (1, -1):
        _move(parameters, w, sign * step)
        sides.append(float(slope()))
        _move(parameters, w, -sign * step)
    assert curvature == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=tolerance, abs=tolerance)


@torch.no_grad()
def _move(parameters: list[nn.Parameter], along: list[Tensor], step: float) -> None:
    for parameter, direction in zip(parameters, along, strict=True):
        parameter.add_(direction, alpha=step)


def _curvature_of_input(model: nn.Module, x: Tensor, v: Tensor) -> Tensor:
    """v^T H v of the loss in the input, by two backward passes."""
    x = x.detach().requires_grad_()
    (first,) = torch.autograd.grad(model(x).float().square().mean(), x, create_graph=True)
    (second,) = torch.autograd.grad((first * v).sum(), x)
    return (second * v).sum()


@pytest.mark.parametrize(("dtype", "tolerance"), [("fp16", 0.02), ("bf16", 0.15)])
@pytest.mark.parametrize("policy", ["amp", "half", "mixed"])
@pytest.mark.parametrize("name", ["FNO 1-D", "FNO 2-D", "FNO 2-D fft", "FNO 3-D", "TFNO cp", "TFNO tt", "SFNO", "UNet"])
def test_second_derivatives_in_half_precision(name: str, policy: str, dtype: str, tolerance: float) -> None:
    """Differences of a half-precision gradient over a step drown in rounding: those of the fp64 function decide."""
    torch.manual_seed(0)
    build, shape = FIELD_MODELS[name]
    model, x, v = build(), torch.randn(shape), torch.randn(shape)
    hw.set_precision(model, hw.Policy.named(policy, dtype, stabilizer="none"))
    found = float(_curvature_of_input(model, x, v))
    exact = build().double()
    exact.load_state_dict(model.state_dict())
    hw.set_precision(exact, hw.Policy.uniform("fp64"))

    def slope(sign: int) -> float:
        at = (x.double() + sign * 1e-4 * v).requires_grad_()
        return float((torch.autograd.grad(exact(at).square().mean(), at)[0] * v).sum())

    differences = (slope(1) - slope(-1)) / 2e-4
    size = float(_curvature_of_input(exact, x.double(), v.double()))
    assert size == pytest.approx(differences, rel=1e-5)
    assert found == pytest.approx(differences, abs=tolerance * (abs(differences) + 0.1))


def test_second_derivatives_in_fp32_equal_central_differences() -> None:
    for name in FIELD_MODELS:
        torch.manual_seed(0)
        build, shape = FIELD_MODELS[name]
        model, x, v = build(), torch.randn(shape), torch.randn(shape)

        def slope(sign: int, model: nn.Module = model, x: Tensor = x, v: Tensor = v) -> float:
            at = (x + sign * 1e-2 * v).requires_grad_()
            return float((torch.autograd.grad(model(at).square().mean(), at)[0] * v).sum())

        found = float(_curvature_of_input(model, x, v))
        assert found == pytest.approx((slope(1) - slope(-1)) / 2e-2, rel=0.02, abs=2e-3), name


@pytest.fixture
def cloud() -> tuple[nn.Module, list[Tensor]]:
    torch.manual_seed(0)
    axis = torch.linspace(0, 1, 3)
    grid = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1)[None]
    model = hw.GINO(
        1, 1, in_gno_radius=0.6, out_gno_radius=0.6, fno_n_modes=(2, 2, 2), fno_hidden_channels=3, fno_n_layers=1,
        fno_in_channels=1, in_gno_channel_mlp_hidden_layers=(3,), out_gno_channel_mlp_hidden_layers=(3,),
        gno_embed_channels=2, gno_weighting_function="half_cos", projection_channel_ratio=1,
    )  # fmt: skip
    inputs = [torch.rand(1, 5, 3), grid, torch.rand(1, 4, 3), torch.randn(1, 5, 1)]
    model.double()
    hw.set_precision(model, hw.Policy.uniform("fp64"))
    return model, [t.double() for t in inputs]


def test_derivatives_of_gino_in_its_function_and_its_points(cloud: tuple[nn.Module, list[Tensor]]) -> None:
    model, (points, grid, queries, x) = cloud
    x.requires_grad_()
    assert gradcheck(lambda x: model(points, grid, queries, x), (x,))
    assert gradgradcheck(lambda x: model(points, grid, queries, x), (x,))
    queries.requires_grad_()
    assert gradcheck(lambda q: model(points, grid, q, x.detach()), (queries,))
    assert gradgradcheck(lambda q: model(points, grid, q, x.detach()), (queries,))


def test_second_derivatives_of_ginos_parameters(cloud: tuple[nn.Module, list[Tensor]]) -> None:
    model, inputs = cloud
    _check_second_derivative(model, lambda: model(*inputs).square().sum(), torch.float64, 1e-5, 1e-6)


@pytest.mark.parametrize("name", FIELD_MODELS)
def test_torch_func(name: str) -> None:
    model, x = _double(name)
    x = x.detach()
    rows = x.new_tensor([1.0, -0.5]).view(2, *[1] * (x.ndim - 1)) * x[:1]
    jacobian = torch.autograd.functional.jacobian(model, x)

    def close(found: Any, expected: Any) -> None:
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)

    close(torch.func.jacrev(model)(x), jacobian)
    close(torch.func.jacfwd(model)(x), jacobian)
    close(torch.func.grad(lambda x: model(x).sum())(x), jacobian.flatten(0, x.ndim - 1).sum(0))
    value, tangent = torch.func.jvp(model, (x,), (torch.ones_like(x),))
    close(value, model(x))
    close(tangent, jacobian.flatten(x.ndim).sum(-1))
    close(torch.func.vmap(lambda row: model(row[None])[0])(rows), model(rows))
    close(
        torch.func.hessian(lambda x: model(x).square().sum())(x),
        torch.autograd.functional.hessian(lambda x: model(x).square().sum(), x),
    )
    parameters = dict(model.named_parameters())
    per_sample = torch.func.vmap(
        torch.func.grad(lambda p, row: torch.func.functional_call(model, p, (row[None],)).sum()), (None, 0)
    )(parameters, rows)
    model(rows).sum().backward()
    for key, parameter in parameters.items():
        close(per_sample[key].sum(0), parameter.grad)


@pytest.mark.parametrize("name", ["FNO 2-D", "TFNO cp", "SFNO", "UNet"])
def test_torch_func_in_half_precision(name: str) -> None:
    """The plain way and the lean one are the same function, whatever the format."""
    torch.manual_seed(0)
    build, shape = FIELD_MODELS[name]
    model, x = build(), torch.randn(shape)
    for dtype in ("fp16", "bf16", "fp8_e5m2"):
        hw.set_precision(model, hw.Policy.named("mixed", dtype))
        with torch.no_grad():
            expected = model(x)
        found = torch.func.vmap(lambda row: model(row[None])[0])(x)
        scale = {"fp16": 2e-3, "bf16": 2e-2, "fp8_e5m2": 0.5}[dtype]
        torch.testing.assert_close(found, expected, rtol=0, atol=scale * float(expected.abs().max()))
        assert torch.func.grad(lambda x: model(x).sum())(x).isfinite().all()


def test_forward_mode_and_batched_gradients() -> None:
    model, x = _double("FNO 2-D")
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), torch.ones_like(x))
        tangent = torch.autograd.forward_ad.unpack_dual(model(dual)).tangent
    jacobian = torch.autograd.functional.jacobian(model, x.detach())
    torch.testing.assert_close(tangent, jacobian.flatten(x.ndim).sum(-1))
    seeds = torch.eye(x.numel(), dtype=torch.float64).view(-1, *x.shape)
    out = model(x)
    rows = torch.func.vmap(lambda seed: torch.autograd.grad(out, x, seed, retain_graph=True)[0])(seeds)
    torch.testing.assert_close(rows, jacobian.flatten(0, x.ndim - 1))


@pytest.mark.parametrize("name", ["FNO 2-D", "SFNO"])
def test_what_nested_transforms_leave_in_caches_serves_later(name: str) -> None:
    """The first use of a grid, inside two transforms: its matrices are none of theirs."""
    model, _ = _double(name)
    x = torch.randn(1, 1, 11, 18, dtype=torch.float64)

    def second(x: Tensor) -> Tensor:
        return torch.func.jvp(lambda x: torch.func.jvp(model, (x,), (torch.ones_like(x),))[1], (x,), (x,))[1]

    first = second(x)
    torch.testing.assert_close(second(x), first)
    model(x).sum().backward()
    sides = [torch.func.jvp(model, (x + s * x,), (torch.ones_like(x),))[1] for s in (1e-5, -1e-5)]
    torch.testing.assert_close(first, (sides[0] - sides[1]) / 2e-5, rtol=1e-6, atol=1e-8)


def test_a_tensor_that_is_two_operands_gets_each_gradient_once() -> None:
    """The block's input is the skip's operand and the convolution's; an identity convolution makes both one tensor."""
    from halfwave.models.block import FNOBlock
    from halfwave.spectral import SpectralConv

    class Same(SpectralConv):
        def forward(self, x: Tensor, output_shape: tuple[int, ...] | None = None) -> Tensor:
            return x

    block = FNOBlock(Same(3, 3, (2, 2)), precision=hw.Policy.uniform("fp64")).double()
    x = torch.randn(1, 3, 3, 3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(block, (x,))
    assert gradgradcheck(block, (x,))


def test_a_compiled_model_refuses_a_second_derivative() -> None:
    """The compiler has none: an error, never a wrong number."""
    torch._dynamo.reset()  # or what other tests compiled may serve, eagerly
    model, x = _double("FNO 1-D")
    compiled = torch.compile(model, backend="aot_eager")
    (first,) = torch.autograd.grad(compiled(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()
