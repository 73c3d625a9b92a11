"""Tables for people, by rich: on a console, or as text of 80 columns without colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from halfwave.errors import printable

WIDTH = 80


def build_table(
    title: str, labels: Sequence[str], figures: Sequence[str], rows: Iterable[Sequence[str]], total: int = 0
) -> Table:
    """Columns of `labels` on the left, of `figures` on the right; the last `total` rows are bold.

    Cells mean themselves: brackets are not rich's markup. A label that does not fit is folded, never cut.
    """
    table = Table(title=_text(title))
    for label in labels:
        table.add_column(_text(label), overflow="fold")
    for figure in figures:
        table.add_column(_text(figure), justify="right", overflow="fold")
    listed = list(rows)
    for index, row in enumerate(listed):
        table.add_row(*map(_text, row), style="bold" if index >= len(listed) - total else None)
    return table


def _text(cell: str) -> Text:
    return Text(printable(cell))


def table_text(table: Table) -> str:
    """The table as text, whatever the terminal."""
    console = Console(width=WIDTH, color_system=None, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get().rstrip("\n")
