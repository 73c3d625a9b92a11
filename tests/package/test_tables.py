"""Tables: figures in line, text that means itself, 80 columns, no colour."""

from halfwave.tables import build_table, table_text


def test_figures_stand_on_the_right_and_brackets_mean_themselves():
    rows = [["darcy [bold]", "1.5", "-"], ["car", "12.25", "[red]3"]]
    lines = table_text(build_table("a [title]", ["data"], ["L2", "ratio"], rows, total=1)).splitlines()
    assert lines[0].strip() == "a [title]"
    assert lines[4:6] == ["│ darcy [bold] │   1.5 │      - │", "│ car          │ 12.25 │ [red]3 │"]
    assert "\x1b" not in "".join(lines)


def test_a_long_label_is_folded_within_80_columns_and_nothing_is_lost(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("FORCE_COLOR", "1")
    name = "x" * 150
    text = table_text(build_table("", ["name"], ["error"], [[name, "1.000e-03"]]))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("x") == 150
    assert "1.000e-03" in text
    assert "\x1b" not in text
