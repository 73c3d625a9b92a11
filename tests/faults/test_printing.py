"""Names that come from files and from a command line mean themselves: no markup, no escapes, no mathematics."""

import ast
import io
from pathlib import Path

import h5py
import numpy as np
import pytest
from matplotlib.figure import Figure

import halfwave
from halfwave.cli import run
from halfwave.display import PlainConsole, progress_of
from halfwave.errors import InputError, drawable, printable
from halfwave.tables import build_table, table_text

SOURCE = Path(halfwave.__file__).parent
HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp.exe\udc80[/bold][link=x]:smile:"


def is_harmless(text):
    return all(c.isprintable() or c == "\n" for c in text) and text.encode() is not None


def test_what_is_not_to_be_seen_is_spelled_out_and_all_else_stays():
    assert printable("a\x1b[2Jb") == "a\\x1b[2Jb"
    assert printable("\u202e\udc80") == "\\u202e\\udc80"
    assert printable("ü[/x]\n\té") == "ü[/x]\n\té"
    assert is_harmless(printable(HOSTILE))
    assert str(InputError(f"cannot read {HOSTILE}")) == f"cannot read {printable(HOSTILE)}"


def test_consoles_tables_and_bars_show_names_as_they_are():
    console = PlainConsole(file=io.StringIO(), force_terminal=True, color_system=None, width=400, legacy_windows=False)
    console.print(HOSTILE, soft_wrap=True)
    shown = console.file.getvalue()
    assert is_harmless(shown)
    assert "[/bold][link=x]:smile:" in shown
    assert is_harmless(table_text(build_table(HOSTILE, [HOSTILE], [], [[HOSTILE]])))
    with progress_of(HOSTILE, console) as progress:
        progress(1, 2)
    assert "owned\x07" not in console.file.getvalue()
    assert "[/bold][link=x]" in console.file.getvalue()


@pytest.mark.parametrize("name", ["[/data].h5", "$x_{$.h5", "[link=file]\x1b[31m.h5"])
def test_data_and_train_end_well_whatever_the_file_is_called(name, tmp_path, capfd):
    out = tmp_path / name
    make = ["data", "darcy", "--resolution", "8", "--n-train", "2", "--n-test", "1", "--workers", "1"]
    assert run([*make, "--out", str(out)]) == 0
    tiny = ["--epochs", "1", "--arguments", "n_modes=[2,2]", "hidden_channels=2", "n_layers=1"]
    assert run(["train", "fno", "--data", str(out), "--out", str(tmp_path / f"{name}-run"), *tiny]) == 0
    captured = capfd.readouterr()
    assert printable(name) in captured.out.replace("\n", "")
    assert "\x1b" not in captured.out + captured.err


def test_escapes_in_names_of_a_file_do_not_reach_the_terminal(tmp_path, capfd):
    with h5py.File(tmp_path / "bad.h5", "w") as file:
        file["\x1b[2Jnothing"] = np.zeros(3)
    assert run(["train", "fno", "--data", str(tmp_path / "bad.h5"), "--out", str(tmp_path / "run")]) == 1
    assert run(["train", "fno", "--data", str(tmp_path / "\x1b[31m.h5"), "--out", str(tmp_path / "run")]) == 1
    assert run(["\x1b[31m"]) == 2
    captured = capfd.readouterr()
    assert is_harmless(captured.out + captured.err)
    assert captured.err.count("halfwave: ") == 3


def test_a_dollar_in_a_title_is_a_dollar(tmp_path):
    figure = Figure()
    figure.suptitle(drawable("$x_{$ \x1b \udc80"))
    figure.savefig(tmp_path / "title.png", format="png")


def test_only_the_display_makes_consoles_and_nothing_is_printed_past_it():
    """`print` is for JSON, whose escapes are its own, for text that is ours alone, and for what `printable` gave."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            where = f"{path.relative_to(SOURCE)}:{node.lineno}"
            if node.func.id == "Console":
                assert path.name == "tables.py", f"{where} makes a console of its own"
            if node.func.id == "print":
                text = ast.unparse(node)
                assert path.name == "cli.py" or "json.dumps" in text or "printable" in text, f"{where} prints {text}"
