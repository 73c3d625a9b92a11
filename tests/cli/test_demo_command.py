"""`halfwave demo` on a recipe of a second: what it writes, and that an interrupt ends it."""

import json
from dataclasses import replace

import pytest

from halfwave.commands import demo
from halfwave.errors import InputError
from halfwave.recipes import get_recipe
from halfwave.training import RunResult


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The demo with the recipe of a second, in an empty directory, where npm has no runtime for the page."""
    recipe = replace(get_recipe("darcy-smoke"), name="demo")
    monkeypatch.setattr(demo, "get_recipe", {"demo": recipe}.__getitem__)
    monkeypatch.chdir(tmp_path)

    def no_page(*_, **__):
        raise InputError("a page needs onnxruntime-web: npm is not installed")

    monkeypatch.setattr(demo, "export", no_page)
    return tmp_path / "runs" / "demo"


def test_writes_runs_figures_and_a_page(command, tiny):
    code, out, err = command("demo", "--workers", 1)
    assert code == 0
    assert "mixed / full" in out
    assert "no page of the operator: a page needs onnxruntime-web" in err
    summary = json.loads((tiny / "summary.json").read_text())
    for name in ("full", "mixed"):
        assert f"{summary[name]['l2']:.4f}" in out
        assert (tiny / name / "model.safetensors").exists()
    assert (tiny / "fields.png").exists()
    assert "activation memory" in (tiny / "report.html").read_text(encoding="utf-8")


def test_an_interrupted_training_ends_the_demo(command, tiny, monkeypatch):
    begun = []

    def interrupted(_, run_dir):
        begun.append(run_dir.name)
        return RunResult("interrupted", 1, 0.5, 0.5, 0.5, 1.0, 1, 1, {}, str(run_dir))

    monkeypatch.setattr(demo, "train", interrupted)
    code, _, err = command("demo", "--workers", 1)
    assert code == 130
    assert begun == ["full"]
    assert "interrupted; the same command goes on where it stopped" in err
    assert not (tiny / "summary.json").exists()
