"""Rows that nobody measured: for each experiment some on which its claim holds, and some that it must refuse."""

from halfwave.experiments import (
    apebench,
    block_precision,
    cost_of_half,
    factorization,
    frequency_modes,
    global_stabilizers,
    gradient_underflow,
    half_weights,
    number_systems,
    overview,
    path_caching,
    preactivation,
    preactivation_scaling,
    preactivation_spectrum,
    precision_schedule,
    precision_swap,
    profile,
    super_resolution,
    tf32,
    theory_bounds,
    throughput,
    train_in_half,
    unet,
)
from halfwave.experiments.error_curves import METHODS as CURVES
from halfwave.measure import PEER, PROFILE_PARTS
from halfwave.recipes import LINE, PROBLEMS

SEEDS = range(4)


def assessed(error, seed=0, rounding=None, mean=1.0, linear=0.5):
    """What `Lab.assess` gives: an error that passes the gate, with what seeds share."""
    own = error * (1 + 0.03 * seed)
    errors = {"l2": own, "h1": 2 * own, "l2_full": own, "h1_full": 2 * own}
    return {**errors, "rounding": own / 2 if rounding is None else rounding, "mean_l2": mean, "linear_l2": linear}


def near(factor, seed):
    """A ratio to full precision that differs a little from seed to seed."""
    return factor * (1 + 2e-4 * (-1) ** seed)


def memory_of(share):
    return {"peak_memory_bytes": 1e9 * share, "activation_bytes": 1e8 * share}


def overview_rows(change=1.001, share=0.45, **options):
    return [
        {"problem": name, "seed": seed, "method": method, "samples_per_second": 10.0,
         **assessed(0.005 * (1 if method == "full" else near(change, seed)), seed, **options),
         **memory_of(1 if method == "full" else share)}
        for name in (*PROBLEMS, LINE)
        for seed in SEEDS
        for method in overview.TRAINED
    ]  # fmt: skip


def memory_rows(shares=None, measured=0.5):
    usual = {"full": 1.0, "amp": 0.95, "half": 0.61, "mixed": 0.495}
    darcy = {"full": 1.0, "amp": 0.97, "half": 0.85, "mixed": 0.74}
    return [
        {"problem": name, "method": method, "planned_bytes": 1e9 * share,
         **memory_of(measured if method == "mixed" else 1.0)}
        for name in PROBLEMS
        for method, share in (shares or (darcy if name == "darcy" else usual)).items()
    ]  # fmt: skip


def race_rows(speed, arithmetic="native"):
    return [
        {"problem": name, "dtype": dtype, "method": method, "arithmetic": arithmetic, "peak_memory_bytes": 1e6,
         "samples_per_second": speed if method == "mixed" else 10.0}
        for name in throughput.PAPER
        for dtype in throughput.FORMATS
        for method in throughput.METHODS
    ]  # fmt: skip


def curve_rows(problems, change):
    return [
        {"problem": name, "method": method, "seed": seed, "epoch": epoch, "last": epoch == 2, "peak_memory_bytes": 100,
         **assessed(error * (1 if method == "full" else near(change, seed)), seed)}
        for name in problems
        for method in CURVES
        for seed in SEEDS
        for epoch, error in ((1, 0.1), (2, 0.005))
    ]  # fmt: skip


def resolution_rows(factors, growth=1.0):
    return [
        {"method": method, "seed": seed, "resolution": grid, "rounding": 0.01, "mean_l2": 1.0, "linear_l2": 0.5,
         "l2": error, "h1": 3 * error}
        for method in super_resolution.METHODS
        for seed in SEEDS
        for place, grid in enumerate((32, 64, 128, 256))
        for error in [0.05 * (1 + 0.03 * seed) * near(growth**place * factors.get(method, 1.0), seed)]
    ]  # fmt: skip


def schedule_rows(factors):
    seconds = {"mixed_seconds": 1.0, "amp_seconds": None, "full_seconds": 2.0}
    return [
        {"method": method, "budget": budget, "seed": seed, "epochs": 10, **seconds, **assessed(error, seed), **h1}
        for method, budget in precision_schedule.TRIALS
        for seed in SEEDS
        for l2, h1_factor in [factors.get((method, budget), factors.get(budget, (1.0, 1.0)))]
        for error in [0.05 * near(l2, seed)]
        for h1 in [{"h1": 0.1 * (1 + 0.03 * seed) * near(h1_factor, seed)}]
    ]


def unet_rows(fno=0.01, saved=0.5):
    return [
        {"problem": name, "model": model, "method": method, "seed": seed,
         **assessed(near(fno if model == "FNO" else 0.2, seed), seed), **memory_of(share), "planned_bytes": 1e9 * share}
        for name in unet.UNET_PROBLEMS
        for model, methods in unet.METHODS.items()
        for method in methods
        for seed in SEEDS
        for share in [1 if method == "full" else 1 - saved if model == "FNO" else 0.75]
    ]  # fmt: skip


def weight_rows(change):
    return [
        {"problem": name, "weights": weights, "seed": seed, "method": method, "seconds_per_epoch": 1.0,
         **assessed(0.005 * (1 if method == "full" else near(change, seed)), seed), **memory_of(1.0)}
        for name in factorization.PROBLEMS
        for weights in factorization.WEIGHTS
        for seed in SEEDS
        for method in factorization.METHODS
    ]  # fmt: skip


def mode_rows(errors, changes, seconds):
    return [
        {"grid": 32, "modes": modes, "method": method, "seed": seed, "seconds_per_epoch": time,
         **assessed(error * (1 if method == "full" else near(change, seed)), seed)}
        for modes, error, change, time in zip((4, 8, 16, 32), errors, changes, seconds, strict=True)
        for method in frequency_modes.METHODS
        for seed in SEEDS
    ]  # fmt: skip


def bound_rows(precision=1e-4, discretization=0.01, lower=0.1, above=0):
    bounds = {"paper_discretization": 1.0, "paper_discretization_lower": lower, "paper_precision": 0.01,
              "paper_precision_lower": lower / 10, "discretization_bound": 0.1, "precision_bound": 1e-3}  # fmt: skip
    return [
        {"dimension": d, "points": 16, "kind": kind, "discretization": discretization, "precision": precision, **bounds,
         "fields": 1, "above_bound": above, "precision_below": 1}
        for d in theory_bounds.DIMENSIONS
        for kind in theory_bounds.KINDS
    ]  # fmt: skip


def profile_rows(share):
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


def stabilizer_rows(diverging, gemm=frozenset(), scale=1e-3):
    named = "the loss is not finite: first in blocks.0.conv, stage forward_transform, format fp16"

    def rows(problem, setting, resolution, backend, method, bad):
        step = {"problem": problem, "setting": setting, "resolution": resolution, "backend": backend, "method": method}
        return [
            {**step, "loss_scale": scale, "update": n, "loss": None if bad else 1.0 / n, "applied": not bad,
             "stopped": named if bad else ""}
            for n in (1, 2)
        ]  # fmt: skip

    found = []
    for method in global_stabilizers.METHODS:
        for setting, resolution in (("raw", 256), ("paper", 128)):
            found += rows("darcy", setting, resolution, "fft", method, method in diverging)
        found += rows("darcy", "raw", 256, "gemm", method, method in gemm)
    return [*found, *rows("navier-stokes", "paper", 128, "fft", "none", "none" in diverging)]


def preactivation_rows(losses, mean=5.0):
    return [
        {"fourier": fourier, "amp": amp, "preactivation": name, "seed": seed, "seconds_per_epoch": 1.0, "mean_l2": mean,
         "train_loss": loss and near(loss, seed), "test_l2": loss, "stopped": "" if loss else "not finite",
         **memory_of(1.0)}
        for fourier, amp, name in preactivation.PAPER
        for seed in SEEDS
        for loss in [losses.get((fourier, amp, name))]
    ]  # fmt: skip


def scaling_rows(losses, overflows, normalise=1.1):
    return [
        {"stabilizer": name, "seed": seed, "train_loss": loss and near(loss, seed), "test_l2": loss, "mean_l2": 0.8,
         "seconds_per_epoch": 1.0, "stopped": "" if loss else "not finite", "overflows_from": overflows.get(name),
         **memory_of(normalise if name == "normalise" else 1.0)}
        for name in preactivation_scaling.STABILIZERS
        for seed in SEEDS
        for loss in [losses.get(name)]
    ]  # fmt: skip


def spectrum_rows(changed, phase, divided=1.0):
    return [
        {"model": model, "block": 0, "stabilizer": name, "band": band, "amplitude": 1.0, "amplitude_change": 0.1,
         "phase_change": phase, "changed_share": (divided if name == "divide-10" else changed) if band < 0 else None}
        for model in preactivation_spectrum.MODELS
        for name in preactivation_spectrum.STABILIZERS
        for band in (-1, 0, 1)
    ]  # fmt: skip


def block_rows(hhh, shares):
    return [
        {"variant": variant, "setting": setting, "seed": seed, "seconds_per_epoch": 1.0,
         "train_l2": (1 + 0.03 * seed) * near(hhh if setting == "HHH" else 0.005, seed),
         **assessed(0.005, seed), **memory_of(shares.get(setting, 0.95))}
        for variant in block_precision.VARIANTS
        for setting in block_precision.PAPER
        for seed in SEEDS
    ]  # fmt: skip


def tanh_rows(change):
    return [
        {"method": name, "seed": seed, "seconds_per_epoch": 1.0, **assessed(0.1 * near(factor, seed), seed, 0.0)}
        for name, factor in (("full", 1.0), ("tanh", change))
        for seed in SEEDS
    ]


def spectral_rows(growth):
    return [
        {"backend": backend, "seed": 0, "points": 256, "frequency": k, "amplitude": 1.0, "half_amplitude": 1.0,
         "error_percent": 1e-3 * growth**k}
        for backend in ("fft", "gemm")
        for k in range(1, 11)
    ]  # fmt: skip


def system_rows(bf16, ours, fp8, roundoff=0.0625):
    factors = {"full": 1.0, "paper": ours, "ours": ours, "amp-bf16": bf16, "ours-bf16": bf16}
    return [
        {"problem": name, "method": method, "seed": seed, "epoch": 1, "last": True,
         **(assessed(0.005 * near(factor, seed), seed) if factor else dict.fromkeys(assessed(1.0))),
         "unit_roundoff": roundoff if method in number_systems.FP8 else 2**-11, "stopped": "" if factor else "inf"}
        for name in ("navier-stokes", "darcy", "car")
        for method in number_systems.METHODS
        for seed in SEEDS
        for factor in [factors.get(method, fp8)]
    ]  # fmt: skip


def tf32_rows(seconds):
    return [
        {"problem": name, "method": method, "measured_seconds": s, "planned_seconds": 1.0, "emulated_error": 1e-3}
        for name in tf32.PROBLEMS
        for method, s in zip(tf32.METHODS, seconds, strict=True)
    ]


def option_rows(seconds, nbytes):
    return [
        {"option": o, "forward_seconds": s, "counted_peak_bytes": m, "flops": 1e9, "paper_size_flops": 1e12,
         "paper_size_peak_bytes": m, "step_bytes": m}
        for o, s, m in zip("ABC", seconds, nbytes, strict=True)
    ]  # fmt: skip


def path_rows(navier_stokes, darcy, cached):
    shares = {"navier-stokes": navier_stokes, "darcy": darcy}
    return [
        {"problem": name, "planning_seconds": shares[name], "cached_seconds": cached, "contraction_seconds": 1.0}
        for name in path_caching.PAPER
    ]


def greedy_rows(share, step):
    return [
        {"problem": name, "factorization": kind, "objective": objective, "planned_peak_bytes": 1e9 * part,
         "counted_peak_bytes": 1e9 * part, "flops": 1.0, "largest_intermediate_bytes": 1,
         "step_bytes": (1e9 * whole) if kind == "tucker" else None}
        for name in ("car", "ahmed")
        for kind in ("tucker", "tt", "cp")
        for objective, part, whole in (("memory", share, step), ("flops", 1.0, 1.0))
    ]  # fmt: skip


def half_rows(darcy, navier_stokes):
    shares = {"darcy": darcy, "navier-stokes": navier_stokes}
    return [
        {"problem": name, "weights": w, "half": half, "peak_memory_bytes": nbytes, "activation_bytes": nbytes}
        for name in half_weights.WEIGHTS_MB
        for w in half_weights.WEIGHTS
        for half, nbytes in zip(half_weights.HALVES, (100 * shares[name], 100), strict=True)
    ]


def gemm_rows(fft_fails, gemm_fails, growth):
    return [
        {"resolution": n, "backend": b, "trains": True, "largest_coefficient": 2.0, "largest_sum": 2.0 * n * n,
         "transform_error": None if bad else 1e-4 * (growth if n == 256 else 1), "stopped": "not finite" if bad else "",
         "train_loss": 1.0}
        for n in (64, 128, 256)
        for b in ("fft", "gemm")
        for bad in [n == 256 and fft_fails if b == "fft" else n == 128 and gemm_fails]
    ]  # fmt: skip


def apebench_rows(full, mixed):
    """Our score over APEBench's, and mixed over full, on every scenario."""
    scores = {"apebench": 0.1, "full": 0.1 * full, "mixed": 0.1 * full * mixed}
    return [
        {
            "scenario": name, "dims": dims, "method": method, "seed": 0, "score": score, "first_step": score,
            "last_step": score, "parameters": 100, "seconds": 1.0,
        }
        for name, dims in apebench.SCENARIOS
        for method, score in scores.items()
    ]  # fmt: skip


def peer_rows(error, activations, seconds):
    theirs = {"test_l2": 0.1, "test_h1": 0.2, "peak_memory_bytes": 200, "activation_bytes": 100,
              "seconds_per_epoch": 2.0}  # fmt: skip
    ours = {**theirs, "test_l2": error, "activation_bytes": activations, "seconds_per_epoch": seconds}
    return [
        {"problem": name, "seed": seed, "method": method, **row, "test_l2": near(row["test_l2"], seed)}
        for name in ("darcy", "navier-stokes")
        for seed in SEEDS
        for method, row in {PEER: theirs, "full": ours, "mixed": ours}.items()
    ]


def swap_rows(costs, roundings):
    return [
        {"problem": name, "trained_in": trained, "seed": seed, "evaluated_in": evaluated, "h1": None,
         "l2": 0.005 * (1 + 0.03 * seed) * near(costs.get(evaluated, 1.0), seed), "mean_l2": 1.0, "linear_l2": 0.5,
         "rounding": near(roundings.get(evaluated, 1e-3), seed)}
        for name in (*PROBLEMS, LINE)
        for trained in precision_swap.TRAINED_IN
        for seed in SEEDS
        for evaluated in precision_swap.EVALUATED_IN
    ]  # fmt: skip


def cost_rows(frozen, trained):
    """Costs of frozen weights in units of the curve, and of trainings as factors."""
    rows = []
    for seed in SEEDS:
        known = {"problem": "darcy", "epochs": 9, "seed": seed, "full_l2": 0.01, "mean_l2": 1.0, "linear_l2": 0.5}
        foretold = cost_of_half.predicted(0.005, 0.01)
        for name in cost_of_half.FROZEN:
            error = 0.01 * (1 + frozen * foretold)
            rows.append({**known, "source": "frozen", "method": name, "l2": error, "rounding": 0.005})
        for name in cost_of_half.METHODS:
            error = 0.01 * near(trained.get(name, 1.0), seed)
            rows.append({**known, "source": "trained", "method": name, "l2": error, "rounding": 0.005})
    return rows


def half_answer_rows(as_trained, in_full):
    rows = []
    for name in (*PROBLEMS, LINE):
        for seed in SEEDS:
            for method in train_in_half.METHODS:
                row = assessed(0.005 * (1 if method == "full" else near(as_trained, seed)), seed)
                full = 0.005 * (1 + 0.03 * seed) * (1 if method == "full" else near(in_full, seed))
                rows.append({"problem": name, "seed": seed, "method": method, **row, "l2_full": full, **memory_of(1.0)})
    return rows


def gradient_rows(plain, scaled, bf16):
    errors = dict(zip(gradient_underflow.VARIANTS, (plain, scaled, bf16), strict=True))
    return [
        {"problem": name, "seed": seed, "step": step, "variant": variant, "error": near(error, seed), "vanished": 0.0}
        for name in ("navier-stokes", "darcy")
        for seed in SEEDS
        for step in (0, 5)
        for variant, error in errors.items()
    ]


_FAILING = {"none", "loss scaling", "clipping", "delayed updates"}
_LOSSES = {("full", "no", "none"): 1.0, ("full", "yes", "none"): 1.0, ("half", "yes", "hard-clip"): 1.04,
           ("half", "yes", "2-sigma-clip"): 1.03, ("half", "yes", "tanh"): 1.04}  # fmt: skip
_DIVIDED = {
    "tanh": 0.4,
    "divide-10": 0.45,
    "divide-100": 0.5,
    "divide-1000": 0.6,
    "divide-10000": 0.9,
    "normalise": 0.4,
}
_SCHEDULES = {
    "time": (0.9, 0.9), ("paper", "time"): (1.001, 1.1), "measured": (0.9, 0.9), "epochs": (1.001, 1.001),
}  # fmt: skip
_LOST = {
    "time": (1.1, 1.1), ("paper", "time"): (1.1, 0.9), "measured": (1.1, 1.1), "epochs": (1.1, 1.1),
    ("full", "epochs"): (1.0, 1.0), ("paper", "epochs"): (1.0, 1.0),
}  # fmt: skip
ERROR_CURVES = ("navier-stokes", "darcy", "car", "shallow-water")

MADE_UP = {
    "overview": (overview_rows(), overview_rows(1.05, 0.9)),
    "memory": (memory_rows(), memory_rows({"full": 1.0, "amp": 0.5, "half": 0.99, "mixed": 0.9}, 1.1)),
    "throughput": (race_rows(13.0), race_rows(9.0)),
    "error-curves": (curve_rows(ERROR_CURVES, 1.001), curve_rows(ERROR_CURVES, 1.05)),
    "ahmed": (curve_rows(("ahmed",), 1.001), curve_rows(("ahmed",), 1.05)),
    "super-resolution": (
        resolution_rows({"paper": 1.1, "schedule": 0.85, "schedule-ours": 0.85}),
        resolution_rows({"paper": 0.9, "schedule": 1.2, "schedule-ours": 1.2}, growth=1.2),
    ),
    "precision-schedule": (schedule_rows(_SCHEDULES), schedule_rows(_LOST)),
    "unet": (unet_rows(), unet_rows(0.3, 0.2)),
    "factorization": (weight_rows(1.001), weight_rows(1.05)),
    "frequency-modes": (
        mode_rows((0.04, 0.02, 0.01, 0.01), (1.005, 1.001, 1.001, 1.001), (1, 1, 1, 2)),
        mode_rows((0.01, 0.01, 0.01, 0.01), (0.98, 1.05, 1.05, 1.05), (1, 1, 1, 1)),
    ),
    "theory-bounds": (bound_rows(), bound_rows(0.05, 0.04, 1e-6, above=1)),
    "profile": (profile_rows(0.7), profile_rows(0.3)),
    "global-stabilizers": (
        stabilizer_rows(_FAILING), stabilizer_rows({"tanh"}, frozenset({"none"}), 65536.0),
    ),
    "preactivation": (
        preactivation_rows(_LOSSES),
        preactivation_rows(dict.fromkeys(preactivation.PAPER, 1.2) | {("full", "no", "none"): 1.0}),
        preactivation_rows({("full", "no", "none"): 1.0}),
    ),
    "preactivation-scaling": (
        scaling_rows(_DIVIDED, {"normalise": 256, "tanh": 512}),
        scaling_rows(dict.fromkeys(_DIVIDED, 0.3) | {"divide-10": 0.29}, {"normalise": 512, "tanh": 256}, 0.9),
        scaling_rows({**_DIVIDED, "divide-100": 0.4, "divide-1000": 0.3, "divide-10": 0.39}, {}),
    ),
    "preactivation-spectrum": (spectrum_rows(0.01, 0.02), spectrum_rows(0.5, 0.5, 0.03)),
    "block-precision": (
        block_rows(0.004, {"FFF": 1.0, "HFF": 0.9, "HHH": 0.8}), block_rows(0.006, {"HHH": 1.1, "HFF": 1.0}),
    ),
    "tanh-ablation": (tanh_rows(1.001), tanh_rows(1.05)),
    "synthetic-spectrum": (spectral_rows(2.0), spectral_rows(1.0)),
    "number-systems": (system_rows(1.08, 1.001, None), system_rows(0.99, 1.05, 1.5, 1e-3)),
    "tf32": (tf32_rows((57.0, 53.0)), tf32_rows((53.0, 57.0))),
    "contraction": (option_rows((20, 1.1, 1), (100, 45, 40)), option_rows((1, 1, 2), (40, 45, 50))),
    "path-caching": (path_rows(0.8, 0.6, 0.01), path_rows(0.2, 0.3, 0.5)),
    "greedy-path": (greedy_rows(0.8, 0.9), greedy_rows(1.2, 1.0)),
    "half-weights": (half_rows(0.92, 0.52), half_rows(0.5, 0.9)),
    "gemm-stability": (gemm_rows(True, False, 1.0), gemm_rows(False, True, 3.0)),
    "peer": (peer_rows(0.1, 50, 1.0), peer_rows(0.11, 120, 3.0)),
    "apebench": (apebench_rows(0.9, 1.0), apebench_rows(1.2, 1.1)),
    "precision-swap": (
        swap_rows({}, {"amp bf16": 2e-3, "stream bf16": 2e-4}),
        swap_rows(
            dict.fromkeys(precision_swap.EVALUATED_IN, 1.05) | {"full": 1.0},
            {"amp bf16": 5e-4, precision_swap.WIDE: 2e-3},
        ),
    ),
    "cost-of-half": (cost_rows(1.0, {"ours-bf16": 1.08}), cost_rows(4.0, {"ours": 1.08, "paper": 1.08})),
    "train-in-half": (half_answer_rows(1.08, 1.001), half_answer_rows(1.08, 1.07)),
    "gradient-underflow": (gradient_rows(0.3, 0.01, 0.05), gradient_rows(0.01, 0.02, 0.015)),
}  # fmt: skip
"""The first set is the one on which every part that can be tested is confirmed."""
