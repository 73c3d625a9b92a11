"""`.pt2` files: they load in a process that has torch and no halfwave, as a graph and compiled."""

import os
import shutil
import subprocess
import sys
import zipfile

import pytest
import torch
from exported_models import build, relative

import halfwave as hw

_ALONE = """
import sys
sys.modules["halfwave"] = None  # any import of it fails
import torch
x = torch.load(sys.argv[2], weights_only=True)
if sys.argv[3] == "pt2":
    program = torch.export.load(sys.argv[1]).module()
else:
    program = torch._inductor.aoti_load_package(sys.argv[1])
torch.save(program(x), sys.argv[4])
"""


def _answer_alone(program, kind, x, folder):
    torch.save(x, folder / "x.pt")
    command = [sys.executable, "-c", _ALONE, program, folder / "x.pt", kind, folder / "y.pt"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return torch.load(folder / "y.pt", weights_only=True)


def _expected(model, x):
    with torch.no_grad():
        return model(x)


def test_the_graph_loads_without_halfwave(tmp_path):
    model, _ = build("1-D, instance norm, before")
    hw.export(model, tmp_path / "model.pt2", dynamic=("batch", "grid"), weights="fp16")
    x = torch.randn(3, 1, 37)
    answer = _answer_alone(tmp_path / "model.pt2", "pt2", x, tmp_path)
    assert relative(answer, _expected(model, x)) <= 1e-3  # the weights are rounded, nothing else
    assert b"halfwave::" not in (tmp_path / "model.pt2").read_bytes()


@pytest.mark.skipif(shutil.which("g++") is None and shutil.which("clang++") is None, reason="no C++ compiler")
def test_the_compiled_program_loads_without_halfwave(tmp_path):
    model, grid = build("1-D, instance norm, before")
    written = hw.export(model, tmp_path / "model.aoti.pt2", grid=grid)
    assert written.format == "aoti"
    packed = zipfile.ZipFile(written.path).namelist()
    assert not [name for name in packed if name.endswith(".cpp")]
    assert b".debug_line" not in written.path.read_bytes()  # what fp16 weights would not halve
    x = torch.randn(4, 1, *grid)
    answer = _answer_alone(written.path, "aoti", x, tmp_path)
    assert relative(answer, _expected(model, x)) <= 2e-6
