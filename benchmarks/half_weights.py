"""Files with fp16 weights beside fp32's, for the trained models of examples/models: test error, bytes and time.

    python benchmarks/half_weights.py                  # 40 fresh test samples of each model's data

Each model is exported to ONNX twice and answers the same samples, which were in no training: `error` is the mean
relative L2 error of the fp32 file, `change` what fp16 weights do to it. Seconds are of the processor, on one thread,
the files in turn with eager torch, batch 4.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import halfwave as hw
from exported_times import measure, onnx_run
from halfwave.data import Darcy, Generator, NavierStokes, ShallowWater
from halfwave.models import NeuralOperator

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "models"
LAWS: dict[str, Generator] = {
    "darcy-unet": Darcy(resolution=32, high=4.5, low=3.0),
    "navier-stokes-tfno": NavierStokes(resolution=32, solve_resolution=64, time=1.0),
    "shallow-water-sfno": ShallowWater(resolution=32, hours=0.25),
}
SEED = 77


def fresh(law: Generator, count: int) -> tuple[Tensor, Tensor]:
    """Test samples of another seed than the models were trained with."""
    made = law.samples(SEED, "test", range(count))
    return tuple(torch.from_numpy(np.stack([sample[key] for sample in made])) for key in ("x", "y"))  # type: ignore[return-value]


def error_of(run: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> float:
    answers = torch.cat([run(part) for part in x.split(8)])
    return float(((answers - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)).mean())


def report(name: str, count: int) -> str:
    operator = NeuralOperator.from_pretrained(FOLDER / name).eval()
    x, y = fresh(LAWS[name], count)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        files = {
            weights: hw.export(operator, Path(folder) / f"{weights}.onnx", grid=tuple(x.shape[2:]), weights=weights)
            for weights in ("fp32", "fp16")
        }
        runs = {weights: onnx_run(file.path) for weights, file in files.items()}
        errors = {w: error_of(lambda part, run=run: torch.from_numpy(run(part)[0]), x, y) for w, run in runs.items()}
        with torch.inference_mode():
            found = measure({"eager": operator, **runs}, x[:4], 20)
    times = {w: statistics.median(a / b for a, b in zip(found[w], found["eager"], strict=True)) for w in runs}
    eager = 1e3 * statistics.median(found["eager"])
    size, half = (files[weights].bytes for weights in ("fp32", "fp16"))
    return (
        f"| `{name}` | {errors['fp32']:.4%} | {errors['fp16'] / errors['fp32'] - 1:+.3%} | {size / 1e6:.2f} MB | "
        f"{half / size:.3f} | {eager:.1f} ms | {times['fp32']:.2f} | {times['fp16']:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=40)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("| model | error | change by fp16 | fp32 file | fp16 / fp32 | eager | fp32 file's time | fp16's |")
    for name in LAWS:
        print(report(name, given.samples), flush=True)


if __name__ == "__main__":
    main()
