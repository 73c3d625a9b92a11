"""Builds sdist and wheel and installs the wheel in a fresh environment outside the repository, without constraints.

    python benchmarks/fresh_install.py                     # or `make wheel-check`
    python benchmarks/fresh_install.py --extras export hub --demo
    python benchmarks/fresh_install.py --torch 2.6.0       # another torch, as the registry has it

The wheel is built from the sdist, so both are whole. Only torch is pinned, to the build of this environment: without a
word pip takes one for CUDA, of several gigabytes. In the new environment, in an empty directory: the version, the
import, a training of an `.npz` by the command line, its certificate, and the tests of what is public.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("halfwave/py.typed", "halfwave/report/templates/", "halfwave/export/page/")
"""Files beside modules without which a command fails."""
PUBLIC_TESTS = ("package/test_import.py", "package/test_extending.py", "precision", "training/test_saving.py")
DATA = "import numpy as np; x = np.random.default_rng(0).random((24, 16, 16)); np.savez('mine.npz', x=x, y=2 * x)"
IN_PYTHON = (
    "import torch, halfwave as hw; print(hw.__version__, hw.__file__); "
    "operator = hw.load('runs/mine/model.safetensors'); print(operator(torch.rand(2, 1, 16, 16)).shape)"
)


def call(*command: object, cwd: Path) -> str:
    """The output of a command, which must succeed; nothing of this environment reaches it but pip's settings."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_CONSTRAINT")}
    print("$", *(str(part).replace(str(ROOT), ".") for part in command), flush=True)
    words = [str(part) for part in command]
    begin, before = time.monotonic(), _processor_seconds()
    done = subprocess.run(words, cwd=cwd, env=inherited, capture_output=True, text=True, check=False)
    print(
        f"  {_processor_seconds() - before:.0f} s of the processor, {time.monotonic() - begin:.0f} s by the clock",
        flush=True,
    )
    if done.returncode:
        raise SystemExit(f"failed with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def _processor_seconds() -> float:
    """Of all commands so far, and of what they started: on a shared machine the clock says little."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def build(folder: Path) -> tuple[Path, Path]:
    """sdist and wheel of the tracked files, as a clone has them."""
    clone = folder / "clone"
    tracked = call("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    for name in filter(None, tracked):
        if (ROOT / name).exists():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, clone / name)
    call(sys.executable, "-m", "build", "--outdir", folder / "dist", clone, cwd=folder)
    (sdist,), (wheel,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path) -> None:
    """Every module and every file that commands read is in both."""
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    packed = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        source = {name.partition("/src/")[2] for name in archive.getnames()}
    for names, file in ((packed, wheel), (source, sdist)):
        missing = sorted(modules - names) + [n for n in NEEDED if not any(name.startswith(n) for name in names)]
        if missing:
            raise SystemExit(f"{file.name} lacks {missing[0]} and {len(missing) - 1} others")
        print(f"{file.name}: {file.stat().st_size / 1024:.0f} KiB, {len(names)} files")


def install(wheel: Path, folder: Path, torch: str, extras: list[str]) -> Path:
    """The commands of a new environment that holds the wheel and what pip finds for it."""
    call(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    commands = folder / "venv" / "bin"
    wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    call(commands / "python", "-m", "pip", "install", "--quiet", wanted, f"torch=={torch}", "pytest", cwd=folder)
    print(call(commands / "python", "-m", "pip", "list", "--format=freeze", cwd=folder).replace("\n", " "))
    return commands


def try_out(commands: Path, folder: Path, demo: bool) -> None:
    """What a new user does first, and the tests of what is public, away from the repository."""
    empty = folder / "empty"
    empty.mkdir()
    halfwave, python = commands / "halfwave", commands / "python"
    print(call(halfwave, "--version", cwd=empty).strip())
    call(python, "-c", DATA, cwd=empty)
    call(halfwave, "train", "fno", "--data", "mine.npz", "--epochs", "1", "--out", "runs/mine", cwd=empty)
    print(call(python, "-c", IN_PYTHON, cwd=empty).strip())
    print(call(halfwave, "bounds", "--run", "runs/mine", cwd=empty).strip().splitlines()[-1])
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    tests = [folder / "tests" / name for name in PUBLIC_TESTS]
    told = call(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", *tests, cwd=empty)
    print(told.strip().splitlines()[-1])
    if demo:
        print(call(halfwave, "demo", cwd=empty).strip())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--torch", default=version("torch"), help="version to install, by default this environment's")
    parser.add_argument("--extras", nargs="*", default=[], help="extras of the wheel: export, hub, peer, docs, test")
    parser.add_argument("--demo", action="store_true", help="run `halfwave demo` as well, some minutes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdist, wheel = build(folder)
        check_contents(sdist, wheel)
        try_out(install(wheel, folder, given.torch, given.extras), folder, given.demo)
    print("the wheel works in a fresh environment")


if __name__ == "__main__":
    main()
