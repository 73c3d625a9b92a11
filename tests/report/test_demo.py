"""The demo's page: figures as in its result files, names escaped, the picture inside."""

import json

import h5py
import numpy as np
import pytest
from jinja2 import UndefinedError

from halfwave.report.demo import write_fields_figure, write_page
from halfwave.report.page import render


@pytest.fixture
def written(tmp_path):
    rng = np.random.default_rng(0)
    with h5py.File(tmp_path / "fields.h5", "w") as file:
        for name in ("input", "truth", "prediction/full", "prediction/mixed"):
            file[name] = rng.random((8, 8))
    full = {"l2": 0.02, "h1": 0.1, "peak_memory_bytes": 3e8, "activation_bytes": 2e8, "samples_per_second": 100.0}
    mixed = {**full, "l2": 0.021, "activation_bytes": 1e8, "samples_per_second": 250.0}
    recipe = {"arguments": {"n_modes": [8, 8]}, "training": {"epochs": 3}, "generator": "darcy", "parameters": {}}
    recipe |= {"n_train": 3, "n_test": 2, "model": "FNO"}
    setting = {"recipe": recipe, "seed": 0, "machine": "<b>a & b</b>", "torch": "2"}
    (tmp_path / "summary.json").write_text(json.dumps({"full": full, "mixed": mixed}))
    (tmp_path / "setting.json").write_text(json.dumps(setting))
    write_fields_figure(tmp_path / "fields.h5", tmp_path / "fields.png")
    write_page(tmp_path)
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_page_has_the_figures_and_their_ratios(written):
    assert '<th scope="row">mixed</th><td>0.0210</td><td>0.1000</td><td>300</td><td>100</td><td>250.0</td>' in written
    assert "<td>1.05×</td><td>1.00×</td><td>1.00×</td><td>0.50×</td><td>2.50×</td>" in written
    assert "50% less activation memory and ran at 2.50 times the speed; its test L2 error was 5.0% higher" in written


def test_names_are_escaped_and_the_picture_is_inside_at_its_own_size(written):
    assert "Machine: &lt;b&gt;a &amp; b&lt;/b&gt;; torch 2" in written
    assert '<img alt="Input, truth, both predictions and their errors" width="1248" height="780" src="data:' in written


def test_a_value_that_a_template_was_not_given_raises():
    with pytest.raises(UndefinedError, match="'verdict' is undefined"):
        render("demo.html")
