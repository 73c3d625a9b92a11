"""Tables, verdicts and pictures from plain data."""

import struct

import pytest
from matplotlib.axes import Axes

from halfwave.report.figures import draw
from halfwave.report.summary import Comparison, Line, Panel, Series, plus_minus, text_of
from halfwave.report.verdict import JudgedPart, Outcome, Verdict


def test_the_papers_figures_stand_beside_ours_and_figures_that_it_lacks_stand_alone():
    lines = (Line(("a",), (1.0, None), (2.0, 3.0)), Line(("b",), (None, None), (4.0, 5.0)))
    table = Comparison(("name",), ("error", "time"), lines)
    assert table.columns == ["name", "error, paper", "error, ours", "time"]
    assert table.rows == [["a", 1.0, 2.0, 3.0], ["b", None, 4.0, 5.0]]


def test_a_line_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        Comparison(("name",), ("error",), (Line(("a",), (), (1.0,)),))


def test_a_verdict_says_first_what_was_refuted():
    held, refuted = Outcome.of(True, "memory fell by 40%"), Outcome.of(False, "the error rose by 9%")
    parts = tuple(JudgedPart("a part", "9%", line, outcome) for line, outcome in ((7, held), (None, refuted)))
    verdict = Verdict(parts)
    assert verdict.status == "in part"
    assert verdict.sentence == (
        "Refuted (1 of 2 parts): the error rose by 9%. Confirmed (1 of 2 parts): memory fell by 40%."
    )
    assert [part.where for part in parts] == ["9%, line 7", "9%"]
    with pytest.raises(ValueError, match="unknown status 'good'"):
        Outcome("good", "all is well")


def test_values_as_text():
    assert [text_of(v) for v in (None, 0.00123456, 12345.6, 3, "x")] == ["–", "0.001235", "12346", "3", "x"]
    assert plus_minus([1.0, 1.2]) == "1.1 ± 0.1"
    assert plus_minus([1.0]) == "1"


def test_every_style_is_drawn_and_the_same_numbers_give_the_same_bytes():
    def panels(height):
        return [
            Panel(
                "a",
                "x",
                "y",
                (Series("l", (1, 2), (1.0, height), error=(0.1, 0.1)), Series("d", (1, 2), (1, 2), "dashed")),
            ),
            Panel("b", "x", "y", (Series("p", (1, 2), (1.0, 9.0), "points"),), xlog=True, ylog=True),
            Panel(
                "c",
                "",
                "y",
                (Series("one", ("u", "v"), (1.0, 2.0), "bars"), Series("two", ("u", "v"), (2.0, 1.0), "bars")),
            ),
            Panel("d", "x", "y", (Series("s", (1.0, 2.0), (1.0, 2.0), "balls", size=(1.0, 4.0)),)),
        ]

    picture = draw(panels(2.0))
    width, height = struct.unpack(">II", picture[16:24])
    assert width > height > 500
    assert draw(panels(2.0)) == picture
    assert draw(panels(3.0)) != picture


def test_an_axis_from_zero_shows_a_small_difference_as_small():
    series = (Series("s", (1.0, 2.0), (9.0, 9.1)),)
    assert draw([Panel("e", "x", "y", series, yzero=True)]) != draw([Panel("e", "x", "y", series)])


def test_a_series_looks_the_same_in_every_panel_whichever_others_it_lacks(monkeypatch):
    drawn = []

    def scatter(axes, *args, color, label, **rest):
        drawn.append((axes.get_label(), label, color))
        return original(axes, *args, color=color, label=label, **rest)

    original = Axes.scatter
    monkeypatch.setattr(Axes, "scatter", scatter)

    def balls(**labels):
        made = (Series(label, (1.0,), (2.0,), "balls", size=(1.0,), name=name) for name, label in labels.items())
        return Panel("p", "x", "y", tuple(made))

    draw([balls(full="full: 3 a second", amp="amp: 2", ours="ours: 1"), balls(full="full: 5 a second", ours="ours: 4")])
    colours = [color for _, _, color in drawn]
    assert colours[0] == colours[3]
    assert colours[2] == colours[4]
    assert len(set(colours)) == 3
    drawn.clear()
    draw([balls(**{f"s{n}": str(n) for n in some}) for some in (range(6), range(6, 12))])
    assert len({color for _, _, color in drawn[6:]}) == 6, "what has no fellow begins anew"
