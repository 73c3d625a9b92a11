"""A policy on a device: one arithmetic for each role, which the dtype of the weights decides where it is fp32."""

import pytest
import torch

from halfwave.numerics import cpu_multiplies, meta_as
from halfwave.precision import PRECISIONS, ROLES, Policy, Resolved

MASTERS = {torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


def _formats(resolved):
    return {role: getattr(resolved, role).format.name for role in ROLES}


@pytest.mark.parametrize("masters", MASTERS, ids=str)
@pytest.mark.parametrize("name", PRECISIONS)
def test_fp32_is_the_dtype_of_the_weights(name, masters):
    policy = Policy.named(name, "fp8_e5m2")
    wanted = {role: getattr(policy, role) for role in ROLES}
    wanted = {role: MASTERS[masters] if format == "fp32" else format for role, format in wanted.items()}
    resolved = policy.on("cpu", masters)
    assert isinstance(resolved, Resolved)
    assert _formats(resolved) == wanted
    assert resolved.answer is (torch.float64 if name == "double" else masters)


def test_it_is_worked_out_once_for_each_kind_of_device():
    policy = Policy.named("mixed", "fp16")
    assert policy.on(torch.device("cpu")) is policy.on("cpu") is Policy.named("half", "fp16").with_(
        pointwise="fp16"
    ).on("cpu", torch.float32)  # fmt: skip
    assert policy.on("cuda").contraction.compute is torch.float16
    for kind in ("cpu", "cuda"):
        with meta_as(kind):
            assert policy.on("meta") is policy.on(kind)


def test_it_follows_what_the_hardware_is_said_to_be():
    policy, computes = Policy.named("mixed", "bf16"), []
    for native in (("bf16",), (), ("bf16",)):
        with cpu_multiplies(*native):
            computes.append(policy.on("cpu").pointwise.compute)
    assert computes == [torch.bfloat16, torch.float32, torch.bfloat16]


def test_double_is_fp64_everywhere():
    double = Policy.named("double")
    assert _formats(double.on("cpu")) == dict.fromkeys(ROLES, "fp64")
    assert Policy.named("full", dtype="fp64") == Policy.named("full", dtype=torch.float64) == double
    assert Policy.named("full", dtype="fp32") == Policy.named("full", dtype="fp16") == Policy.named("full")
    assert Policy.named("double", dtype="bf16") == double  # what a schedule hands to all of its phases


@pytest.mark.parametrize("dtype", ["fp32", "fp64", torch.float32])
@pytest.mark.parametrize("name", ["amp", "half", "mixed", "HHF", "FFF"])
def test_half_must_be_half(name, dtype):
    with pytest.raises(ValueError, match=f"dtype fp.. is not half: precision '{name}' takes one of tf32, bf16, fp16"):
        Policy.named(name, dtype)


def test_contradictions_and_other_weights_are_refused():
    with pytest.raises(ValueError, match="dtype fp32 contradicts precision 'double'"):
        Policy.named("double", "fp32")
    with pytest.raises(ValueError, match="weights are float8_e5m2: expected one of float64, float32"):
        Policy().on("cpu", torch.float8_e5m2)
