"""`halfwave view`: the page has what the run's files say, and a run that lacks something is shown without it."""

import json
import re
import shutil

import numpy as np
import pytest
import torch

import halfwave as hw
from halfwave.commands.view_samples import gather_answers
from halfwave.data import Advection, generate, open_dataset
from halfwave.domains import Box, Sphere, Torus
from halfwave.planner import PolicyVerdict
from halfwave.training import open_data, read_config, wave_spectrum


def gallery_of(page):
    return json.loads(re.search(r'id="gallery">(.*?)</script>', page.read_text(), re.DOTALL)[1])


def test_a_run_on_a_grid(trained, dataset, command, tmp_path, monkeypatch):
    certified = []
    monkeypatch.setattr(
        "halfwave.commands.view.certify",
        lambda model, x, policy, targets: certified.append((x, policy.name, targets)) or "Verdict: mixed is safe",
    )
    verdict = PolicyVerdict("mixed", 10**8, 2 * 10**8, True, 64, 1.29, 1.29, 1e-3, 1e-2)
    monkeypatch.setattr("halfwave.commands.view.judge", lambda *_: iter([verdict]))
    out = tmp_path / "v.html"
    code, printed, _ = command("view", trained, "--out", out, "--samples", 2)
    assert code == 0
    assert f"{out}: " in printed
    found = gallery_of(out)
    assert (found["kind"], len(found["samples"])) == ("plane", 2)
    x, y = open_dataset(dataset).test[:1]
    with torch.no_grad():
        answer = hw.load(trained)(x)
    shot = found["samples"][0]["shots"][0]
    assert float(shot["error"]) == pytest.approx(float((answer - y).norm() / y.norm()), rel=5e-3)
    assert (shot["inputs"][0]["low"], shot["inputs"][0]["high"]) == (float(x.min()), float(x.max()))
    text = out.read_text()
    assert "Verdict: mixed" in text
    assert [(tuple(x.shape), policy) for x, policy, _ in certified] == [((3, 1, 16, 16), "mixed")]
    assert "1.29x slower" in text
    assert "a device that is assumed: rtx-3090-ti" in " ".join(text.split())
    assert len(re.findall("<svg", text)) == 4
    assert "Not here" not in text


def test_what_is_missing_is_said_and_the_rest_is_shown(trained, command, fails, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    record = json.loads((run / "config.json").read_text())
    record["config"]["data"] = str(tmp_path / "gone.h5")
    (run / "config.json").write_text(json.dumps(record))
    code, _, err = command("view", run, "--quick")
    assert code == 0
    text = (run / "view.html").read_text()
    assert "gone.h5" in text
    assert "gone.h5" in err
    assert "left out by --quick" in text
    assert len(re.findall("<svg", text)) == 2, "the curves of training are there"
    fails(1, "is not a run: it has no config.json", "view", tmp_path)
    fails(2, "expected a name that ends in .html", "view", run, "--out", tmp_path / "p.pdf")
    fails(2, "--samples must be at least 1", "view", run, "--samples", 0)


def test_steps_in_time_have_a_slider_over_time(tmp_path):
    data = generate(Advection(resolution=32, time=0.5, steps=12), tmp_path / "a.h5", n_train=4, n_test=2)
    settings = {"model": "FNO", "arguments": {"n_modes": [8], "hidden_channels": 8, "n_layers": 1}, "epochs": 1}
    hw.train(data=data, run_dir=tmp_path / "run", horizon=2, batch_size=8, quiet=True, **settings)
    config = read_config(tmp_path / "run" / "config.json")
    answers = gather_answers(hw.load(tmp_path / "run"), open_data(config), config, 2)
    shots = answers.gallery.samples[0].shots
    assert answers.gallery.kind == "line"
    assert [shot.label.split(",")[0] for shot in shots] == [f"step {t}" for t in range(1, 13)]
    truth = open_data(config).test.windows.source.states.read(0, slice(0, 13))
    np.testing.assert_allclose(shots[-1].truth, truth[12], rtol=1e-6)
    np.testing.assert_allclose(shots[0].inputs, truth[0], rtol=1e-6)
    assert len(answers.errors[0].curves) == 2


def test_spectra_of_known_fields():
    """A wave of number 3 has half its power of 1/2 there; on a sphere waves run along circles of latitude."""
    grid = torch.arange(32) / 32
    wave = torch.cos(2 * torch.pi * 3 * grid)
    on_torus = wave_spectrum(wave.expand(1, 1, 16, 32).contiguous(), Torus((1.0, 1.0)))
    assert float(on_torus[2]) == pytest.approx(0.25)
    assert float(on_torus.sum()) == pytest.approx(0.25)
    on_sphere = wave_spectrum(wave.expand(2, 1, 16, 32).contiguous(), Sphere())
    assert float(on_sphere[2]) == pytest.approx(0.25)
    assert float(on_sphere.sum()) == pytest.approx(0.25)
    ramp = grid.expand(1, 1, 32, 32).contiguous()
    on_box = wave_spectrum(ramp, Box((1.0, 1.0)))
    assert float(on_box[8:].sum() / on_box.sum()) < 1e-3, "the jump between the sides is no fine scale"
