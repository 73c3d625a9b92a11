"""The adjoint certificate against the errors that really are made, and against rounding itself."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import halfwave as hw
from halfwave.certificates import Sensitivities, measure_error, predict_error, sensitivities, sensitivity
from halfwave.certificates.roundings import variances
from halfwave.certificates.taps import BINADES, LOWEST
from halfwave.errors import InputError
from halfwave.numerics import cpu_multiplies, get_format, round_to
from halfwave.precision import Policy


def smooth(count: int, side: int = 16) -> Tensor:
    """Random fields (count, 1, side, side) with a falling spectrum and deviation 1."""
    drawn = torch.randn(count, 1, side, side, generator=torch.Generator().manual_seed(1))
    k = torch.fft.fftfreq(side, 1 / side)[:, None].square() + torch.fft.rfftfreq(side, 1 / side).square()
    field = torch.fft.irfft2(torch.fft.rfft2(drawn) / (1 + k), s=(side, side))
    return field / field.std()


def taught(model: nn.Module, x: Tensor, steps: int = 15) -> nn.Module:
    """A few steps towards a shift of the field: an untrained model answers with a constant, one number to get wrong."""
    optimizer = torch.optim.Adam(model.parameters(), 4e-3)
    target = torch.roll(x, 2, -1) + 0.3 * x.square()
    for _ in range(steps):
        optimizer.zero_grad()
        (model(x) - target).square().mean().backward()
        optimizer.step()
    return model.eval()


MODELS = {
    "fno": lambda: hw.FNO((8, 8), 1, 1, 12, 2),
    "fft": lambda: hw.FNO((8, 8), 1, 1, 12, 2, backend="fft", precision=Policy.named("mixed", "fp16")),
    "cp": lambda: hw.FNO((8, 8), 1, 1, 12, 2, factorization="cp", rank=0.5),
    "tucker made dense": lambda: hw.FNO(
        (8, 8), 1, 1, 12, 2, factorization="tucker", rank=0.5, implementation="reconstructed", norm="group_norm"
    ),
    "separable": lambda: hw.FNO((8, 8), 1, 1, 12, 2, separable=True, domain_padding=0.25),
    "sphere": lambda: hw.SFNO((8, 12), 1, 1, 12, 2),
    "unet": lambda: hw.UNet(1, 1, 8, 2),
}


@pytest.fixture(scope="module", params=list(MODELS))
def trained(request: pytest.FixtureRequest) -> tuple[str, nn.Module, Tensor, Sensitivities]:
    torch.manual_seed(0)
    x = smooth(6)
    model = taught(MODELS[request.param](), x)
    return request.param, model, x[:4], sensitivities(model, x[:4])


@pytest.mark.parametrize(
    ("name", "dtype", "native"),
    [
        *(("mixed", "fp16", ()), ("mixed", "bf16", ()), ("mixed", "bf16", ("bf16",)), ("half", "bf16", ("bf16",))),
        *(("half", "fp16", ()), ("amp", "bf16", ()), ("HHF", "fp16", ()), ("mixed", "fp8_e5m2", ())),
    ],
)
def test_predicted_errors_are_the_measured_ones(trained, name: str, dtype: str, native: tuple[str, ...]) -> None:
    kind, model, x, found = trained
    if kind == "unet" and name not in ("mixed", "amp"):
        pytest.skip("a U-Net has no spectral stages")
    policy = Policy.named(name, dtype)
    with cpu_multiplies(*native):
        predicted, measured = found.predict(policy), measure_error(model, x, policy)
        upper = found.upper(policy)
    assert 0.5 < predicted.mean() / measured.mean() < 2
    assert bool((measured < upper).all())


def test_gino_and_its_arguments_one_by_one() -> None:
    torch.manual_seed(0)
    model = hw.GINO(
        1, 1, None, in_gno_radius=0.4, out_gno_radius=0.4, fno_n_modes=(4, 4, 4), fno_hidden_channels=8, fno_n_layers=1,
        gno_embed_channels=4, in_gno_channel_mlp_hidden_layers=(16,), out_gno_channel_mlp_hidden_layers=(16,),
    ).eval()  # fmt: skip
    axis = torch.linspace(0, 1, 6)
    grid = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1)[None]
    points = [torch.rand(1, 60, 3) for _ in range(3)]
    samples = [(p, grid, p, torch.sin(5 * p[..., :1])) for p in points]
    policy = Policy.named("mixed", "bf16")
    for native in ((), ("bf16",)):
        with cpu_multiplies(*native):
            ratio = predict_error(model, samples, policy).mean() / measure_error(model, samples, policy).mean()
        assert 0.4 < ratio < 2.5


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp8_e4m3", "tf32", "bf16x2"])
def test_variances_are_those_of_rounding(name: str) -> None:
    format = get_format(name)
    mantissas = 1 + torch.rand(20000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for e in (0, 5, format.min_exponent, format.min_exponent - 2):
        z = torch.ldexp(mantissas, torch.tensor(e))
        measured = float((round_to(z, format) - z).square().mean())
        assert measured == pytest.approx(float(variances(format)[e - LOWEST]), rel=0.06)
    below = torch.ldexp(mantissas, torch.tensor(format.min_exponent - format.precision - 3))
    lost = float((round_to(below, format) - below).square().mean())
    assert lost == pytest.approx(
        float(variances(format)[format.min_exponent - format.precision - 3 - LOWEST]), rel=0.02
    )
    assert len(variances(format)) == BINADES


@pytest.fixture(scope="module")
def fno() -> tuple[nn.Module, Tensor, Sensitivities]:
    torch.manual_seed(0)
    x = smooth(6)
    model = taught(hw.FNO((8, 8), 1, 1, 12, 2), x)
    return model, x[:3], sensitivities(model, x[:3])


def test_shares_add_up_and_name_layers_and_stages(fno) -> None:
    _, _, found = fno
    policy = Policy.named("mixed", "bf16")
    shares = found.shares(policy)
    total = torch.stack([error.square() for error in shares.values()]).sum(0).sqrt()
    assert torch.allclose(total, found.predict(policy))
    assert {("lifting", "pointwise"), ("blocks.1.conv", "weights"), ("blocks.0.conv", "inverse_transform")} <= set(
        shares
    )


def test_layers_with_a_policy_of_their_own_are_predicted(fno) -> None:
    model, x, found = fno
    policy = Policy(layers={"projection": Policy(pointwise="bf16")})
    shares = found.shares(policy)
    most = max(float(error.mean()) for (module, _), error in shares.items() if module != "projection")
    assert most < 1e-5 < float(shares[("projection", "pointwise")].mean())
    assert 0.5 < found.predict(policy).mean() / measure_error(model, x, policy).mean() < 2


def test_one_stage_in_half_is_told_from_another(fno) -> None:
    model, x, found = fno
    for role in ("forward_transform", "contraction", "inverse_transform", "weights", "pointwise"):
        policy = Policy(**{role: "bf16"})
        assert 0.4 < found.predict(policy).mean() / measure_error(model, x, policy).mean() < 2.5, role


def test_weights_that_a_format_holds_cost_nothing() -> None:
    torch.manual_seed(0)
    model = hw.FNO((4, 4), 1, 1, 4, 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16())
    rounded = predict_error(model, smooth(2), Policy(weights="bf16"))
    plain = predict_error(model, smooth(2), Policy())
    assert torch.allclose(rounded, plain, rtol=1e-6)


def test_values_past_a_format_are_an_infinite_error(fno) -> None:
    model, x, _ = fno
    large = sensitivities(model, x * 1e6, probes=1)
    assert bool(large.predict(Policy.named("mixed", "fp16")).isinf().all())
    assert bool(large.predict(Policy.named("mixed", "bf16")).isfinite().all())


def test_probes_estimate_the_same_number(fno) -> None:
    model, x, found = fno
    policy = Policy.named("mixed", "fp16")
    other = sensitivities(model, x, probes=16, generator=torch.Generator().manual_seed(5)).predict(policy)
    assert 0.7 < float(found.predict(policy).mean() / other.mean()) < 1.4


def test_the_second_order_is_that_of_the_function() -> None:
    class Squared(nn.Module):
        """y = (x + u)² at one point of size 1: the second order of a relative change p = 2u is u² = p²/4."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = hw.models.ChannelMLP(1, 0, 1)
            with torch.no_grad():
                self.inner.fcs[0].weight.fill_(1.0)
                self.inner.fcs[0].bias.zero_()

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x).square()

    found = sensitivities(Squared(), torch.ones(1, 1, 1), probes=1)
    assert found.curvature == pytest.approx(0.25, rel=1e-3)
    assert float(found.remainder(torch.tensor([0.1]))) == pytest.approx(0.0025, rel=1e-3)


def test_the_second_order_of_a_cloud_is_not_that_of_points_that_enter_or_leave_a_neighbourhood(monkeypatch) -> None:
    """Moved far enough to change the graph, the answer jumps, and a jump is no second derivative."""
    torch.manual_seed(0)
    model = hw.GINO(1, 1, fno_n_modes=(3, 3, 3), fno_hidden_channels=4, fno_n_layers=1, in_gno_radius=0.3)
    points = torch.rand(1, 200, 3)
    sample = {
        "input_geom": points,
        "latent_queries": torch.stack(torch.meshgrid(*[torch.linspace(0, 1, 6)] * 3, indexing="ij"), -1)[None],
        "output_queries": points,
        "x": torch.ones(1, 200, 1),
    }
    curvatures = []
    for step in (sensitivity._STEP, sensitivity._STEP / 10):
        monkeypatch.setattr(sensitivity, "_STEP", step)
        curvatures.append(sensitivities(model, [sample], probes=1).curvature)
    assert curvatures[0] == pytest.approx(curvatures[1], rel=0.01)


def test_the_model_stays_as_it_is() -> None:
    model = hw.FNO((4, 4), 1, 1, 4, 1, precision="amp")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    sensitivities(model, smooth(1), probes=1)
    assert model.policy.name == "amp"
    assert not model.settled
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


def test_what_cannot_be_certified_is_refused() -> None:
    model = hw.FNO((4, 4), 1, 1, 4, 1)
    with pytest.raises(InputError, match="inf or nan"):
        sensitivities(model, torch.full((1, 1, 8, 8), math.nan))
    with pytest.raises(InputError, match="at least one"):
        sensitivities(model, torch.zeros(0, 1, 8, 8))
    with pytest.raises(InputError, match="probes"):
        sensitivities(model, smooth(1), probes=0)
    with pytest.raises(InputError, match="no layer that honours"):
        sensitivities(nn.Linear(2, 2), torch.ones(1, 2))
    with pytest.raises(InputError, match="confidence"):
        sensitivities(model, smooth(1), probes=1).upper("mixed", confidence=1.0)
