"""One-step against unrolled training, and half against full along a rollout: a table and a plot.

    python benchmarks/rollout_training.py FOLDER [--seeds 0 1] [--plot docs/images/rollout-precision.png]

On Kuramoto-Sivashinsky and Navier-Stokes trajectories an FNO learns the change of one step, by one-step training or by
unrolling over four steps in the second half of as many epochs. `halfwave rollout` then rolls it out on trajectories
that it has not seen: the correlation time, and the difference of mixed bf16 from full at each step beside what the
certificate of one step and the model's growth of differences predict. What FOLDER has is not done again; some ten
minutes of a core in all.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import torch

from halfwave.commands.rollout import Rollout
from halfwave.data import KuramotoSivashinsky, VorticityTrajectories, generate
from halfwave.training import train

matplotlib.use("Agg")
import matplotlib.pyplot as plt

UNROLLED_OVER = 4
METHODS: dict[str, dict[str, Any]] = {
    "one-step": {"horizon": 1},
    f"unrolled over {UNROLLED_OVER}": {"horizons": ((0.5, 1), (0.5, UNROLLED_OVER))},
}


@dataclass(frozen=True)
class System:
    """Who makes the trajectories, how many (train, test), and the network that learns their step."""

    title: str
    generator: Any
    samples: tuple[int, int]
    network: Mapping[str, Any]
    epochs: int


SYSTEMS = (
    System(
        "Kuramoto-Sivashinsky",
        KuramotoSivashinsky(resolution=64, length=32.0, interval=0.5, steps=200),
        (16, 12),
        {"n_modes": [32], "hidden_channels": 32, "n_layers": 4},
        8,
    ),
    System(
        "Navier-Stokes",
        VorticityTrajectories(resolution=32, solve_resolution=64, viscosity=1e-4, interval=1.0, steps=20),
        (24, 8),
        {"n_modes": [16, 16], "hidden_channels": 20, "n_layers": 4},
        10,
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--plot", type=Path, help="where to draw; by default FOLDER/rollout-precision.png")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    print("| system | training | seed | correlation time | error after 1 step | safe for | predicted | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    first = options.seeds[0]
    drawn = {}
    for system in SYSTEMS:
        for seed in options.seeds:
            for method in METHODS:
                run = _train(options.folder, system, method, seed)
                found = _roll_out(run)
                print(_line(system, method, seed, found, _seconds(run)), flush=True)
                if seed == first:
                    drawn[system.title, method] = found
    _draw(drawn, options.plot or options.folder / "rollout-precision.png")


def _train(folder: Path, system: System, method: str, seed: int) -> Path:
    data = folder / f"{system.generator.name}.h5"
    generate(system.generator, data, n_train=system.samples[0], n_test=system.samples[1], seed=0)
    run = folder / f"{system.generator.name}-{method.replace(' ', '-')}-{seed}"
    start = time.process_time()
    train(
        data=data,
        model="FNO",
        arguments=dict(system.network),
        run_dir=run,
        residual=True,
        epochs=system.epochs,
        batch_size=16,
        learning_rate=2e-3,
        scheduler="one-cycle",
        precision="full",
        evaluate_every=system.epochs,
        seed=seed,
        quiet=True,
        **METHODS[method],
    )
    if not (run / "seconds.json").exists():
        (run / "seconds.json").write_text(json.dumps(time.process_time() - start))
    return run


def _seconds(run: Path) -> float:
    return float(json.loads((run / "seconds.json").read_text()))


def _roll_out(run: Path) -> dict[str, Any]:
    path = run / "rollout" / "rollout.json"
    if not path.exists():
        with contextlib.redirect_stdout(io.StringIO()):
            Rollout(run, against="mixed", dtype="bf16", animation="none", json=True).run()
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _line(system: System, method: str, seed: int, found: Mapping[str, Any], seconds: float) -> str:
    parting, steps = found["parting"], found["steps"]
    most = " (all)" if found["correlated"] else ""
    return (
        f"| {system.title} | {method} | {seed} | {found['correlation_time']:.1f}{most} | {found['mean_error'][0]:.2%} "
        f"| {_safe(parting['parts_at'], steps)} | {_safe(parting['predicted_to_part_at'], steps)} | {seconds:.0f} |"
    )


def _safe(parts_at: int | None, steps: int) -> str:
    return f"all {steps} steps" if parts_at is None else f"{parts_at - 1} steps"


def _draw(drawn: Mapping[tuple[str, str], Mapping[str, Any]], path: Path) -> None:
    figure, axes = plt.subplots(len(SYSTEMS), len(METHODS), figsize=(9, 3.2 * len(SYSTEMS)), squeeze=False)
    for axis, ((title, method), found) in zip(axes.flat, drawn.items(), strict=True):
        parting = found["parting"]
        times = [found["interval"] * (n + 1) for n in range(len(parting["differences"]))]
        axis.semilogy(times, parting["own_errors"], color="0.6", label="full against the truth")
        axis.semilogy(times, parting["differences"], color="C0", label="mixed bf16 against full")
        axis.semilogy(times, parting["predicted"], "--", color="C1", label="predicted by the certificate")
        axis.axvline(found["correlation_time"], color="0.8", linewidth=1, zorder=0)
        axis.set(title=f"{title}, {method}", xlabel="time", ylabel="relative L2")
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
