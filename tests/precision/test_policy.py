"""Policies, schedules and stabilizers: what they stand for, and that nothing unknown is accepted."""

import pytest
import torch

from halfwave.precision import NAMES, ROLES, Policy, Schedule, get_stabilizer, resolve_stabilizer

SPECTRAL = {"forward_transform", "contraction", "inverse_transform", "weights"}


@pytest.mark.parametrize(
    ("name", "half"),
    [("full", set()), ("amp", {"pointwise"}), ("half", SPECTRAL), ("mixed", {*SPECTRAL, "pointwise"})],
)
def test_named_policies_are_the_papers_methods(name, half):
    policy = Policy.named(name, dtype="fp16")
    assert {role for role in ROLES if getattr(policy, role) == "fp16"} == half
    assert {role for role in ROLES if getattr(policy, role) == "fp32"} == set(ROLES) - half


def test_default_half_follows_the_device():
    assert Policy.named("mixed").contraction == "bf16"
    assert Policy.named("mixed", device="cuda").contraction == "fp16"
    assert Policy.named("mixed", dtype=torch.float16).contraction == "fp16"


@pytest.mark.parametrize("setting", ["FFF", "FFH", "FHF", "FHH", "HFF", "HFH", "HHF", "HHH"])
def test_block_settings_of_the_ablation(setting):
    policy = Policy.block(setting, dtype="fp16")
    found = "".join(
        "H" if policy.format(role).half else "F" for role in ("forward_transform", "contraction", "inverse_transform")
    )
    assert found == setting


def test_policy_survives_json():
    policy = Policy.named("mixed", dtype="fp8_e5m2", stabilizer="hard-clip")
    assert Policy.from_dict(policy.to_dict()) == policy
    assert policy.emulated
    assert not Policy.named("mixed", dtype="bf16").emulated


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Policy.named("quarter"), "unknown precision 'quarter': expected one of full, amp, half, mixed"),
        (lambda: Policy.named("mixed", dtype="fp12"), "unknown format 'fp12'"),
        (
            lambda: Policy.named("mixed", stabilizer="clip"),
            "unknown stabilizer 'clip': expected one of auto, none, tanh",
        ),
        (lambda: Policy.block("HHX"), "unknown block setting 'HHX'"),
        (lambda: Policy.named("full").with_(contracton="fp16"), "unknown role 'contracton'"),
        (lambda: Policy.named("full").format("bias"), "unknown role 'bias'"),
        (lambda: Policy.from_dict({"speed": "fp16"}), "unknown policy field 'speed'"),
        (lambda: Schedule([(0.5, "full")]), "sum to 1"),
        (lambda: Schedule([(0.5, "full"), (0.5, "quarter")]), "unknown precision 'quarter'"),
        (lambda: get_stabilizer("divide-0"), "unknown stabilizer 'divide-0'"),
    ],
)
def test_unknown_values_raise_with_what_is_accepted(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_schedule_of_the_paper():
    schedule = Schedule.paper("fp16")
    steps = [schedule.policy_at(step / 8).name for step in range(8)]
    assert steps == ["mixed"] * 2 + ["amp"] * 4 + ["full"] * 2
    assert schedule.policy_at(1.0).name == "full"
    assert Schedule.from_dict(schedule.to_dict()) == schedule


def test_auto_stabilizer_is_tanh_only_where_a_half_fft_runs():
    assert resolve_stabilizer("auto", half_fft=True) == "tanh"
    assert resolve_stabilizer("auto", half_fft=False) == "none"
    assert resolve_stabilizer("hard-clip", half_fft=False) == "hard-clip"


def test_stabilizers_do_what_they_are_called():
    v = torch.randn(3, 2, 50, 50, generator=torch.Generator().manual_seed(0)) * 4 + 1
    assert torch.equal(get_stabilizer("none")(v), v)
    assert torch.equal(get_stabilizer("tanh")(v), torch.tanh(v))
    assert get_stabilizer("hard-clip")(v).abs().max() == 1
    assert torch.equal(get_stabilizer("divide-100")(v), v / 100)
    normalised = get_stabilizer("normalise")(v)
    torch.testing.assert_close(normalised.mean((2, 3)), torch.zeros(3, 2), atol=1e-5, rtol=0)
    torch.testing.assert_close(normalised.std((2, 3), correction=0), torch.ones(3, 2))
    clipped = get_stabilizer("2-sigma-clip")(v)
    limit = v.mean((1, 2, 3)) + 2 * v.std((1, 2, 3), correction=0)
    torch.testing.assert_close(clipped.amax((1, 2, 3)), limit)
    assert NAMES == ("full", "amp", "half", "mixed")


def test_layers_have_policies_of_their_own():
    own = Policy(contraction="fp16", name="own")
    policy = Policy(pointwise="bf16", layers={"blocks.1": own, "blocks.1.conv": Policy(weights="fp8_e4m3")})
    assert policy.of("blocks.1") == policy.of("blocks.1.mlp") == own
    assert policy.of("blocks.1.conv").weights == "fp8_e4m3"
    assert policy.of("blocks.10") == policy.of("") == Policy(pointwise="bf16")
    assert {format.name for format in policy.formats} == {"fp32", "bf16", "fp16", "fp8_e4m3"}
    assert policy.emulated
    assert Policy.from_dict(policy.to_dict()) == policy
    assert hash(policy) == hash(Policy.from_dict(policy.to_dict()))
    assert "layers" not in own.to_dict()
    with pytest.raises(ValueError, match="the policy of layer 'a' must be a Policy without layers"):
        Policy(layers={"a": policy})
    with pytest.raises(ValueError, match="layers of a policy must be an object"):
        Policy.from_dict({"layers": ["blocks.0"]})
