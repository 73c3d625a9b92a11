"""A stabilizer is part of the function: what acted when a model first computed stays, whatever the precision."""

import copy
import warnings

import pytest
import torch
from small_models import batch, build
from torch._dynamo.testing import CompileCounterWithBackend

import halfwave as hw
from halfwave.models.recompute import recompute_blocks
from halfwave.models.settling import settle_for, settle_stabilizers, settled_stabilizers, trial_run
from halfwave.planner import plan_precision
from halfwave.precision import Policy, Schedule
from halfwave.spectral import SpectralConv

FP16 = Policy.named("mixed", "fp16")
"""With backend="fft" the one policy here for which "auto" is tanh."""


def _model(policy=FP16, **options):
    return build("FNO", backend="fft", precision=policy, **options)


def _as(model, stabilizer):
    """The same weights in fp32 with this stabilizer, by name."""
    other = copy.deepcopy(model)
    hw.set_precision(other, Policy(stabilizer=stabilizer))
    return other


def _stabilizers(model):
    return {conv.stabilizer for conv in model.modules() if isinstance(conv, SpectralConv)}


def test_what_acted_in_training_stays_on_in_full_precision():
    model, given = _model(), batch("FNO")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    (given.ask(model) - given.target).square().mean().backward()
    optimizer.step()
    hw.set_precision(model, "full")
    found = given.ask(model)
    assert torch.equal(found, given.ask(_as(model, "tanh")))
    assert not torch.allclose(found, given.ask(_as(model, "none")), rtol=1e-2)
    assert "stabilizer=tanh" in repr(model)
    assert "stabilizer=auto" not in repr(model)


def test_every_change_of_precision_keeps_it():
    model, given = _model("full"), batch("FNO")
    expected = given.ask(model)
    for policy in ("amp", "mixed", Policy.uniform("bf16"), "double", Policy.named("half", "bf16")):
        hw.set_precision(model, policy)
        given.ask(model)
        assert _stabilizers(model) == {"none"}
    hw.set_precision(model, "full")
    assert torch.equal(given.ask(model), expected)


def test_a_policy_that_names_a_stabilizer_changes_it():
    model, given = _model(), batch("FNO")
    given.ask(model)
    for name in ("none", "hard-clip", "tanh"):
        hw.set_precision(model, FP16.with_(stabilizer=name))
        hw.set_precision(model, "full")
        assert _stabilizers(model) == {name}
        assert torch.equal(given.ask(model), given.ask(_as(model, name)))


def test_until_it_computes_auto_follows_the_policy():
    model = _model("full")
    assert _stabilizers(model) == {"none"}
    hw.set_precision(model, FP16)
    assert _stabilizers(model) == {"tanh"}
    hw.set_precision(model, "full")
    assert _stabilizers(model) == {"none"}
    assert _stabilizers(model.half()) == {"tanh"}  # an FFT of fp16 weights runs in fp16


def test_a_half_fft_without_its_tanh_is_said_once():
    model, given = _model("full"), batch("FNO")
    given.ask(model)
    with pytest.warns(UserWarning, match="may overflow.*stabilizer='tanh'") as caught:
        hw.set_precision(model, FP16)
    assert len(caught) == 1
    assert __file__ in caught[0].filename
    assert _stabilizers(model) == {"none"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hw.set_precision(model, FP16.with_(stabilizer="tanh"))
        hw.set_precision(model, "full")
        hw.set_precision(build("FNO", backend="gemm"), FP16)


def test_copies_and_conversions_keep_it():
    model, given = _model(), batch("FNO")
    given.ask(model)
    for other in (copy.deepcopy(model), copy.deepcopy(model).double(), copy.deepcopy(model).to("meta")):
        hw.set_precision(other, "full")
        assert _stabilizers(other) == {"tanh"}


def test_it_is_saved_with_the_weights(tmp_path):
    model, given = _model(), batch("FNO")
    given.ask(model)
    hw.save(model, tmp_path / "model.safetensors")
    again = hw.load(tmp_path / "model.safetensors")
    hw.set_precision(again, "full")
    assert torch.equal(given.ask(again), given.ask(_as(model, "tanh")))


def test_a_model_that_has_not_computed_is_saved_open(tmp_path):
    hw.save(_model(), tmp_path / "model.safetensors")
    again = hw.load(tmp_path / "model.safetensors")
    assert settled_stabilizers(again) == {}
    hw.set_precision(again, "full")
    assert _stabilizers(again) == {"none"}


def test_bad_records_of_stabilizers_are_refused():
    model = _model()
    with pytest.raises(ValueError, match=r"has no spectral convolution 'blocks\.7\.conv'"):
        settle_stabilizers(model, {"blocks.7.conv": "tanh"})
    with pytest.raises(ValueError, match="unknown stabilizer 'hope'"):
        settle_stabilizers(model, {"blocks.0.conv": "hope"})


@pytest.mark.parametrize("names", [("mixed", "amp", "full"), ("full", "amp", "mixed")])
def test_a_stabilizer_of_one_phase_acts_in_all(names):
    schedule = Schedule([(1 / 3, Policy.named(name, "fp16")) for name in names])
    model, given = _model("full"), batch("FNO")
    settle_for(model, [policy for _, policy in schedule.phases])
    for _, policy in schedule.phases:
        hw.set_precision(model, policy)
        given.ask(model)
        assert _stabilizers(model) == {"tanh"}
    named = _model("full")
    settle_for(named, [policy.with_(stabilizer="none") for _, policy in schedule.phases])
    assert settled_stabilizers(named) == {}


def test_planning_and_certifying_leave_it_open():
    model, given = _model("full"), batch("FNO")
    plan_precision(model, given.arguments[0], max_error=1e-2)
    hw.certify(torch.nn.Sequential(model), given.arguments[0], "mixed", grid_samples=1)
    assert settled_stabilizers(model) == {}
    with trial_run(model):
        given.ask(model)
    assert settled_stabilizers(model) == {}
    given.ask(model)
    assert settled_stabilizers(model) == {"blocks.0.conv": "none", "blocks.1.conv": "none"}


def test_a_compiled_model_settles_in_one_graph_that_stays():
    """No second compilation, also with the layers in checkpoints; and an autocast around it changes nothing."""
    torch._dynamo.reset()
    model, given = build("FNO", n_layers=1, hidden_channels=2), batch("FNO")
    recompute_blocks(model)
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    expected = given.ask(compiled)
    assert settled_stabilizers(model) == {"blocks.0.conv": "none"}
    given.ask(compiled)
    assert counter.frame_count == 1
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(given.ask(compiled), expected)
