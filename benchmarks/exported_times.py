"""Time of an exported operator against eager torch, on one thread, as ratios.

    python benchmarks/exported_times.py                # FNO of 32 channels, 16 modes, 4 layers on 64 x 64, batch 4
    python benchmarks/exported_times.py --formats onnx --repeats 30

Seconds are of the processor, not of the clock (`time.process_time`), and the programs take turns: other jobs of the
machine then disturb all of them alike. The figure is the median of the ratios of single turns.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import torch
from torch import Tensor, nn

import halfwave as hw

Run = Callable[[Tensor], object]


def onnx_run(path: Path) -> Run:
    """ONNX Runtime on one thread, as `examples/serve_onnx.py` would have it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(path, options)
    return lambda x: session.run(None, {"x": x.numpy()})


def aoti_run(path: Path) -> Run:
    import torch._inductor

    program: Run = torch._inductor.aoti_load_package(str(path))
    return program


LOADERS: dict[str, tuple[str, Callable[[Path], Run]]] = {
    "onnx": ("model.onnx", onnx_run),
    "aoti": ("model.aoti.pt2", aoti_run),
}


def measure(runs: dict[str, Run], x: Tensor, repeats: int) -> dict[str, list[float]]:
    """Processor seconds of each program, turn by turn, after two that do not count."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 2):
        for name, run in runs.items():
            began = time.process_time()
            run(x)
            if turn >= 2:
                found[name].append(time.process_time() - began)
    return found


def build(size: int) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return hw.FNO((16, 16), 1, 1, 32, n_layers=4, precision="full").eval(), torch.randn(4, 1, size, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--formats", nargs="*", default=list(LOADERS), choices=list(LOADERS))
    parser.add_argument("--grid", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args()
    torch.set_num_threads(1)
    model, x = build(given.grid)
    runs: dict[str, Run] = {"eager": model}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for name in given.formats:
            file, load = LOADERS[name]
            written = hw.export(model, Path(folder) / file, grid=(given.grid, given.grid))
            runs[name] = load(written.path)
        with torch.inference_mode():
            found = measure(runs, x, given.repeats)
    for name, seconds in found.items():
        ratio = statistics.median(a / b for a, b in zip(seconds, found["eager"], strict=True))
        print(f"{name:6} {1e3 * statistics.median(seconds):8.1f} ms of the processor, {ratio:.2f} of eager")


if __name__ == "__main__":
    main()
