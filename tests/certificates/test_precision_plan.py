"""Precision plans: rough and smooth data, range, bounds against measurements, and what is done with a plan."""

import json
from dataclasses import replace

import h5py
import numpy as np
import pytest
import torch

import halfwave as hw
from halfwave.certificates import plan_precision, precision
from halfwave.certificates.data_error import FLOOR, estimate_data_error
from halfwave.certificates.observing import run_as
from halfwave.certificates.stages import stages_of
from halfwave.data import Darcy, NavierStokes, Normalizer
from halfwave.data.generator import sample_rng
from halfwave.errors import InputError
from halfwave.models import set_precision
from halfwave.numerics import FORMATS, cpu_multiplies
from halfwave.precision import ROLES, Policy
from halfwave.training import Operator

pytestmark = pytest.mark.hardware

SPECTRAL = ("forward_transform", "contraction", "inverse_transform", "weights")


@pytest.fixture
def _no_native_half():
    """fp16 before bf16, whatever this CPU multiplies: for tests of what makes the second candidate the choice."""
    with cpu_multiplies():
        yield


def _normal(fields):
    x = torch.from_numpy(np.stack(fields)[:, None]).float()
    return (x - x.mean()) / x.std()


def rough(side, count=2):
    return _normal([Darcy(side).coefficient(0, "train", i) for i in range(count)])


def smooth(side, count=2):
    law = NavierStokes(side).field
    return _normal([law.sample(sample_rng(0, "train", i), side) for i in range(count)])


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return hw.FNO((8, 8), 1, 1, 8, n_layers=2)


@pytest.fixture(scope="module")
def rough_plan(model, hardware):
    return plan_precision(model, rough(32))


def test_rough_data_allow_half_and_smooth_data_do_not(model, rough_plan, hardware):
    """THEORY, section 6: jumps cost the grid more than fp16 at every size; a smooth forcing's grid is nearly exact."""
    assert rough_plan.met
    assert {choice.format for choice in rough_plan.choices} == {hardware.half}
    assert rough_plan.policy.layers == ()
    plan = plan_precision(model, smooth(64))
    assert plan.met
    assert plan.tolerance < FORMATS["fp16"].unit_roundoff < rough_plan.tolerance / 10
    assert all(choice.format == "fp32" for choice in plan.choices if choice.stage != "weights")
    assert {role: getattr(plan.policy, role) for role in ROLES} == dict.fromkeys(ROLES, "fp32")
    refused = plan.choices[0].refused
    assert [refusal.format for refusal in refused] == sorted(("fp16", "bf16"), key=hardware.half.__ne__)
    assert all(refusal.error > plan.tolerance for refusal in refused)


def test_the_error_of_the_grid_falls_as_the_theory_says():
    """First order or less for jumps; much faster for a forcing with eight derivatives in the mean square."""
    rough_errors, smooth_errors = (
        [float(estimate_data_error(law(m))) for m in (32, 64, 128)] for law in (rough, smooth)
    )
    assert rough_errors[2] > rough_errors[0] / 8
    assert smooth_errors[2] < smooth_errors[0] / 50
    t = torch.arange(64) / 64
    wave = torch.cos(2 * torch.pi * 2 * t) + 0.1 * torch.cos(2 * torch.pi * 30 * t)
    found = estimate_data_error(wave.view(1, 1, 64))
    # e_2 = 0.1 (30 folds onto 2 on 32 points), e_4 = 0 (already folded): no rate, so all of e_2 is charged.
    assert float(found) == pytest.approx(0.1, rel=1e-5)


def test_every_layer_and_stage_has_one_line(rough_plan, model, hardware):
    layers = ["lifting", *["blocks.0"] * 5, *["blocks.1"] * 5, "projection"]
    assert [choice.layer for choice in rough_plan.choices] == layers
    assert [c.stage for c in rough_plan.choices if c.layer == "blocks.1"] == [*SPECTRAL, "pointwise"]
    assert len(rough_plan.reasons) == len(rough_plan.choices)
    assert not any("\n" in reason for reason in rough_plan.reasons)
    assert rough_plan.reasons[1].startswith(f"blocks.0 forward_transform: {hardware.half}, bound error ")
    text = str(rough_plan)
    assert max(map(len, text.splitlines())) <= 80
    assert sum(line.startswith("blocks.1 ") for line in text.splitlines()) == 5
    values = json.loads(json.dumps(rough_plan.to_dict()))
    assert Policy.from_dict(values["policy"]) == rough_plan.policy
    assert values["choices"][0]["kind"] in ("bound", "measured")


@pytest.mark.usefixtures("hardware")
def test_no_measured_error_exceeds_its_bound(model):
    exact = run_as(model, Policy.uniform("fp64"))
    for stage in stages_of(exact, rough(16).double(), "auto"):
        for name in ("fp16", "bf16", "fp8_e5m2", "fp32"):
            bound = stage.bounded(FORMATS[name])
            measured = stage.measured(FORMATS[name])
            assert measured <= bound, (stage.layer, stage.role, name)
            # Weights are fp32 numbers, and lose nothing in it.
            assert (measured == 0) == (name == "fp32" and stage.role == "weights")


@pytest.mark.usefixtures("hardware")
def test_a_measured_error_is_what_the_layer_does(model):
    """The same figure from the public parts alone: the convolution in float64 but for one stage."""
    x = rough(16)
    plan = plan_precision(model, x, 1.5e-3, formats=["bf16"])
    seen = []
    exact = run_as(model, Policy.uniform("fp64"))
    exact.blocks[1].conv.register_forward_hook(lambda _, args, out: seen.extend((args[0], out)))
    with torch.no_grad():
        exact(x.double())
        conv = exact.blocks[1].conv
        conv.set_precision(Policy.uniform("fp64").with_(contraction="bf16"))
        error = conv(seen[0]).double() - seen[1]
    norms = [t.square().sum(1).mean((1, 2)).sqrt().max() for t in (error, seen[1])]
    [choice] = [c for c in plan.choices if (c.layer, c.stage) == ("blocks.1", "contraction")]
    assert choice.format == "fp32"
    assert choice.refused[0].error == pytest.approx(float(norms[0] / norms[1]))


@pytest.mark.usefixtures("hardware")
def test_all_choices_together_stay_within_the_tolerance(model):
    x = rough(16)
    for tolerance in (3e-2, 3e-3, 4e-4, 1e-4, 1e-5):
        plan = plan_precision(model, x, tolerance)
        assert plan.met
        assert plan.source == "given"
        assert all(choice.error <= choice.limit <= tolerance for choice in plan.choices)
        copy = run_as(model, plan.policy)
        exact = run_as(model, Policy.uniform("fp64"))
        with torch.no_grad():
            wanted = exact(x.double())
            error = copy(x) - wanted
        norms = [t.double().square().mean((1, 2, 3)).sqrt().max() for t in (error, wanted)]
        assert float(norms[0] / norms[1]) == pytest.approx(plan.error)
    hopeless = plan_precision(model, x, 1e-9)
    assert not hopeless.met
    assert {choice.format for choice in hopeless.choices} == {"fp32"}
    assert "above the tolerance" in " ".join(str(hopeless).split())


def test_a_stage_without_rounding_error_is_no_reason_to_go_on(hardware, monkeypatch):
    """Zero weights cost nothing in any format: what is left of the error is fp32's, and no limit mends it."""
    torch.manual_seed(0)
    model = hw.FNO((8, 8), 1, 1, 8, n_layers=2)
    with torch.no_grad():
        for block in model.blocks:
            block.conv.weight.weight.zero_()
    measure, runs = precision._together, []
    monkeypatch.setattr(precision, "_together", lambda *given: runs.append(1) or _few(runs) or measure(*given))
    plan = plan_precision(model, rough(16), 1e-9)
    assert not plan.met
    assert 0 < plan.error < 1e-5
    formats = {(choice.stage, choice.format, choice.error > 0) for choice in plan.choices}
    assert ("weights", hardware.half, False) in formats
    assert all(format == "fp32" for _, format, costs in formats if costs)


def _few(runs):
    """Every run changes a choice: there are 12 stages with 3 formats each, by bound or measured."""
    assert len(runs) <= 12 * 3 * 2, "plan_precision goes on for ever"


def test_separable_weights_are_planned():
    torch.manual_seed(0)
    plan = plan_precision(hw.FNO((8, 8), 1, 1, 8, n_layers=1, separable=True), rough(16), 0.02)
    assert plan.met
    assert {c.kind for c in plan.choices if c.stage in SPECTRAL} == {"measured"}


@pytest.mark.usefixtures("_no_native_half")
def test_overflow_takes_the_format_with_more_range(model):
    large = run_as(model, Policy.named("full"))
    with torch.no_grad():
        large.lifting.fcs[1].weight *= 3e5
    plan = plan_precision(large, rough(16), 0.1)
    formats = {(c.layer, c.stage): c for c in plan.choices}
    first = formats["blocks.0", "forward_transform"]
    assert first.format == "bf16"
    assert first.largest > 65504 / 4
    assert "fp16 ends at 6.6e+04" in first.refused[0].why
    assert first.refused[0].error is None
    # Weights are as small as before, and fp16 is more accurate.
    assert formats["blocks.0", "weights"].format == "fp16"
    assert plan.policy.forward_transform == "bf16"


@pytest.mark.usefixtures("_no_native_half")
def test_underflow_takes_the_format_with_more_range():
    torch.manual_seed(0)
    model = hw.FNO((8, 8), 1, 1, 8, n_layers=1, positional_embedding=None)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    plan = plan_precision(model, 1e-7 * rough(16), 0.1)
    [first] = [c for c in plan.choices if c.stage == "forward_transform"]
    assert first.format == "bf16"
    assert "underflow" in first.refused[0].why


@pytest.mark.usefixtures("_no_native_half")
def test_the_sum_of_an_unnormalised_fft_counts():
    torch.manual_seed(0)
    model = hw.FNO((8, 8), 1, 1, 8, n_layers=1, backend="fft")
    with torch.no_grad():
        model.lifting.fcs[1].weight *= 50
    formats = {}
    for backend in ("fft", "gemm"):
        model.blocks[0].conv.transform = replace(model.blocks[0].conv.transform, backend=backend)
        [first] = [c for c in plan_precision(model, rough(32), 0.05).choices if c.stage == "forward_transform"]
        formats[backend] = first.format
    assert formats == {"fft": "bf16", "gemm": "fp16"}


def test_a_stabilizer_is_part_of_the_function(hardware):
    torch.manual_seed(0)
    model = hw.FNO((8, 8), 1, 1, 8, n_layers=1, precision=Policy(stabilizer="tanh"))
    plan = plan_precision(model, rough(16), 1e-2)
    assert plan.met
    assert plan.policy.stabilizer == "tanh"
    assert {choice.format for choice in plan.choices} == {hardware.half}


def test_eight_bit_formats_differ_in_range(model):
    formats = ("fp8_e4m3", "fp8_e5m2", "fp16")
    weights = [c for c in plan_precision(model, rough(16), 0.5, formats=formats).choices if c.stage == "weights"]
    assert {c.format for c in weights} == {"fp8_e4m3"}
    large = run_as(model, Policy.named("full"))
    with torch.no_grad():
        large.lifting.fcs[1].weight *= 3e3
    plan = plan_precision(large, rough(16), 0.9, formats=formats)
    [first] = [c for c in plan.choices if (c.layer, c.stage) == ("blocks.0", "forward_transform")]
    assert first.format == "fp8_e5m2"
    assert first.refused[0].format == "fp8_e4m3"
    assert "ends at 4.5e+02" in first.refused[0].why


def test_a_format_that_the_device_multiplies_comes_first(model, hardware):
    plan = plan_precision(model, rough(16), 0.1)
    assert {choice.format for choice in plan.choices} == {hardware.half}
    assert plan.loss_scaling == (hardware.half == "fp16")


@pytest.mark.usefixtures("hardware")
def test_a_plan_is_applied_saved_and_loaded_layer_by_layer(model, tmp_path):
    x = rough(16)
    plan = plan_precision(model, x, 4e-4)
    assert plan.policy.layers, "this tolerance lies between the errors of the stages"
    copy = run_as(model, Policy.named("full"))
    plan.apply(copy)
    for choice in plan.choices:
        layer = copy.get_submodule(choice.layer)
        holder = layer.conv if choice.stage in SPECTRAL else layer
        assert getattr(holder.policy, choice.stage) == choice.format
    hw.save(copy, tmp_path / "m.safetensors")
    loaded = hw.load(tmp_path / "m.safetensors")
    assert loaded.policy == plan.policy
    assert torch.equal(loaded(x), copy(x))
    full = run_as(model, Policy.named("full"))
    assert not torch.equal(full(x), copy(x))
    wrapped = Operator(full, None, None)
    hw.set_precision(wrapped, plan.policy)
    assert torch.equal(wrapped(x), copy(x))
    assert hw.certify(model, x, plan.policy).precision_error == pytest.approx(
        plan.error * hw.certify(model, x, plan.policy).output_norm
    )
    with pytest.raises(ValueError, match=r"FNO has no layer 'blocks.1', for which the policy has formats"):
        set_precision(hw.FNO((4, 4), 1, 1, 4, n_layers=1), Policy(layers={"blocks.1": Policy()}))


def test_data_from_a_file_and_through_normalizers(model, tmp_path):
    x = 5 + 2 * rough(16)
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file.attrs["metadata"] = "{}"
        for split in ("train", "test"):
            file[f"{split}/x"], file[f"{split}/y"] = x.numpy(), x.numpy()
    state = {"mean": [5.0], "std": [2.0]}
    operator = Operator(model, Normalizer(torch.tensor(state["mean"]), torch.tensor(state["std"])), None)
    plan = plan_precision(operator, tmp_path / "d.h5")
    inner = plan_precision(model, (x - 5) / 2)
    assert plan.tolerance == pytest.approx(inner.tolerance, rel=1e-3)
    assert plan.policy == inner.policy


def test_sphere_and_unet_are_measured(hardware):
    torch.manual_seed(0)
    x = torch.randn(2, 1, 16, 32)
    plan = plan_precision(hw.SFNO((8, 16), 1, 1, 6, n_layers=1), x, 0.02)
    assert plan.met
    assert {c.kind for c in plan.choices if c.stage in SPECTRAL} == {"measured"}
    unet = hw.UNet(1, 1, hidden_channels=4, n_levels=2)
    plan = plan_precision(unet, rough(16), 0.02)
    assert plan.met
    assert {c.stage for c in plan.choices} == {"pointwise"}
    assert plan.policy.pointwise == hardware.half
    plan.apply(unet)
    with pytest.raises(InputError, match="on the sphere is not estimated: give a tolerance"):
        plan_precision(hw.SFNO((8, 16), 1, 1, 6, n_layers=1), x)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_constant_data_keep_fp32(model, value):
    plan = plan_precision(model, torch.full((2, 1, 16, 16), value))
    assert plan.tolerance == FLOOR
    assert {choice.format for choice in plan.choices} == {"fp32"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tolerance": 0.0}, "tolerance must be a positive number, got 0.0"),
        ({"tolerance": -1e-3}, "tolerance must be a positive number"),
        ({"tolerance": float("nan")}, "tolerance must be a positive number, got nan"),
        ({"data": torch.zeros(2, 3, 16, 16)}, "data have 3 channels and the model takes 1"),
        ({"data": torch.full((2, 1, 16, 16), torch.nan)}, "data hold inf or nan"),
        ({"data": torch.zeros(0, 1, 16, 16)}, "expected fields"),
        ({"data": torch.zeros(2, 1, 16)}, "the model cannot be applied to the data"),
        ({"data": torch.zeros(2, 1, 18, 18)}, "on 18 x 18 cannot be estimated: give a tolerance"),
        ({"data": torch.zeros(2, 1, 8, 8)}, "on 8 x 8 cannot be estimated"),
        ({"data": "nowhere.h5"}, "nowhere.h5"),
        ({"formats": ["fp64"]}, "formats has fp64"),
        ({"formats": "fp16"}, "formats must be a list"),
        ({"samples": 0}, "samples must be at least 1"),
        ({"model": torch.nn.Linear(2, 2)}, "Linear has no layers to plan"),
        ({"model": hw.GINO(1, 1, fno_n_modes=(4, 4, 4), fno_hidden_channels=4, fno_n_layers=1)}, "GINO takes point"),
    ],
)
def test_bad_input_is_refused_in_one_line(model, change, message):
    with pytest.raises(InputError, match=message) as caught:
        plan_precision(**{"model": model, "data": torch.zeros(2, 1, 16, 16), **change})
    assert "\n" not in str(caught.value)
