"""Planned memory against the live bytes counted in real steps on this CPU."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import torch
from torch import nn

import halfwave as hw
from halfwave.errors import InputError
from halfwave.measure.step import measure
from halfwave.models.recompute import recompute_blocks
from halfwave.planner import plan_memory
from halfwave.precision import NAMES
from halfwave.spectral import SpectralConv
from halfwave.training.losses import RelativeL2

GRID_INPUT = (3, 1, 40, 40)
LATENT = torch.stack(torch.meshgrid(*[torch.linspace(0, 1, 8)] * 3, indexing="ij"), -1)


def _points(count: int, seed: int) -> torch.Tensor:
    return torch.rand(count, 3, generator=torch.Generator().manual_seed(seed))


def _gino_inputs() -> dict[str, torch.Tensor]:
    points = _points(120, 0)[None]
    return {
        "input_geom": points,
        "latent_queries": LATENT[None],
        "output_queries": points,
        "x": torch.randn(1, 120, 1),
        "latent_features": torch.randn(1, 8, 8, 8, 1),
    }


def _gino() -> hw.GINO:
    return hw.GINO(
        1, 1, latent_feature_channels=1, fno_n_modes=(4, 4, 4), fno_hidden_channels=12, fno_n_layers=2,
        in_gno_radius=0.2, out_gno_radius=0.2, gno_embed_channels=8,
    )  # fmt: skip


CASES: dict[str, tuple[Any, Any]] = {
    "FNO": (lambda: hw.FNO((12, 12), 1, 1, 12, n_layers=2), GRID_INPUT),
    "FNO fft": (lambda: hw.FNO((12, 12), 1, 1, 12, n_layers=1, backend="fft"), GRID_INPUT),
    "TFNO dense": (lambda: hw.TFNO((12, 12), 1, 1, 12, n_layers=1, factorization=None), GRID_INPUT),
    "TFNO CP": (lambda: hw.TFNO((12, 12), 1, 1, 12, n_layers=2, factorization="cp"), GRID_INPUT),
    "SFNO": (lambda: hw.SFNO((16, 16), 3, 3, 12, n_layers=2), (2, 3, 24, 48)),
    "UNet": (lambda: hw.UNet(1, 1, 8, 2), GRID_INPUT),
    "GINO": (_gino, _gino_inputs()),
}


def _real_peak(model: nn.Module, inputs: Any, policy: hw.Policy, optimizer: Any = None) -> int:
    """The counter's peak of the second of two real steps on a copy."""
    model = copy.deepcopy(model)
    hw.set_precision(model, policy)
    call = inputs if isinstance(inputs, dict) else {"x": torch.randn(inputs)}
    with torch.no_grad():
        y = torch.randn(model(**call).shape)
    optimizer = optimizer(model) if optimizer else torch.optim.AdamW(model.parameters(), fused=True)
    loss = RelativeL2()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss(model(**call), y).backward()
        optimizer.step()

    step()
    return measure(step, model, optimizer, [*call.values(), y]).peak_memory_bytes


@pytest.mark.hardware
@pytest.mark.parametrize("policy", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_planned_peak_is_the_counted_one(case: str, policy: str) -> None:
    build, inputs = CASES[case]
    model = build()
    plan = plan_memory(model, inputs, policy=policy, device="cpu")
    assert plan.peak_bytes == pytest.approx(_real_peak(model, inputs, hw.Policy.named(policy)), rel=0.01)


@pytest.mark.hardware
@pytest.mark.parametrize("dtype", ["fp16", "fp8_e4m3"])
def test_other_formats(dtype: str) -> None:
    model = hw.FNO((12, 12), 1, 1, 12, n_layers=2)
    policy = hw.Policy.named("mixed", dtype)
    plan = plan_memory(model, GRID_INPUT, policy=policy, device="cpu")
    assert plan.peak_bytes == pytest.approx(_real_peak(model, GRID_INPUT, policy), rel=0.01)


@pytest.mark.parametrize("objective", ["memory", "flops"])
@pytest.mark.parametrize("factorization", ["cp", "tucker", "tt"])
def test_every_contraction_objective(factorization: str, objective: Any) -> None:
    model = SpectralConv(12, 12, (12, 12), factorization=factorization, rank=0.3, contraction=objective)
    policy = hw.Policy.named("mixed")
    inputs = (3, 12, 32, 32)
    plan = plan_memory(model, inputs, policy=policy, device="cpu")
    assert plan.peak_bytes == pytest.approx(_real_peak(model, inputs, policy), rel=0.01)


@pytest.mark.parametrize("case", ["FNO", "UNet", "GINO"])
def test_recomputation(case: str) -> None:
    build, inputs = CASES[case]
    model = build()
    plan = plan_memory(model, inputs, policy="mixed", recompute=True, device="cpu")
    recomputing = copy.deepcopy(model)
    recompute_blocks(recomputing)
    assert plan.peak_bytes == pytest.approx(_real_peak(recomputing, inputs, hw.Policy.named("mixed")), rel=0.01)


def test_recomputation_saves_memory_in_a_deep_model() -> None:
    model = hw.FNO((12, 12), 1, 1, 12, n_layers=6)
    plain, recomputed = (
        plan_memory(model, (16, 1, 40, 40), policy="full", recompute=flag, device="cuda") for flag in (False, True)
    )
    assert recomputed.activations < 0.8 * plain.activations


def test_a_batch_of_different_geometries() -> None:
    points, offsets = hw.models.pack_points([_points(90, 1), _points(130, 2)])
    inputs = {
        "input_geom": points,
        "latent_queries": LATENT,
        "output_queries": points,
        "x": torch.randn(220, 1),
        "latent_features": torch.randn(2, 8, 8, 8, 1),
        "input_offsets": offsets,
        "output_offsets": offsets,
    }
    model = _gino()
    plan = plan_memory(model, inputs, policy="mixed", device="cpu")
    assert plan.peak_bytes == pytest.approx(_real_peak(model, inputs, hw.Policy.named("mixed")), rel=0.01)


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("adam", lambda m: torch.optim.Adam(m.parameters(), fused=True)),
        ("momentum", lambda m: torch.optim.SGD(m.parameters(), momentum=0.9, fused=True)),
        ("sgd", lambda m: torch.optim.SGD(m.parameters(), fused=True)),
        ("adamw_pair", lambda m: hw.AdamW(m)),
        ("adamw_pair_bf16", lambda m: hw.AdamW(m, state="bf16")),
        ("adamw_pair_8bit", lambda m: hw.AdamW(m, state="8bit")),
    ],
)
def test_optimizers(name: str, build: Any) -> None:
    model = hw.FNO((12, 12), 1, 1, 12, n_layers=2)
    plan = plan_memory(model, GRID_INPUT, policy="full", optimizer=name, device="cpu")
    assert plan.peak_bytes == pytest.approx(_real_peak(model, GRID_INPUT, hw.Policy(), build), rel=0.01)


def test_the_model_is_not_changed() -> None:
    model = hw.FNO((12, 12), 1, 1, 12, n_layers=2, precision="full")
    before = {name: (id(t), t.clone(), t.device) for name, t in model.named_parameters()}
    policy, forward = model.policy, model.blocks[0].forward.__func__
    plan_memory(model, GRID_INPUT, policy="mixed", recompute=True)
    for name, parameter in model.named_parameters():
        identity, values, device = before[name]
        assert id(parameter) == identity
        assert torch.equal(parameter, values)
        assert parameter.device == device
        assert parameter.grad is None
    assert model.policy == policy
    assert model.blocks[0].forward.__func__ is forward
    assert not any(module._forward_hooks for module in model.modules())


def test_forms_of_inputs_agree() -> None:
    model = hw.FNO((12, 12), 1, 1, 12, n_layers=2)
    x, y = torch.randn(GRID_INPUT), torch.randn(GRID_INPUT)
    forms = [GRID_INPUT, x, [GRID_INPUT], (x, y), {"x": GRID_INPUT, "y": y}]
    assert len({plan_memory(model, form, policy="mixed").peak_bytes for form in forms}) == 1


def test_a_plan_explains_its_peak() -> None:
    model = hw.FNO((12, 12), 1, 1, 12, n_layers=2)
    plan = plan_memory(model, GRID_INPUT, policy="full", device="cpu")
    assert sum(tensor.bytes for tensor in plan.at_peak) == plan.peak_bytes
    assert max(moment.peak_bytes for moment in plan.timeline) == plan.peak_bytes
    assert {moment.phase for moment in plan.timeline} == {"forward", "backward", "update"}
    modules = {(moment.phase, moment.module) for moment in plan.timeline}
    assert {(phase, "blocks.1.conv") for phase in ("forward", "backward")} <= modules
    parameters = sum(t.bytes for t in plan.at_peak if t.kind == "parameter")
    assert parameters == plan.parameters == 4 * sum(p.numel() for p in model.parameters())
    assert plan.optimizer_state == 2 * plan.parameters + 4 * len(list(model.parameters()))
    assert plan.gradients == plan.parameters
    assert "blocks.1.conv" in str(plan)
    assert all(len(line) <= 80 for line in str(plan).splitlines())
    assert json.loads(json.dumps(plan.to_dict()))["peak_bytes"] == plan.peak_bytes


def test_an_accelerator_multiplies_half_formats_itself() -> None:
    model = hw.FNO((12, 12), 1, 1, 12, n_layers=2)
    plan = plan_memory(model, GRID_INPUT, policy="mixed", device="cuda")
    assert "contraction fp16" in plan.policy
    wide = [t for t in plan.at_peak if t.kind == "constant" and t.dtype == "float32"]
    assert not [t for t in wide if len(t.shape) == 2], "transform matrices of native arithmetic are in half"
    assert plan.workspace > 0
    assert plan.needed_bytes > plan.peak_bytes + plan.workspace


def test_a_model_on_meta_needs_no_memory() -> None:
    with torch.device("meta"):
        model = hw.FNO((64, 64), 1, 1, 256, n_layers=4)
    plan = plan_memory(model, (64, 1, 512, 512), policy="mixed", device="cuda")
    assert plan.peak_bytes > 40 << 30


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        ((0, 1, 40, 40), {}, "at least one"),
        (8, {}, "expected a tensor, a shape"),
        ({"z": GRID_INPUT}, {}, "no input 'z'"),
        ([GRID_INPUT] * 3, {}, "1 inputs and a target"),
        (GRID_INPUT, {"optimizer": "lion"}, "unknown optimizer 'lion'"),
        (GRID_INPUT, {"device": "tpu"}, "device 'tpu'"),
        (GRID_INPUT, {"policy": "quarter"}, "unknown precision 'quarter'"),
    ],
)
def test_bad_input(inputs: Any, options: dict[str, Any], message: str) -> None:
    model = hw.FNO((12, 12), 1, 1, 12, n_layers=2)
    with pytest.raises(InputError, match=message):
        plan_memory(model, inputs, **{"policy": "full", **options})


def test_a_gino_without_coordinates_is_refused() -> None:
    shapes = {"input_geom": (1, 120, 3), "latent_queries": (1, 8, 8, 8, 3), "output_queries": (1, 120, 3)}
    with pytest.raises(InputError, match="coordinates themselves"):
        plan_memory(_gino(), shapes, policy="full")
