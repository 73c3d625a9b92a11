"""Overflow in training: found, named, survived; and the range monitor."""

import math

import pytest
import torch

from halfwave.models import build_model, set_precision
from halfwave.precision import Policy
from halfwave.training import Operator, RangeMonitor, TrainConfig, load, train
from halfwave.training.checkpointing import Checkpoints
from halfwave.training.engine import Engine
from halfwave.training.loop import Loop
from halfwave.training.nonfinite import NonFiniteError, diagnose, promote, safer
from halfwave.training.records import read_metrics

FP16_FFT = {"dtype": "fp16", "backend": "fft", "stabilizer": "none", "precision": "mixed"}


@pytest.fixture(scope="module")
def large_file(tmp_path_factory, write_dataset):
    """Fields around 100: what the lifting makes of them, summed over 128 x 128 points, leaves the range of fp16."""
    path = tmp_path_factory.mktemp("large") / "d.h5"
    return write_dataset(path, n_train=3, n_test=1, grid=(128, 128), offset=100.0)


@pytest.fixture
def naive(large_file):
    """Naive half precision: fp16, FFT, no stabilizer, fields as they come."""
    arguments = {"n_modes": (4, 4), "hidden_channels": 8, "n_layers": 1}
    return TrainConfig(data=str(large_file), arguments=arguments, epochs=2, batch_size=1, normalise=False, **FP16_FFT)


def test_naive_fp16_stops_and_names_layer_stage_format_and_remedy(naive, tmp_path):
    with pytest.raises(NonFiniteError) as caught:
        train(naive, tmp_path, quiet=True)
    message = str(caught.value)
    assert "first in blocks.0.conv, stage forward_transform, format fp16" in message
    assert "stabilizer=tanh" in message
    assert "\n" not in message
    assert not (tmp_path / "summary.json").exists()


@pytest.mark.parametrize("remedy", [{"loss_scaling": True}, {"clip": 5.0}, {"accumulate": 3}, {"on_nonfinite": "skip"}])
def test_global_stabilizers_do_not_help(naive, tmp_path, remedy):
    """As in the paper's appendix: each ends non-finite, or skips every step of the first epoch."""
    with pytest.raises(NonFiniteError, match="epoch 1"):
        train(naive.model_copy(update=remedy), tmp_path, quiet=True)


@pytest.mark.parametrize("remedy", [{"stabilizer": "tanh"}, {"backend": "gemm"}, {"stabilizer": "auto"}])
def test_tanh_and_the_gemm_backend_help(naive, tmp_path, remedy):
    result = train(naive.model_copy(update={**remedy, "epochs": 1}), tmp_path, quiet=True)
    assert math.isfinite(result.l2)


def test_promotion_moves_to_the_next_safer_policy_and_says_so(naive, tmp_path, capfd):
    result = train(naive.model_copy(update={"on_nonfinite": "promote"}), tmp_path)
    assert [row["policy"] for row in read_metrics(tmp_path)] == ["amp", "amp"]
    assert math.isfinite(result.l2)
    assert "on with amp" in capfd.readouterr().err
    assert load(tmp_path / "model.safetensors").model.policy.name == "amp"


def test_weights_that_went_bad_are_taken_back_from_the_last_checkpoint(config, tmp_path, monkeypatch):
    original, count = Loop._update, [0]

    def poisoning(self, group, interrupted):
        count[0] += 1
        if count[0] == 5:
            with torch.no_grad():
                next(self.engine.module.parameters()).fill_(math.nan)
        return original(self, group, interrupted)

    monkeypatch.setattr(Loop, "_update", poisoning)
    changes = {"on_nonfinite": "promote", "precision": "mixed", "epochs": 3, "checkpoint_steps": 1}
    result = train(config.model_copy(update=changes), tmp_path, quiet=True)
    assert math.isfinite(result.l2)
    assert [row["policy"] for row in read_metrics(tmp_path)] == ["mixed", "amp", "amp"]


def test_bad_weights_are_never_saved(config, tmp_path, monkeypatch):
    original = Loop._account

    def poisoning(self, update, batches):
        original(self, update, batches)
        if self.position.step == 4:
            with torch.no_grad():
                next(self.engine.module.parameters()).fill_(math.inf)

    monkeypatch.setattr(Loop, "_account", poisoning)
    with pytest.raises(NonFiniteError, match="not saved, the last checkpoint is kept"):
        train(config.model_copy(update={"checkpoint_steps": 1}), tmp_path, quiet=True)
    newest = Checkpoints(tmp_path / "state", 9).files()[0]
    assert newest.name == "at-0000000003.safetensors"


def test_safer_policies_end_at_full():
    chain = [Policy.named("mixed", "fp16")]
    while (following := safer(chain[-1])) is not None:
        chain.append(following)
    assert [policy.name for policy in chain] == ["mixed", "amp", "full"]
    assert chain[1].pointwise == "fp16"
    assert safer(Policy.named("half")).name == "full"
    assert safer(Policy.block("HHF")).name == "full"
    assert promote(Policy.named("mixed"), []).name == "mixed"
    assert promote(Policy.named("mixed"), ["mixed", "amp"]).name == "full"
    assert promote(Policy.named("amp"), ["mixed"]).name == "amp"


def test_diagnosis_of_a_finite_model_and_of_bad_weights(model):
    x = torch.randn(1, 1, 10, 12)
    assert "every layer is finite" in diagnose(Operator(model, None, None), x)
    with torch.no_grad():
        model.projection.fcs[0].weight[0, 0] = math.nan
    assert "the weights projection.fcs.0.weight are non-finite" in diagnose(Operator(model, None, None), x)


def test_the_monitor_sees_every_stage_and_leaves_no_trace(model):
    x = torch.randn(2, 1, 10, 12)
    before, hooks = model(x), [len(m._forward_hooks) for m in model.modules()]
    set_precision(model, Policy.named("mixed", "bf16"))
    with RangeMonitor(model) as monitor:
        model(x)
    set_precision(model, Policy.named("full"))
    assert torch.equal(model(x), before)
    assert [len(m._forward_hooks) for m in model.modules()] == hooks
    stages = [(r.layer, r.stage) for r in monitor.ranges.values()]
    for block in ("blocks.0", "blocks.1"):
        seen = [stage for layer, stage in stages if layer == f"{block}.conv"]
        assert seen == ["forward_transform", "contraction", "inverse_transform"]
        assert (block, "pointwise") in stages
    assert all(r.format == "bf16" and r.largest > 0 for r in monitor.ranges.values())
    assert monitor.first_nonfinite is None


def test_the_monitor_measures_largest_and_underflow():
    model = torch.nn.Sequential(torch.nn.Identity(), torch.nn.ReLU())
    values = torch.tensor([[3.0, -8.0, 0.0, 1e-7]], dtype=torch.float16)
    with RangeMonitor(model) as monitor:
        model(values)
    identity, relu = (monitor.ranges[name, "pointwise"] for name in ("0", "1"))
    assert (identity.largest, identity.underflowed, identity.format) == (8.0, 0.5, "fp16")
    assert (relu.largest, relu.underflowed) == (3.0, 0.75)
    with monitor:
        monitor.step = 7
        model(torch.tensor([[math.inf, 1.0, 1.0, 1.0]], dtype=torch.float16))
    assert monitor.first_nonfinite is identity
    assert (identity.first_nonfinite, identity.underflowed, identity.largest) == (7, 0.25, 8.0)


def test_a_monitored_run_writes_its_ranges(config, tmp_path):
    train(config.model_copy(update={"monitor": True}), tmp_path / "a", quiet=True)
    lines = (tmp_path / "a" / "ranges.csv").read_text().splitlines()
    assert lines[0] == "layer,stage,format,largest,underflowed,values,first_nonfinite"
    assert any(line.startswith("blocks.0.conv,forward_transform,fp32,") for line in lines)
    train(config, tmp_path / "b", quiet=True)
    assert not (tmp_path / "b" / "ranges.csv").exists()


def test_loss_scaling_changes_nothing_where_nothing_overflows(config, tmp_path):
    """A scale of 2^16 on a loss of order one overflows nothing in fp32: no step is skipped, the scale is recorded."""
    result = train(config.model_copy(update={"loss_scaling": True}), tmp_path, quiet=True)
    rows = read_metrics(tmp_path)
    assert {row["loss_scale"] for row in rows} == {2.0**16}
    assert {row["skipped_steps"] for row in rows} == {0}
    plain = train(config, tmp_path / "plain", quiet=True)
    assert result.l2 == pytest.approx(plain.l2, rel=1e-4)


def test_loss_scaling_finds_its_scale_even_with_one_update_an_epoch(config, tmp_path, monkeypatch):
    """Gradients overflow at first; the scale is halved until they do not."""
    original, count = Engine._step, [0]

    def overflowing(self):
        count[0] += 1
        if count[0] <= 3:
            with torch.no_grad():
                next(p for p in self.module.parameters() if p.grad is not None).grad.fill_(math.inf)
        return original(self)

    monkeypatch.setattr(Engine, "_step", overflowing)
    changes = {"loss_scaling": True, "batch_size": 12, "epochs": 5}
    result = train(config.model_copy(update=changes), tmp_path, quiet=True)
    assert result.status == "finished"
    assert [row["skipped_steps"] for row in read_metrics(tmp_path)] == [1, 2, 3, 3, 3]
    assert read_metrics(tmp_path)[-1]["loss_scale"] == 2.0**13


def test_the_model_of_the_naive_run_is_the_one_tested(naive):
    """The overflow is the transform's own: the same model in fp32 is finite on the same scale of input."""
    model = build_model("FNO", naive.model_arguments(1, 1))
    x = torch.full((1, 1, 128, 128), 100.0)
    for name, finite in (("full", True), ("mixed", False)):
        set_precision(model, Policy.named(name, "fp16", "none"))
        assert bool(torch.isfinite(model(x)).all()) is finite
