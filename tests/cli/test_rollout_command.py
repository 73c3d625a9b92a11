"""`halfwave rollout` and `evaluate --rollout`: figures, pictures, precision along the way, and what stops them."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import halfwave as hw
from halfwave.data import Advection, generate
from halfwave.models import Unrolled, Unrolling
from halfwave.training import Operator, save
from halfwave.training.parting import accumulated, compare_precisions, measure_growth
from halfwave.training.rollout import crossing
from halfwave.training.spectra import Spectrum

SETTINGS = {"model": "FNO", "arguments": {"n_modes": [8], "hidden_channels": 8, "n_layers": 1}, "epochs": 2}


@pytest.fixture(scope="module")
def stepped(tmp_path_factory):
    """A run on advection, and its data."""
    folder = tmp_path_factory.mktemp("time")
    data = generate(Advection(resolution=32, time=0.5, steps=12), folder / "advection.h5", n_train=6, n_test=3)
    hw.train(data=data, run_dir=folder / "run", horizon=2, residual=True, batch_size=8, quiet=True, **SETTINGS)
    return folder / "run", data


def test_rollout_writes_figures_pictures_and_an_animation(command, stepped):
    run, _ = stepped
    code, out, err = command("rollout", run, "--steps", "8")
    assert code == 0, err
    assert "correlation time" in out
    assert "safe" in out
    result = json.loads((run / "rollout" / "rollout.json").read_text())
    assert len(result["mean_error"]) == result["steps"] == 8
    assert result["interval"] == pytest.approx(0.5 / 12)
    low, middle, high = (result["quantiles"][q] for q in ("0.1", "0.5", "0.9"))
    assert all(a <= b <= c for a, b, c in zip(low, middle, high, strict=True))
    assert set(result["spectra"]["steps"]) == {"2", "4", "8"}
    parting = result["parting"]
    assert parting["step_error_from"] == "certificate"
    assert 0.2 < parting["step_error"] / parting["differences"][0] < 5  # predicted without running half
    with np.load(run / "rollout" / "rollout.npz") as states:
        truth, found = states["truth"], states["prediction"]
    error = np.linalg.norm(found[0] - truth[0]) / np.linalg.norm(truth[0])
    assert min(low[0], error) <= error <= max(result["quantiles"]["0.9"][0] * 1.5, error)
    with Image.open(run / "rollout" / "rollout.png") as picture, Image.open(run / "rollout" / "rollout.gif") as film:
        assert picture.size[0] > 800
        assert film.n_frames == 8


def test_evaluate_with_rollout_gives_the_same_errors(command, stepped, fails, tmp_path):
    run, data = stepped
    code, out, err = command("evaluate", run, "--rollout", "5", "--json")
    assert code == 0, err
    own = json.loads(out)["mean_error"]
    _, out, _ = command("rollout", run, "--data", data, "--steps", "5", "--json", "--against", "none",
                        "--animation", "html", "--out", tmp_path / "out")  # fmt: skip
    assert json.loads(out)["mean_error"] == pytest.approx(own, rel=1e-5)
    assert "<html" in (tmp_path / "out" / "rollout.html").read_text()[:100]
    fails(1, "expected 1 to 12", "evaluate", run, "--rollout", "13")


def test_a_rollout_that_blows_up_stops_with_a_line(command, stepped, tmp_path):
    _, data = stepped
    torch.manual_seed(0)
    model = hw.FNO([4], 1, 1, 4, n_layers=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8)
    save(Operator(Unrolled(model, Unrolling(1)), None, None), tmp_path / "wild.safetensors")
    code, out, err = command("rollout", tmp_path / "wild.safetensors", "--data", data, "--against", "none")
    assert code == 0, err
    assert "stopped: trajectory" in out
    assert "blew up at step" in out


def test_models_that_do_not_step_are_told_so(fails, trained):
    fails(1, "was not trained to step in time", "rollout", trained)


def test_crossing_and_accumulated_error():
    assert crossing([0.9, 0.7], 0.8) == pytest.approx(1.5)
    assert crossing([0.9, 0.85], 0.8) == 2
    assert accumulated(1e-3, 0.0, 10) == pytest.approx(1e-2)
    d = [0.0]
    for _ in range(5):
        d.append(1e-3 + np.exp(0.3) * d[-1])
    assert accumulated(1e-3, 0.3, 5) == pytest.approx(d[-1])


def test_growth_of_a_linear_map_is_its_largest_eigenvalue():
    class Linear(torch.nn.Module):
        def forward(self, x):
            return torch.fft.irfft(torch.fft.rfft(x) * torch.tensor([0.1, 0.5, 1.2, 0.3, 0.2]), n=8)

    x = torch.randn(2, 1, 8)
    assert measure_growth(Operator(Unrolled(Linear(), Unrolling(1)), None, None), x, 60) == pytest.approx(
        np.log(1.2), abs=1e-3
    )


def test_spectra_are_parsevals_and_know_vorticity():
    x = torch.arange(16) / 16 * 2 * np.pi
    field = (torch.cos(3 * x)[:, None] + 0 * x)[None, None, None]  # B x steps x C x grid
    for is_vorticity in (False, True):
        spectrum = Spectrum((2 * np.pi, 2 * np.pi), is_vorticity)
        spectrum.add(field, 2 * field)
        found = spectrum.to_dict()["steps"]["1"]
        energy, enstrophy = (np.array(found["truth"][name]) for name in ("energy", "enstrophy"))
        assert energy.sum() == pytest.approx(0.25 / (9 if is_vorticity else 1))
        assert np.argmax(energy) == 2
        assert enstrophy.sum() == pytest.approx(9 * energy.sum())
        assert np.sum(found["prediction"]["energy"]) == pytest.approx(4 * energy.sum())


def test_the_error_of_a_change_counts_as_much_as_the_state_changes():
    """One state hardly changes, and its change errs much: the product of means would be ten times the mean product."""

    class Change(hw.FNO):
        def forward(self, x):
            return torch.where(x > 0, 1e-3 * x, 0.5 * x)

    x = torch.tensor([1.0, -1.0]).reshape(2, 1, 1).expand(2, 1, 8)
    stepper = Operator(
        Unrolled(Change([4], 1, 1, 4, n_layers=1), Unrolling(1, residual=True, increments=(1.0,))), None, None
    )
    predicted = torch.tensor([0.2, 0.01], dtype=torch.float64)
    parting = compare_precisions(stepper, x, hw.Policy.named("mixed"), [0.1], step_error=lambda *_: predicted)
    assert parting.step_error == pytest.approx((0.2 * 0.001 / 1.001 + 0.01 * 0.5 / 1.5) / 2, rel=1e-5)
