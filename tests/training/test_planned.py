"""Training with a policy that differs from layer to layer: honoured, resumed, and refused where it does not fit."""

import pytest
import torch

import halfwave as hw
from halfwave.errors import InputError
from halfwave.precision import Policy
from halfwave.training import train

POLICY = Policy(name="planned", layers={"blocks.0": Policy.named("mixed", "bf16").with_(name="planned")})


def test_a_run_honours_it_and_its_model_remembers(config, tmp_path):
    planned = config.model_copy(update={"precision": "planned", "policy": POLICY.to_dict(), "epochs": 1})
    result = train(planned, tmp_path / "planned", quiet=True)
    full = train(planned.model_copy(update={"precision": "full", "policy": None}), tmp_path / "full", quiet=True)
    assert result.status == "finished"
    assert result.train_loss != full.train_loss
    model = hw.load(tmp_path / "planned" / "model.safetensors")
    core = getattr(model, "model", model)
    assert core.policy == POLICY
    assert core.blocks[0].conv.policy.contraction == "bf16"
    assert core.blocks[1].conv.policy.contraction == "fp32"
    with torch.no_grad():
        assert core.blocks[0](torch.randn(1, 6, 10, 12)).dtype is torch.bfloat16


def test_a_plan_for_another_model_is_refused_before_anything_is_written(config, tmp_path):
    policy = Policy(name="planned", layers={"blocks.7": Policy()})
    planned = config.model_copy(update={"precision": "planned", "policy": policy.to_dict()})
    with pytest.raises(InputError, match=r"FNO cannot run in precision planned: FNO has no layer 'blocks.7'"):
        train(planned, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
