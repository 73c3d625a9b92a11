"""Memory that reading a large file in batches of 8 adds to a process.

    python benchmarks/data_memory.py [--gib 4] [--format h5|npz|pt] [--folder FOLDER]

Writes a file of that size (removed afterwards), opens it in a fresh process, reads every sample once in random order
and prints by how much the resident memory grew at most (Linux).
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import zipfile
from pathlib import Path

import h5py
import numpy as np
import torch

from halfwave.data import open_dataset

RESOLUTION, BATCH = 256, 8
LIMIT_MIB = 600


def counts(gib: float) -> dict[str, int]:
    """Samples of each split: x and y of one channel, 7 of 8 samples in the train split."""
    samples = int(gib * 2**30 / (2 * 4 * RESOLUTION**2))
    return {"train": samples * 7 // 8, "test": samples - samples * 7 // 8}


def write_h5(path: Path, gib: float) -> None:
    with h5py.File(path, "w") as file:
        for split, count in counts(gib).items():
            for which in "xy":
                array = file.create_dataset(f"{split}/{which}", (count, 1, RESOLUTION, RESOLUTION), "f4")
                for start in range(0, count, 64):
                    array[start : start + 64] = _block(min(64, count - start))


def write_npz(path: Path, gib: float) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for split, count in counts(gib).items():
            for which in "xy":
                with archive.open(f"{which}_{split}.npy", "w", force_zip64=True) as member:
                    shape = (count, 1, RESOLUTION, RESOLUTION)
                    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(member, header)
                    for start in range(0, count, 64):
                        member.write(_block(min(64, count - start)).tobytes())


def write_pt(path: Path, gib: float) -> None:
    samples = sum(counts(gib).values())
    torch.save({which: torch.rand(samples, RESOLUTION, RESOLUTION) for which in "xy"}, path)


WRITERS = {"h5": write_h5, "npz": write_npz, "pt": write_pt}


def _block(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).random((rows, 1, RESOLUTION, RESOLUTION), dtype=np.float32)


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
    parser.add_argument("--format", choices=WRITERS, default="h5")
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / f"large.{arguments.format}"
        WRITERS[arguments.format](path, arguments.gib)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            total, added = pool.apply(read, (path,))
        print(f"{path.stat().st_size / 2**30:.2f} GiB, {total} samples in batches of {BATCH}: {added:.0f} MiB added")
    if added > LIMIT_MIB:
        raise SystemExit(f"more than {LIMIT_MIB} MiB")


if __name__ == "__main__":
    main()
