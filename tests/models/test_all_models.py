"""What every model does: trains under every policy, computes each stage in its role's format, saves, compiles."""

import pytest
import torch
from small_models import ARGUMENTS, OPERATORS, batch, build

import halfwave as hw
from halfwave.measure.ranges import is_spectral, watch_stages
from halfwave.models import MODELS, build_model
from halfwave.precision import NAMES, ROLES, Policy

DTYPES = ("bf16", "fp16", "tf32", "fp8_e4m3", "fp8_e5m2", "bf16x2", "bf16x3")
BLOCKS = ("FFH", "FHF", "FHH", "HFF", "HFH", "HHF")
POLICIES = [
    Policy.named("full"),
    *(Policy.named(name, dtype) for name in NAMES if name != "full" for dtype in DTYPES),
    *(Policy.block(setting, "bf16") for setting in BLOCKS),
]


def _label(policy):
    return f"{policy.name}-{policy.pointwise if policy.name == 'amp' else policy.contraction}"


def _relative(a, b):
    return ((a - b).norm() / b.norm()).item()


def test_every_model_is_looked_at():
    assert list(ARGUMENTS) == list(MODELS)


@pytest.mark.parametrize("policy", POLICIES, ids=_label)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_trains_under_every_policy(name, policy):
    """A few steps lower the loss, gradients are finite fp32, the output is fp32."""
    if name == "UNet" and policy.name in BLOCKS:
        with pytest.raises(ValueError, match="a U-Net has no spectral stages"):
            build(name, precision=policy)
        return
    _train(build(name, precision=policy), batch(name))


@pytest.mark.parametrize("kind", ["cp", "tucker", "tt"])
@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_trains_with_factorized_weights(name, kind):
    prefix = "fno_" if name == "GINO" else ""
    options = {f"{prefix}factorization": kind, f"{prefix}rank": 0.5}
    model = build(name, precision=Policy.named("mixed", "fp16"), **options)
    assert sum(p.numel() for p in model.parameters()) < sum(p.numel() for p in _dense(name).parameters())
    _train(model, batch(name))


def _dense(name):
    return build(name, factorization=None) if name == "TFNO" else build(name)


def _train(model, given):
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, fused=True)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        out = given.ask(model)
        loss = (out - given.target).square().mean()
        loss.backward()
        assert out.dtype is torch.float32
        assert all(p.grad.dtype is torch.float32 and p.grad.isfinite().all() for p in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.98 * losses[0]


def _stages(model, given):
    """The dtype of every stage of every layer that computes under a policy, as (layer, role)."""
    seen = {}
    for name, module in model.named_modules():
        if is_spectral(module):
            watch_stages(module, lambda stage, out, name=name: seen.update({(name, stage): out.dtype}))
        elif hasattr(module, "policy") and name:
            module.register_forward_hook(lambda m, i, out, name=name: seen.update({(name, "pointwise"): out.dtype}))
    given.ask(model)
    return seen


@pytest.mark.parametrize("role", [None, *ROLES])
@pytest.mark.parametrize("name", MODELS)
def test_every_stage_is_in_the_format_of_its_role(name, role):
    """One role at a time in fp16 and all the others in fp32, or all of them in fp16."""
    policy = Policy.named("mixed", "fp16") if role is None else Policy().with_(**{role: "fp16"})
    if name == "UNet" and role in ("forward_transform", "contraction", "inverse_transform"):
        with pytest.raises(ValueError, match="a U-Net has no spectral stages"):
            build(name, precision=policy)
        return
    model = build(name, precision=policy)
    seen = _stages(model, batch(name))
    layers = {layer for layer, module in model.named_modules() if hasattr(module, "policy") and layer}
    # A block runs its MLP itself, in one piece with its sums.
    assert {layer for layer, _ in seen} == {layer for layer in layers if not layer.endswith(".mlp")}
    for (layer, stage), dtype in seen.items():
        assert dtype is policy.format(stage).storage, (layer, stage)
    roles = {stage for _, stage in seen}
    assert roles == ({"pointwise"} if name == "UNet" else set(ROLES) - {"weights"})


@pytest.mark.parametrize("name", ["FNO", "SFNO", "GINO"])
def test_the_weights_role_rounds_spectral_weights_and_nothing_else(name):
    """Dense ones; factors are multiplied with each other in that format as well."""
    given, model = batch(name), build(name, precision=Policy(weights="bf16"))
    found = given.ask(model)
    exact = build(name)
    assert not torch.equal(found, given.ask(exact))
    for module in exact.modules():
        if is_spectral(module):
            for parameter in module.weight.parameters():
                parameter.data = parameter.data.bfloat16().float()
    assert torch.equal(found, given.ask(exact))


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_saved_loaded_and_built_again_with_its_policy(name, tmp_path):
    model, given = build(name, precision="mixed"), batch(name)
    hw.save(model, tmp_path / "model.safetensors")
    again = hw.load(tmp_path / "model.safetensors")
    assert type(again) is MODELS[name]
    assert again.policy == model.policy
    assert again.config == model.config
    assert torch.equal(given.ask(again), given.ask(model))
    assert build_model(name, model.config).config == model.config


@pytest.mark.parametrize("name", MODELS)
def test_every_model_answers_at_another_resolution(name):
    given = batch(name, scale=2)
    assert given.ask(build(name)).shape == given.target.shape


@pytest.mark.parametrize("name", MODELS)
def test_compiled_models_give_the_eager_result(name):
    """Forward and backward, in one graph; GINO in several, as edges are counted only when the points are known."""
    layers = {"GINO": {"fno_n_layers": 1}, "UNet": {"n_levels": 1}}.get(name, {"n_layers": 1})
    model, given = build(name, precision=Policy.named("mixed", "bf16"), **layers), batch(name)
    eager = given.ask(model)
    eager.square().mean().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    backend = "eager" if name == "GINO" else "aot_eager"
    out = given.ask(torch.compile(model, fullgraph=name != "GINO", backend=backend))
    out.square().mean().backward()
    assert _relative(out, eager) < 0.02
    for gradient, p in zip(expected, model.parameters(), strict=True):
        assert _relative(p.grad, gradient) < 0.04


def test_a_gino_in_one_graph_is_refused():
    torch._dynamo.reset()  # what was compiled in several graphs before would be taken as it is
    with pytest.raises(torch._dynamo.exc.Unsupported, match="disable"):
        batch("GINO").ask(torch.compile(build("GINO"), fullgraph=True, backend="eager"))


@pytest.mark.parametrize("name", MODELS)
def test_unknown_precision_raises(name):
    with pytest.raises(ValueError, match="unknown precision 'quarter': expected one of full, amp, half, mixed"):
        build(name, precision="quarter")
    with pytest.raises(ValueError, match="unknown precision 'quarter'"):
        hw.set_precision(build(name), "quarter")
    with pytest.raises(ValueError, match=f"{name}: .*width"):
        build_model(name, {**ARGUMENTS[name], "width": 3})
