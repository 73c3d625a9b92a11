"""What the trainer adds to training: its epochs against the forward, backward and optimizer calls inside them.

    python benchmarks/trainer_overhead.py

A FNO at 128x128 (64 modes, 64 channels, 4 layers, batch 8) is trained by `train` for three epochs of 6 updates, with
checkpoints, metrics and TensorBoard as by default. Prints the share of each epoch's time that is not spent in updates:
drawing batches, accounting, records, checks of signals and of the schedule. The first epoch has one pass more, before
its first update: it fills caches, so that bytes are counted alike in a new and in a resumed process. Testing and
checkpoints come between epochs and are printed beside, as they depend on how often they are asked for.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import torch

from halfwave.data import Darcy, generate
from halfwave.training import TrainConfig, read_metrics, train
from halfwave.training.engine import Engine

MODEL = {"n_modes": (64, 64), "hidden_channels": 64, "n_layers": 4}


def main() -> None:
    updates: list[float] = []
    update = Engine.update

    def timed(self: Engine, *arguments: object) -> object:
        start = time.perf_counter()
        result = update(self, *arguments)  # type: ignore[arg-type]
        updates.append(time.perf_counter() - start)
        return result

    Engine.update = timed  # type: ignore[assignment, method-assign]
    with tempfile.TemporaryDirectory() as folder:
        path = generate(Darcy(resolution=128), Path(folder) / "darcy.h5", n_train=48, n_test=8, workers=2)
        config = TrainConfig(data=str(path), arguments=MODEL, epochs=3, batch_size=8, precision="mixed")
        start = time.perf_counter()
        train(config, Path(folder) / "run", quiet=True)
        whole = time.perf_counter() - start
        epochs = [row["seconds"] for row in read_metrics(Path(folder) / "run")]
    per_epoch = len(updates) // len(epochs)
    print(f"{len(updates)} updates on {torch.get_num_threads()} threads, {statistics.median(updates):.2f} s each")
    for n, seconds in enumerate(epochs):
        inside = sum(updates[n * per_epoch : (n + 1) * per_epoch])
        print(f"epoch {n + 1}: {seconds:.2f} s, updates {inside:.2f} s: overhead {100 * (seconds / inside - 1):.2f}%")
    print(f"testing, checkpoints, curves, start: {whole - sum(epochs):.1f} s")


if __name__ == "__main__":
    main()
