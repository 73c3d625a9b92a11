"""Memory that reading a large file in batches of 8 adds to a process.

    python benchmarks/data_memory.py [--gib 4] [--folder FOLDER]

Writes a file of that size (removed afterwards), opens it in a fresh process, reads every sample once in random order
and prints by how much the resident memory grew at most (Linux).
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
from pathlib import Path

import h5py
import numpy as np

from halfwave.data import open_dataset

RESOLUTION, BATCH = 256, 8
LIMIT_MIB = 600


def write(path: Path, gib: float) -> None:
    """Random fields, x and y of one channel, 7 of 8 samples in the train split."""
    samples = int(gib * 2**30 / (2 * 4 * RESOLUTION**2))
    counts = {"train": samples * 7 // 8, "test": samples - samples * 7 // 8}
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for split, count in counts.items():
            for which in "xy":
                array = file.create_dataset(f"{split}/{which}", (count, 1, RESOLUTION, RESOLUTION), "f4")
                for start in range(0, count, 64):
                    rows = min(64, count - start)
                    array[start : start + rows] = rng.random((rows, 1, RESOLUTION, RESOLUTION), dtype=np.float32)


def read(path: Path) -> tuple[int, float]:
    """Samples read, and MiB by which the resident memory grew at most."""
    before = peak = resident_mib()
    dataset, total = open_dataset(path), 0
    for split in (dataset.train, dataset.test):
        for batch in np.array_split(np.random.default_rng(1).permutation(len(split)), len(split) // BATCH):
            x, y = split[batch]
            total += min(len(x), len(y))
            peak = max(peak, resident_mib())
    return total, peak - before


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=4.0)
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "large.h5"
        write(path, arguments.gib)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            total, added = pool.apply(read, (path,))
        print(f"{path.stat().st_size / 2**30:.2f} GiB, {total} samples in batches of {BATCH}: {added:.0f} MiB added")
    if added > LIMIT_MIB:
        raise SystemExit(f"more than {LIMIT_MIB} MiB")


if __name__ == "__main__":
    main()
