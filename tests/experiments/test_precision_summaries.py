"""Verdicts on stability, contractions, formats and the peer follow the numbers: they confirm, and they can refuse."""

import pytest
import torch

from halfwave.experiments import (
    contraction,
    gemm_stability,
    global_stabilizers,
    half_weights,
    number_systems,
    path_caching,
    peer,
    preactivation,
    preactivation_scaling,
    preactivation_spectrum,
    profile,
    tanh_ablation,
    tf32,
    theory_bounds,
)
from halfwave.experiments.cp_contraction import Block, CPContraction
from halfwave.experiments.experiment import SCALES, scalars
from halfwave.experiments.overflow import raw_darcy
from halfwave.experiments.registry import get_experiment
from halfwave.measure import PROFILE_PARTS
from halfwave.models import build_model

GROUP = (
    "theory-bounds", "profile", "global-stabilizers", "preactivation", "preactivation-scaling",
    "preactivation-spectrum", "tanh-ablation", "number-systems", "tf32", "contraction", "path-caching", "half-weights",
    "gemm-stability", "peer",
)  # fmt: skip


@pytest.mark.parametrize("name", GROUP)
@pytest.mark.parametrize("scale", SCALES)
def test_configurations_train_what_their_keys_say(name, scale):
    """With the seed of the key, the formats of the precision, and a model that its arguments build."""
    experiment, built = get_experiment(name), set()
    assert experiment.keyed(scale)
    for configuration in experiment.keyed(scale).values():
        for training in experiment.trainings(configuration):
            config = training.config("")
            assert config.seed == scalars(configuration).get("seed", 0)
            policy = config.build_schedule().policy_at(1.0)
            half, amp = (config.precision in names for names in (("half", "mixed"), ("amp", "mixed")))
            assert policy.contraction == (config.dtype if half else "fp32")
            assert policy.pointwise == (config.dtype if amp else "fp32")
            if (arguments := repr(config.model_arguments(1, 1))) not in built:
                built.add(arguments)
                with torch.device("meta"):
                    assert any(True for _ in build_model(config.model, config.model_arguments(1, 1)).parameters())


def _stabilizer_rows(diverging, grids=((96, False), (160, True))):
    named = "the loss is not finite: first in blocks.0.conv, stage forward_transform, format fp16"

    def rows(resolution, backend, method, bad):
        step = {"resolution": resolution, "backend": backend, "method": method, "loss_scale": 1024.0}
        return [
            {**step, "update": n, "loss": None if bad else 1.0 / n, "applied": not bad, "stopped": named if bad else ""}
            for n in (1, 2)
        ]

    found = [
        row
        for backend in ("fft", "gemm")
        for method in global_stabilizers.METHODS
        for row in rows(160, backend, method, backend == "fft" and method in diverging)
    ]
    return found + [row for n, bad in grids if n != 160 for row in rows(n, "fft", "none", bad)]


def test_global_methods_must_all_fail_and_tanh_must_not():
    failing = {"none", "loss scaling", "clipping", "delayed updates"}
    verdict = global_stabilizers.summarise(_stabilizer_rows(failing)).verdict
    assert verdict.status == "confirmed"
    assert "160 points a side is the smallest that does, 96 does not" in verdict.sentence
    assert global_stabilizers.summarise(_stabilizer_rows(failing - {"clipping"})).verdict.status == "not confirmed"
    with_tanh = global_stabilizers.summarise(_stabilizer_rows(failing | {"tanh"})).verdict
    assert "tanh diverges" in with_tanh.sentence.split("(what held")[0]


def test_a_finite_loss_with_skipped_updates_is_no_divergence():
    rows = _stabilizer_rows({"none", "loss scaling", "clipping", "delayed updates"})
    for row in rows:
        if row["backend"] == "gemm" and row["method"] == "loss scaling":
            row["applied"] = False
    assert global_stabilizers.summarise(rows).verdict.status == "confirmed"


def _preactivation_rows(losses):
    return [
        {"fourier": fourier, "amp": amp, "preactivation": name, "train_loss": losses.get((fourier, name)),
         "test_l2": losses.get((fourier, name)), "seconds_per_epoch": 1.0,
         "stopped": "" if (fourier, name) in losses else "not finite"}
        for fourier, amp, name in preactivation.PAPER
    ]  # fmt: skip


def test_preactivation_needs_a_naive_failure_and_stable_clips():
    good = {("full", "none"): 0.5, ("half", "tanh"): 0.52, ("half", "hard-clip"): 0.5, ("half", "2-sigma-clip"): 0.5}
    summary = preactivation.summarise(_preactivation_rows(good))
    assert summary.verdict.status == "confirmed"
    assert "4.0% above" in summary.verdict.sentence
    assert preactivation.summarise(_preactivation_rows({**good, ("half", "none"): 0.5})).verdict.status != "confirmed"
    without_tanh = {key: loss for key, loss in good.items() if key[1] != "tanh"}
    assert "tanh diverge" in preactivation.summarise(_preactivation_rows(without_tanh)).verdict.sentence


def _scaling_rows(losses, normalise_from):
    return [
        {"stabilizer": name, "train_loss": losses.get(name), "test_l2": losses.get(name), "seconds_per_epoch": 1.0,
         "stopped": "" if name in losses else "not finite",
         "overflows_from": {"none": 256, "normalise": normalise_from}.get(name)}
        for name in preactivation_scaling.STABILIZERS
    ]  # fmt: skip


def test_division_must_cost_accuracy_and_normalisation_must_overflow():
    losses = {"tanh": 0.4, "divide-10": 0.45, "divide-100": 0.5, "divide-1000": 0.6, "divide-10000": 0.8}
    losses["normalise"] = 0.4
    assert preactivation_scaling.summarise(_scaling_rows(losses, 512)).verdict.status == "confirmed"
    never = preactivation_scaling.summarise(_scaling_rows(losses, None)).verdict
    assert "normalisation never overflows" in never.sentence
    assert never.status == "not confirmed"
    better = preactivation_scaling.summarise(_scaling_rows({**losses, "divide-10000": 0.3}, 512)).verdict
    assert better.status == "not confirmed"


def test_gemm_stability_refuses_an_overflowing_product():
    def rows(gemm_fails):
        return [
            {"resolution": n, "backend": b, "trains": True, "largest_coefficient": 2.0, "largest_sum": 2.0 * n * n,
             "transform_error": None if bad else 1e-4, "stopped": "not finite" if bad else "", "train_loss": 1.0}
            for n in (64, 256)
            for b in ("fft", "gemm")
            for bad in [n == 256 and (b == "fft" or gemm_fails)]
        ]  # fmt: skip

    assert gemm_stability.summarise(rows(False)).verdict.status == "confirmed"
    assert "overflow on [256]" in gemm_stability.summarise(rows(True)).verdict.sentence


def test_contraction_options():
    def rows(seconds, nbytes):
        return [
            {"option": o, "forward_seconds": s, "counted_peak_bytes": m, "flops": 1e9, "paper_size_flops": 1e12,
             "paper_size_peak_bytes": m}
            for o, s, m in zip("ABC", seconds, nbytes, strict=True)
        ]  # fmt: skip

    assert contraction.summarise(rows((9, 1, 1), (100, 50, 50))).verdict.status == "confirmed"
    assert contraction.summarise(rows((9, 1, 4), (100, 50, 50))).verdict.status == "not confirmed"
    assert contraction.summarise(rows((9, 1, 1), (40, 50, 50))).verdict.status == "not confirmed"


def test_paths_are_worth_a_cache_only_if_planning_takes_time():
    def rows(planning):
        times = {"planning_seconds": planning, "cached_seconds": 1e-6, "contraction_seconds": 1e-3}
        return [{"problem": name, **times} for name in path_caching.PAPER]

    assert path_caching.summarise(rows(7e-4)).verdict.status == "confirmed"
    assert path_caching.summarise(rows(1e-5)).verdict.status == "not confirmed"


def test_all_options_of_the_contraction_agree():
    from halfwave.spectral import execute

    contracted = CPContraction(Block(modes=6, channels=4, batch=2, rank=0.05))
    results = [execute(contracted.plan(o), contracted.operands, contracted.arith).double() for o in contraction.OPTIONS]
    for result in results[1:]:
        assert (result - results[0]).norm() < 5e-3 * results[0].norm()


def test_half_weights():
    def rows(only):
        return [
            {"problem": name, "weights": w, "half": half, "peak_memory_bytes": nbytes, "activation_bytes": nbytes}
            for name in half_weights.WEIGHTS_MB
            for w in half_weights.WEIGHTS
            for half, nbytes in zip(half_weights.POLICIES, (100, only), strict=True)
        ]

    assert "50.0% less" in half_weights.summarise(rows(200)).verdict.sentence
    assert half_weights.summarise(rows(90)).verdict.status == "not confirmed"


def test_tanh_in_full_precision():
    def rows(with_tanh):
        return [
            {"stabilizer": name, "seed": s, "test_h1": e * (1 + s / 1000), "test_l2": e * (1 + s / 1000),
             "seconds_per_epoch": 1.0}
            for name, e in (("none", 0.1), ("tanh", with_tanh))
            for s in range(3)
        ]  # fmt: skip

    assert tanh_ablation.summarise(rows(0.101)).verdict.status == "confirmed"
    assert tanh_ablation.summarise(rows(0.11)).verdict.status == "not confirmed"


def test_number_systems():
    def rows(bf16, fp8):
        errors = {"full, fp32": 0.1, "mixed, fp16": 0.1, "AMP, bf16": bf16, "mixed, bf16": bf16,
                  "mixed, fp8 e4m3": fp8, "mixed, fp8 e5m2": fp8}  # fmt: skip
        return [
            {"problem": "darcy", "method": method, "seed": 0, "epoch": 1, "train_loss": error, "test_l2": error,
             "unit_roundoff": 0.1, "stopped": "" if error else "not finite"}
            for method, error in errors.items()
        ]  # fmt: skip

    assert number_systems.summarise(rows(0.12, None)).verdict.status == "confirmed"
    assert "diverges" in number_systems.summarise(rows(0.12, None)).verdict.sentence
    assert number_systems.summarise(rows(0.1, 0.2)).verdict.status == "not confirmed"
    assert number_systems.summarise(rows(0.12, 0.1)).verdict.status == "not confirmed"


def test_tf32_is_not_judged_without_the_hardware():
    def rows(seconds):
        return [
            {"problem": name, "method": method, "measured_seconds": s, "planned_seconds": 1.0, "emulated_error": 1e-3}
            for name in tf32.PROBLEMS
            for method, s in zip(tf32.METHODS, seconds, strict=True)
        ]

    planned = tf32.summarise(rows((None, None)))
    assert planned.verdict.status == "not measured"
    assert "has no tf32" in planned.verdict.sentence
    assert tf32.summarise(rows((57.0, 53.0))).verdict.status == "confirmed"
    assert tf32.summarise(rows((53.0, 57.0))).verdict.status == "not confirmed"


def test_theory_bounds():
    def rows(precision, above=0):
        errors = {"discretization": 0.01, "precision": precision, "discretization_bound": 0.1, "precision_bound": 1e-3}
        bounds = {"paper_discretization": 1.0, "paper_discretization_lower": 0.1, "paper_precision": 0.1,
                  "paper_precision_lower": 1e-5}  # fmt: skip
        return [
            {"dimension": d, "points": 16, "kind": kind, **errors, **bounds, "fields": 1, "above_bound": above,
             "precision_below": 1}
            for d in theory_bounds.DIMENSIONS
            for kind in theory_bounds.KINDS
        ]  # fmt: skip

    assert theory_bounds.summarise(rows(1e-4)).verdict.status == "confirmed"
    assert theory_bounds.summarise(rows(0.02)).verdict.status == "not confirmed"
    assert theory_bounds.summarise(rows(1e-4, above=1)).verdict.status == "not confirmed"


def test_profile_needs_a_majority():
    def rows(share):
        shares = dict.fromkeys(PROFILE_PARTS, (1 - share) / (len(PROFILE_PARTS) - 1)) | {"transforms": share}
        return [
            {"method": method, "kind": kind, "name": name, "share": value, "seconds": value}
            for method in profile.METHODS
            for kind, name, value in (
                ("total", "spectral convolutions", share),
                *(("part", name, value) for name, value in shares.items()),
                ("kernel", "aten::bmm", 0.5),
            )
        ]

    assert profile.summarise(rows(0.7)).verdict.status == "confirmed"
    assert profile.summarise(rows(0.3)).verdict.status == "not confirmed"


def test_spectrum_of_stabilizers():
    def rows(changed, phase):
        return [
            {"model": model, "block": 0, "stabilizer": name, "band": band, "amplitude": 1.0, "amplitude_change": 0.1,
             "phase_change": phase, "changed_share": changed if band < 0 else None}
            for model in ("full", "mixed")
            for name in preactivation_spectrum.STABILIZERS
            for band in (-1, 0, 1)
        ]  # fmt: skip

    assert preactivation_spectrum.summarise(rows(0.01, 0.02)).verdict.status == "confirmed"
    assert preactivation_spectrum.summarise(rows(0.5, 0.02)).verdict.status == "not confirmed"
    assert preactivation_spectrum.summarise(rows(0.01, 0.5)).verdict.status == "not confirmed"


def test_spectral_changes_are_those_of_a_known_signal():
    n = torch.arange(16, dtype=torch.float64) / 16
    field = (torch.cos(2 * torch.pi * 3 * n)[None, :] * torch.ones(16, 1)).view(1, 1, 16, 16)
    half = {row["band"]: row for row in preactivation_spectrum.spectral_changes(field, 0.5 * field)}
    assert half[3]["amplitude_change"] == pytest.approx(0.5)
    assert half[-1]["phase_change"] == pytest.approx(0, abs=1e-12)
    turned = preactivation_spectrum.spectral_changes(field, field.roll(1, dims=-1))
    assert {row["band"]: row for row in turned}[3]["phase_change"] == pytest.approx(2 * torch.pi * 3 / 16)


def test_peer_compares_or_says_why_not():
    def rows(error, activations, seconds):
        theirs = {"test_l2": 0.1, "test_h1": 0.2, "peak_memory_bytes": 200, "activation_bytes": 100,
                  "seconds_per_epoch": 2.0}  # fmt: skip
        ours = {**theirs, "test_l2": error, "activation_bytes": activations, "seconds_per_epoch": seconds}
        found = {peer.PEER: theirs, "full": ours, "mixed": ours}
        return [{"problem": "darcy", "method": method, **row} for method, row in found.items()]

    assert peer.summarise(rows(0.1, 50, 1.0)).verdict.status == "confirmed"
    assert peer.summarise(rows(0.11, 50, 1.0)).verdict.status == "not confirmed"
    assert peer.summarise(rows(0.1, 120, 1.0)).verdict.status == "not confirmed"
    assert peer.summarise(rows(0.1, 50, 3.0)).verdict.status == "not confirmed"
    absent = [{"problem": "darcy", "method": peer.PEER, **dict.fromkeys(m.name for m in peer.MEASURES[1:])}]
    assert "not installed" in peer.summarise(absent).verdict.sentence


def test_raw_darcy_is_not_normalised_and_its_samples_have_no_other_data(tmp_path):
    recipe = raw_darcy("smoke", 160)
    assert recipe.training["normalise"] is False
    assert recipe.parameters["resolution"] == 160
    assert raw_darcy("paper", 256).n_train == 5000
