"""The benchmark on a tiny case: equal work, ratios that are what they say, figures kept after every case."""

import json
from dataclasses import replace

import pytest
import torch

from halfwave.commands import bench
from halfwave.measure import MachineRates, best_seconds, count_work, measure_rates
from halfwave.measure.bench import near_the_best
from halfwave.measure.bench_cases import BENCH_CASES, BenchCase, build_batch, build_ours, build_peer
from halfwave.measure.contenders import our_contender
from halfwave.models import ChannelMLP
from halfwave.precision import Policy

SMALL_KERNELS = {
    "in_gno_radius": 0.4,
    "out_gno_radius": 0.4,
    "in_gno_channel_mlp_hidden_layers": [8],
    "out_gno_channel_mlp_hidden_layers": [8],
}
TINY = (
    BenchCase("step-tiny", "step", (12, 12), (4, 4), 4, 2, n_layers=2),
    BenchCase("conv-tiny", "conv", (16,), (6,), 3, 2),
)
MODELS = (
    BenchCase("sfno-tiny", "sfno", (8, 16), (6, 8), 4, 2, n_layers=2),
    BenchCase("gino-tiny", "gino", (4, 4, 4), (4, 4, 4), 4, 1, n_layers=1, points=20, options=SMALL_KERNELS),
)


@pytest.fixture(autouse=True)
def _tiny_cases(monkeypatch):
    monkeypatch.setattr(bench, "BENCH_CASES", TINY)
    # Measuring what the machine can do takes longer than the cases.
    rates = MachineRates(fp32=1e11, bf16=1e11, gelu=1e9, gelu_backward=1e9, memory=((1 << 16, 1e10),))
    monkeypatch.setattr(bench, "measure_rates", lambda: rates)


def test_bench_writes_ratios(command, tmp_path):
    out = tmp_path / "bench.json"
    code, printed, err = command(
        "bench", "--out", out, "--policies", "full", "mixed", "--rounds", 2, "--mesh", "grid=2"
    )
    assert code == 0, err
    rows = json.loads(out.read_text())["cases"]
    assert [(row["case"], row["policy"]) for row in rows] == [
        ("step-tiny", "full"), ("step-tiny", "mixed"), ("conv-tiny", "full"), ("conv-tiny", "mixed")
    ]  # fmt: skip
    for row in rows:
        assert row["ratio"] == pytest.approx(row["peer_seconds"] / row["seconds"])
        assert row["memory_ratio"] == pytest.approx(row["activation_bytes"] / row["peer_activation_bytes"])
        assert row["roofline_seconds"] > 0
    assert "against neuraloperator" in printed
    # Two layers, of which each exchange sends 2 of 4 rows of 3 pairs, for 2 samples with 4 channels, four times.
    sent = json.loads(out.read_text())["traffic"]["step-tiny"]
    assert sent["sent_bytes"]["modes"] == 2 * 4 * (2 * 3 * 2 * 2 * 4) * 4
    assert "an FFT's transposes would send" in printed


def test_compiled_steps_have_their_bytes_too(command, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "BENCH_CASES", TINY[:1])
    out = tmp_path / "bench.json"
    code, _, err = command("bench", "--out", out, "--policies", "full", "--rounds", 1, "--compile")
    assert code == 0, err
    eager, compiled = json.loads(out.read_text())["cases"]
    assert (eager["mode"], compiled["mode"]) == ("eager", "compiled")
    assert 0.5 * eager["activation_bytes"] < compiled["activation_bytes"] < 5 * eager["activation_bytes"]
    assert compiled["memory_ratio"] == pytest.approx(compiled["activation_bytes"] / compiled["peer_activation_bytes"])


@pytest.mark.parametrize("case", [*TINY, *MODELS], ids=lambda case: case.name)
def test_both_models_of_a_case_are_of_one_size_and_answer_one_batch(case):
    ours, peer = build_ours(case), build_peer(case)
    counts = [sum(p.numel() * (2 if p.is_complex() else 1) for p in model.parameters()) for model in (ours, peer)]
    assert counts[0] == counts[1]
    inputs, y = build_batch(case)
    assert ours(*inputs).shape == peer(*inputs).shape == y.shape


def test_bench_measures_models_of_every_kind(command, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "BENCH_CASES", MODELS)
    out = tmp_path / "bench.json"
    code, _, err = command("bench", "--out", out, "--policies", "mixed", "--rounds", 1)
    assert code == 0, err
    rows = json.loads(out.read_text())["cases"]
    assert [row["case"] for row in rows] == ["sfno-tiny", "gino-tiny"]
    assert all(row["ratio"] > 0 and row["peer_activation_bytes"] > 0 for row in rows)
    assert {"sfno-256x512", "gino-32"} <= {case.name for case in BENCH_CASES}


def test_a_peer_that_cannot_be_compiled_is_not_and_the_run_says_so(monkeypatch):
    """Its compilation would not end; its eager modes remain, and ours is compiled all the same."""
    monkeypatch.setattr(torch, "compile", lambda *_, **__: pytest.fail("the peer was compiled"))
    said = []
    case = replace(TINY[0], peer_compiles=False)
    modes = near_the_best(case, build_batch(case), True, said.append)
    assert next(iter(modes)) == "eager"
    assert len(said) == 1
    assert "step-tiny: neuraloperator is not compiled" in said[0]


def test_bench_refuses_what_it_does_not_know(fails):
    fails(2, "unknown case 'step-7': expected one of step-tiny, conv-tiny", "bench", "--cases", "step-7")
    fails(2, "unknown precision 'quarter'", "bench", "--policies", "quarter")
    fails(2, "--rounds must be at least 1", "bench", "--rounds", 0)


def test_no_step_is_quicker_than_the_least_time_of_its_work():
    """A lower bound: counted without what is computed twice, at the best rates that this machine has."""
    case = BenchCase("step", "step", (64, 64), (32, 32), 32, 4, n_layers=2)
    batch = build_batch(case)
    own = our_contender(case, Policy.named("full"), batch, compiled=False)
    own.step()
    rates = measure_rates()
    work = count_work(own.step, own.model)
    least = work.least_seconds(rates, half=False)
    assert best_seconds(own.step, 3) > least > 0


def test_the_work_of_a_step_is_that_of_its_mathematics():
    """A convolution of 1 x 1 by hand: forward, both gradients; no recomputation, no slices."""
    layer = ChannelMLP(8, 0, 8)
    x = torch.randn(2, 8, 32, 32, requires_grad=True)
    work = count_work(lambda: layer(x).square().sum().backward(), layer)
    assert work.flops == 3 * 2 * 2 * 8 * 8 * 32 * 32
    assert work.parameter_bytes == 4 * (8 * 8 + 8)
    two = ChannelMLP(8, 4, 8)
    work = count_work(lambda: two(x).square().sum().backward(), two)
    assert work.flops == 3 * 2 * 2 * 2 * 8 * 4 * 32 * 32
    assert work.elements == {"gelu": 2 * 4 * 32 * 32, "gelu_backward": 2 * 4 * 32 * 32}
