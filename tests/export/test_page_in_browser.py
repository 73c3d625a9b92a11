"""The page in headless Chromium: drawn on, and its numbers read back."""

import numpy as np
import pytest
import torch
from chromium import CHROMIUM, MISSING, Browser

from halfwave.cli import run
from halfwave.data import open_dataset
from halfwave.data.elliptic import solve_elliptic
from halfwave.errors import InputError
from halfwave.export import export
from halfwave.export.page.familiarity import features
from halfwave.export.page.web_runtime import web_runtime
from halfwave.training import load

RESOLUTION = 32


def _runtime_missing():
    try:
        web_runtime()
    except InputError as error:
        return str(error)
    return None


pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason=MISSING),
    pytest.mark.skipif(_runtime_missing() is not None, reason=f"PAGE NOT LOOKED AT: {_runtime_missing()}"),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that has hardly learned: what the page shows of it is the same as what torch says, and that is enough."""
    folder = tmp_path_factory.mktemp("page")
    data = f"data darcy --resolution {RESOLUTION} --n-train 16 --n-test 6 --workers 1 --out {folder / 'darcy.h5'}"
    assert run(data.split()) == 0
    options = "--precision full --epochs 1 --arguments n_modes=[8,8] hidden_channels=8 n_layers=1"
    assert run(f"train darcy --data {folder / 'darcy.h5'} --out {folder / 'run'} {options}".split()) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def page(trained):
    written = export(trained, trained / "page.html", weights="fp16")
    assert written.bytes <= 12 << 20
    return written.path


def _answers(browser):
    browser.until("window.operatorPage && operatorPage.state.answered && operatorPage.state.truth")


def _array(browser, name):
    values = browser.evaluate(f"Array.from(operatorPage.{name})")
    return torch.tensor(values, dtype=torch.float64).reshape(RESOLUTION, RESOLUTION)


def _relative(a, b):
    return float((a - b).norm() / b.norm())


def _check_numbers(browser, trained):
    """Prediction, solution and error of the page, beside torch's and the generator's solver."""
    browser.evaluate("operatorPage.idle()")
    x, y, u = (_array(browser, name) for name in ("input", "state.prediction", "state.truth"))
    with torch.no_grad():
        expected = load(trained / "model.safetensors")(x.float()[None, None])[0, 0].double()
    assert _relative(y, expected) <= 5e-4
    assert _relative(u, torch.from_numpy(solve_elliptic(x.numpy(), np.ones_like(x.numpy())))) <= 1e-6
    shown = float(browser.evaluate("document.getElementById('error').textContent").removesuffix("%")) / 100
    assert shown == pytest.approx(_relative(y, u), abs=1e-4)
    return x


def test_drawing_is_answered_as_torch_answers(page, trained, tmp_path):
    with Browser(tmp_path) as browser:
        browser.open(page)
        _answers(browser)
        first = _check_numbers(browser, trained)
        sample = open_dataset(trained.parent / "darcy.h5").test[:1][0][0, 0].double()
        assert torch.equal(first, sample)
        assert browser.evaluate("document.getElementById('note').className") == ""

        place = "document.getElementById('input').getBoundingClientRect()"
        left, top, width, height = browser.evaluate(f"(r => [r.x, r.y, r.width, r.height])({place})")
        browser.evaluate("document.getElementById('value').value = 0")
        browser.mouse("mousePressed", left + 0.2 * width, top + 0.5 * height, 1)
        for step in range(1, 7):
            browser.mouse("mouseMoved", left + (0.2 + 0.1 * step) * width, top + 0.5 * height, 1)
        browser.mouse("mouseReleased", left + 0.8 * width, top + 0.5 * height)
        drawn = _check_numbers(browser, trained)
        assert (drawn[16, 7:25] == drawn.min()).all()

        browser.evaluate("document.getElementById('input').focus(); document.getElementById('value').value = 1")
        for _ in range(3):
            browser.key("ArrowDown")
        browser.key(" ", "Space", " ")
        painted = _check_numbers(browser, trained)
        assert painted[19, 16] == painted.max()

        browser.evaluate("document.getElementById('fill').click()")
        note = browser.evaluate("document.getElementById('note').textContent")
        assert note.startswith("Unlike the training data")
        assert browser.requests() == [page.as_uri()]
        assert browser.complaints() == []


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_a_phone_in_light_and_dark(page, tmp_path, dark):
    with Browser(tmp_path, width=360, dark=dark) as browser:
        browser.open(page)
        _answers(browser)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 360
        paper, ink = (
            sum(map(int, browser.evaluate(f"getComputedStyle(document.body).{name}")[4:-1].split(",")))
            for name in ("backgroundColor", "color")
        )
        assert (paper < ink) == dark


def test_features_are_the_same_in_python_and_in_the_page(page, tmp_path):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(1, RESOLUTION, RESOLUTION, generator=generator, dtype=torch.float64) * 9 + 3
    with Browser(tmp_path) as browser:
        browser.open(page)
        browser.until("window.operatorPage")
        values = x.flatten().tolist()
        found = browser.evaluate(f"features({values}, {RESOLUTION}, {RESOLUTION}, 3, 12)")
    assert found == pytest.approx(features(x, 3, 12)[0].tolist(), rel=1e-9)
