"""Errors in full beside those of the training's precision, and by how much rounding moves an answer."""

import pytest
import torch

from halfwave.data import Darcy, generate, open_dataset
from halfwave.models import FNO, computing_in
from halfwave.precision import Policy
from halfwave.training import TrainConfig, evaluate, load, read_metrics, rounding_of, train


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return generate(Darcy(16), tmp_path_factory.mktemp("rounding") / "darcy.h5", n_train=8, n_test=3)


@pytest.fixture(scope="module")
def run_dir(data, tmp_path_factory):
    """The paper's method: a half FFT behind tanh."""
    arguments = {"n_modes": [4, 4], "hidden_channels": 8, "n_layers": 2}
    config = TrainConfig(
        data=str(data), arguments=arguments, epochs=2, batch_size=4, precision="mixed", dtype="bf16", backend="fft",
        stabilizer="tanh",
    )  # fmt: skip
    out = tmp_path_factory.mktemp("run")
    train(config, out, quiet=True)
    return out


def test_a_run_reports_both_errors_and_full_keeps_the_stabilizer(run_dir, data):
    rows = read_metrics(run_dir)
    assert all(row["test_l2_full"] is not None and row["test_l2_full"] != row["test_l2"] for row in rows)
    operator, split = load(run_dir / "model.safetensors"), open_dataset(data).test
    with computing_in(operator, "full"):
        assert all(block.conv.stabilizer == "tanh" for block in operator.model.blocks)
        in_full = evaluate(operator, split, batch_size=4)
    assert in_full["l2"] == pytest.approx(rows[-1]["test_l2_full"], rel=1e-5)
    assert operator.model.policy.name == "mixed"


def test_the_policies_of_all_layers_come_back(run_dir):
    model = load(run_dir / "model.safetensors").model
    before = [getattr(module, "policy", None) for module in model.modules()]
    with computing_in(model, "amp"):
        assert model.policy.name == "amp"
    assert [getattr(module, "policy", None) for module in model.modules()] == before


def test_rounding_is_ordered_by_the_digits_of_the_formats(data):
    """0 in full; fp16 has eight times bf16's digits; the policy stream is near fp16."""
    torch.manual_seed(0)
    model, split = FNO((4, 4), 1, 1, 8, n_layers=2).eval(), open_dataset(data).test
    moved = {
        name: rounding_of(model, split, policy)
        for name, policy in {
            "full": Policy.named("full"),
            "fp16": Policy.named("mixed", "fp16"),
            "bf16": Policy.named("mixed", "bf16"),
            "stream": Policy.named("stream", "bf16"),
        }.items()
    }
    assert moved["full"] == 0
    assert 4 < moved["bf16"] / moved["fp16"] < 16
    assert moved["stream"] < moved["bf16"] / 2
    assert moved["bf16"] < 0.05


def test_stream_has_the_bytes_of_mixed_and_more_digits_along_the_stream():
    stream, mixed = (Policy.named(name, "bf16") for name in ("stream", "mixed"))
    assert stream.pointwise == "fp16"
    assert stream.format("pointwise").storage.itemsize == mixed.format("pointwise").storage.itemsize
    assert Policy.named("stream", "fp16").pointwise == "fp32"
    assert {stream.contraction, stream.weights, stream.forward_transform} == {"bf16"}


def test_a_phase_may_name_its_stabilizer():
    phases = [[0.5, "mixed:tanh"], [0.5, "full:none"]]
    config = TrainConfig(data="x.h5", precision="schedule", phases=phases)
    assert [policy.stabilizer for _, policy in config.build_schedule().phases] == ["tanh", "none"]
