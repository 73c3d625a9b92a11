"""What `hw.compress` makes of a trained model: file sizes, and changes of answers and errors, by what is allowed.

python benchmarks/compressed_files.py runs/navier-stokes/model.safetensors navier-stokes.h5
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from torch import Tensor

import halfwave as hw

ALLOWED = (0.02, 0.01, 0.003, 0.001)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--samples", type=int, default=40)
    asked = parser.parse_args()
    model = hw.load(asked.model)
    x, y = hw.data.open_dataset(asked.data).test[: asked.samples]
    print("| allowed | file / fp32 | worst change | held out, worst | test error |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as directory, torch.no_grad():
        full = _file(model, Path(directory) / "full.safetensors")
        before = model(x)
        for allowed in ALLOWED:
            small = hw.compress(model, x, max_error=allowed)
            path = Path(directory) / "small.safetensors"
            share = _file(small, path) / full
            after = hw.load(path)(x)
            changes = _relative(after, before)
            held_out = max(small.compression.record["held_out_error"])  # type: ignore[union-attr, operator]
            errors = " -> ".join(f"{float(_relative(answer, y).mean()):.5f}" for answer in (before, after))
            print(f"| {allowed} | {share:.3f} | {float(changes.max()):.2e} | {held_out:.2e} | {errors} |", flush=True)


def _file(model: torch.nn.Module, path: Path) -> int:
    hw.save(model, path)
    return path.stat().st_size


def _relative(one: Tensor, other: Tensor) -> Tensor:
    return (one - other).flatten(1).norm(dim=1) / other.flatten(1).norm(dim=1)


if __name__ == "__main__":
    main()
