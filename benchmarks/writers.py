"""Several writers side by side: of one run directory one trains and the others are told; of one dataset all agree.

python benchmarks/writers.py
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from halfwave.files import PARTIAL

DATA = ("data", "darcy", "--resolution", "24", "--n-train", "48", "--n-test", "8", "--workers", "1", "--out")
TRAIN = ("train", "fno", "--epochs", "20", "--batch-size", "4", "--arguments", "n_modes=[4,4]", "hidden_channels=6")
TAKEN = "another process is training in"


def run_writers() -> list[tuple[str, str, bool]]:
    """What was tried, what came of it, and whether it should."""
    with tempfile.TemporaryDirectory(prefix="halfwave-writers-") as name:
        folder = Path(name)
        return [_one_dataset(folder), _one_run(folder), _side_by_side(folder)]


def _one_dataset(folder: Path) -> tuple[str, str, bool]:
    _finish([_start(*DATA, str(folder / "alone.h5"))])
    ended = _finish([_start(*DATA, str(folder / "shared.h5")) for _ in range(3)])
    equal = _digest(folder / "alone.h5") == _digest(folder / "shared.h5")
    left = [path.name for path in folder.iterdir() if PARTIAL in path.name]
    good = all(code == 0 for code, _ in ended) and equal and not left
    return "three generators of one file", f"exit codes {[code for code, _ in ended]}, file equal: {equal}", good


def _one_run(folder: Path) -> tuple[str, str, bool]:
    words = (*TRAIN, "--data", str(folder / "alone.h5"), "--out", str(folder / "run"))
    ended = _finish([_start(*words) for _ in range(3)])
    trained = sum(code == 0 for code, _ in ended)
    told = sum(code == 1 and TAKEN in errors for code, errors in ended)
    good = trained >= 1 and trained + told == 3
    return "three trainings of one directory", f"{trained} ended, {told} were told that another trains", good


def _side_by_side(folder: Path) -> tuple[str, str, bool]:
    """Two trainings and a generator on one disk: as each alone."""
    data = ("--data", str(folder / "alone.h5"))
    _finish([_start(*TRAIN, *data, "--out", str(folder / "single"))])
    ended = _finish(
        [_start(*TRAIN, *data, "--out", str(folder / f"beside-{i}")) for i in range(2)]
        + [_start(*DATA, str(folder / "beside.h5"))]
    )
    models = {_digest(folder / name / "model.safetensors") for name in ("single", "beside-0", "beside-1")}
    same = len(models) == 1 and _digest(folder / "beside.h5") == _digest(folder / "alone.h5")
    good = same and all(code == 0 for code, _ in ended)
    return "two trainings and a generator", f"exit codes {[code for code, _ in ended]}, results equal: {same}", good


def _start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "halfwave", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def _finish(processes: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    ended = [process.communicate()[1] for process in processes]
    return [(process.returncode, errors) for process, errors in zip(processes, ended, strict=True)]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else f"no {path.name}"


def main() -> int:
    found = run_writers()
    for what, result, good in found:
        print(f"{what}: {result}{'' if good else '  BAD'}")
    return int(not all(good for _, _, good in found))


if __name__ == "__main__":
    sys.exit(main())
