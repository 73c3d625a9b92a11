"""The page of a run in a real Chromium: every kind of field, sliders, keys, time, a phone's width, no request."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

from halfwave.report import Curve, Gallery, LineChart, RunPage, Shot, ShownSample, run_page, write_run_page
from halfwave.report.run_page import packed, upright

_SPEC = importlib.util.spec_from_file_location("chromium", Path(__file__).parents[1] / "export" / "chromium.py")
chromium = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(chromium)
needs_chromium = pytest.mark.skipif(chromium.CHROMIUM is None, reason=chromium.MISSING)

EVIL = "<script>alert(1)</script>"


def gallery(kind, samples=3, times=1, channels=1):
    """Field number s at time t in channel c is 100 s + 10 t + c at every point but one, so that pixels say which."""
    shape = {"plane": (6, 8), "map": (6, 12), "line": (16,), "points": (20,)}[kind]

    def field(s, t, c):
        values = np.full(shape, 100.0 * s + 10 * t + c)
        values.flat[0] += 1
        return values

    shown = []
    for s in range(samples):
        shots = []
        for t in range(times):
            truth = np.stack([field(s, t, c) for c in range(channels)])
            inputs = truth[:0] if kind == "points" else truth[:1]
            shots.append(Shot(f"step {t + 1}", 0.01 * (s + 1) + 0.001 * t, inputs, truth, truth + 0.5))
        points = np.random.default_rng(s).random((20, 3)) if kind == "points" else None
        shown.append(ShownSample(f"sample {s} {EVIL}", shots, points))
    return Gallery(kind, shown, "A note.", ("input",), tuple(f"channel {c}" for c in range(channels)))


def page(**changes):
    curves = (Curve.of("train loss", [1, 2, 3, 4], [1.0, 0.5, None, 0.1]), Curve.of("test", [2, 4], [0.3, 0.2]))
    values = {
        "title": f"a run {EVIL}",
        "facts": {"model": EVIL, "test L2": "0.01"},
        "charts": {
            "Training": [LineChart("Loss", "epoch", "loss", curves)],
            "Errors": [LineChart("Errors", "rank", "error", curves)],
            "Spectra": [LineChart("Power", "waves", "power", curves, log_x=True)],
        },
        "gallery": gallery("plane"),
        "certificate": "Verdict: safe " + "x" * 200,
        "plan": (("policy", "time"), (("full", "1.00x"), ("mixed", "1.29x slower"))),
        "plan_note": "assumed: rtx-3090-ti",
        "settings": {"arguments": EVIL + "y" * 300},
    }
    return RunPage(**(values | changes))


def test_everything_is_escaped_and_nothing_is_asked_for():
    text = run_page(page())
    assert EVIL not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "default-src 'none'" in text
    assert not any(mark in text for mark in ("http://", "https://", 'src="//', "@import", "url("))


def test_a_part_that_is_missing_says_why(tmp_path):
    write_run_page(page(gallery=None, certificate="", missing={"Fields": "the data are gone"}), tmp_path / "p.html")
    text = (tmp_path / "p.html").read_text()
    assert "Not here: the data are gone" in text
    assert 'id="gallery"' not in text


def test_numbers_in_the_page_are_those_of_the_field():
    values = np.random.default_rng(0).normal(size=(5, 7))
    found = packed(values)
    import base64

    whole = np.frombuffer(base64.b64decode(found["data"]), "<u2").reshape(found["shape"])
    back = found["low"] + whole / 65535 * (found["high"] - found["low"])
    assert np.abs(back - values).max() <= (values.max() - values.min()) / 65535
    assert packed(np.ones((2, 2)))["low"] == 1.0
    # A plane has its first axis to the right and its second upwards; a map is as it is.
    assert upright(values, "plane")[-1, 3] == values[3, 0]
    assert upright(values, "map") is not None
    assert (upright(values, "map") == values).all()
    assert upright(np.zeros((300, 200)), "plane").shape == (67, 100)


def test_a_chart_puts_points_where_they_belong():
    chart = LineChart(
        "t", "x", "y", (Curve.of("a", [0, 10], [1.0, 100.0]), Curve.of("b", [5, 6, 7], [10.0, 0.0, 10.0]))
    )
    left, top, right, bottom = chart.frame
    (_, (line,)), (_, broken) = chart.lines
    assert line == f"{left:.1f},{bottom:.1f} {right:.1f},{top:.1f}"
    assert len(broken) == 2, "zero has no logarithm: the line is broken there"
    x, y = map(float, broken[0].split(","))
    assert (x, y) == (pytest.approx((left + right) / 2, abs=0.1), pytest.approx((top + bottom) / 2, abs=0.1))
    assert [tick.text for tick in chart.y_ticks] == ["1", "2", "5", "10", "20", "50", "100"]
    assert LineChart("t", "x", "y", (Curve.of("a", [1], [math.nan]),)).is_empty


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium.Browser(tmp_path_factory.mktemp("chromium"), width=375, dark=True) as opened:
        yield opened


def opened(browser, tmp_path, **changes):
    browser.events.clear()
    write_run_page(page(**changes), tmp_path / "view.html")
    browser.open(tmp_path / "view.html")
    browser.until("document.readyState === 'complete' && document.querySelector('#panels canvas')")
    return browser


def ends(browser, panel):
    """What stands at both ends of a picture's colours."""
    figure = f"document.querySelectorAll('#panels figure')[{panel}]"
    return browser.evaluate(f"[...{figure}.querySelectorAll('.bar span')].map(e => e.textContent)")


@needs_chromium
def test_a_page_on_a_phone_in_the_dark_by_keyboard(browser, tmp_path):
    opened(browser, tmp_path, gallery=gallery("plane", samples=3, times=4, channels=2))
    assert browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    assert browser.evaluate("document.querySelectorAll('#panels canvas').length") == 4
    assert browser.evaluate("document.querySelectorAll('svg.chart').length") == 3
    assert ends(browser, 1) == ["0", "1.5"]  # truth and prediction share their colours
    assert ends(browser, 3) == ["0", "0.5"]
    assert browser.evaluate("document.getElementById('error').textContent") == "0.01"
    for key in ("ArrowRight", "ArrowUp", "ArrowUp"):
        browser.key(key)
    assert ends(browser, 0) == ["120", "121"]
    assert browser.evaluate("document.getElementById('error').textContent") == "0.022"
    assert "sample 1 <script>" in browser.evaluate("document.getElementById('sample-label').textContent")
    browser.evaluate("(c => { c.value = 1; c.dispatchEvent(new Event('input')); })(document.getElementById('channel'))")
    assert ends(browser, 1) == ["121", "123"], "121 to 122.5 in three digits"
    # A slider that has the focus moves by its own keys, once.
    browser.evaluate("document.getElementById('time').focus()")
    browser.key("ArrowLeft")
    browser.until("document.getElementById('time-label').textContent === 'step 2'")
    assert browser.requests() == [(tmp_path / "view.html").as_uri()]
    assert browser.complaints() == []


@needs_chromium
def test_the_pixels_of_a_plane_are_its_values(browser, tmp_path):
    opened(browser, tmp_path)
    pixel = "(([x, y]) => [...document.querySelector('#panels canvas').getContext('2d').getImageData(x, y, 1, 1).data])"
    size = browser.evaluate("(c => [c.width, c.height])(document.querySelector('#panels canvas'))")
    assert size == [6, 8]
    assert browser.evaluate(f"{pixel}([0, 7])") == [253, 231, 37, 255], "the first point, below at the left, is largest"
    assert browser.evaluate(f"{pixel}([3, 3])") == [68, 1, 84, 255]
    assert browser.evaluate("document.getElementById('time-control').offsetParent === null")


@needs_chromium
@pytest.mark.parametrize(("kind", "canvases", "control"), [("map", 4, None), ("line", 2, None), ("points", 3, "turn")])
def test_other_kinds_are_drawn(browser, tmp_path, kind, canvases, control):
    opened(browser, tmp_path, gallery=gallery(kind))
    assert browser.evaluate("document.querySelectorAll('#panels canvas').length") == canvases
    drawn = (
        "[...document.querySelectorAll('#panels canvas')].map(c => "
        "c.getContext('2d').getImageData(0, 0, c.width, c.height).data.reduce((n, v) => n + (v > 0), 0))"
    )
    assert min(browser.evaluate(drawn)) > 100
    if control:
        before = browser.evaluate("document.querySelector('#panels canvas').toDataURL()")
        browser.evaluate(
            f"(c => {{ c.value = 200; c.dispatchEvent(new Event('input')); }})(document.getElementById('{control}'))"
        )
        assert browser.evaluate("document.querySelector('#panels canvas').toDataURL()") != before
    assert browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.complaints() == []
