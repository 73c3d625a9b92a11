"""What a person sees of long work: a live bar on a terminal, lines in a log file, nothing when quiet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from halfwave.errors import printable

_LOG_EVERY = 60.0  # seconds between lines within an epoch, in a log file


class PlainConsole(Console):
    """A console on which text means itself: brackets are no markup, colons no emoji, and it is made `printable`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, markup=False, emoji=False, highlight=False)

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(printable(each) if isinstance(each, str) else each for each in objects), **options)


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, refresh_per_second=4)


@contextmanager
def progress_of(what: str, console: PlainConsole) -> Iterator[Callable[[int, int], None]]:
    """A callback (done, total) that draws a bar with rate and remaining time, or lines in a log file."""
    if not console.is_terminal:
        yield _line_progress(what, console)
        return
    what = printable(what)
    with _bar(console) as bar:
        task = bar.add_task(what, total=None)

        def update(done: int, total: int) -> None:
            speed = bar.tasks[0].speed
            rate = f"  {speed:.3g}/s" if speed else ""
            bar.update(task, completed=done, total=total, description=f"{what}{rate}")

        yield update


def _line_progress(what: str, console: PlainConsole) -> Callable[[int, int], None]:
    """A line for each tenth of the work: a log file has no use for a moving bar."""
    shown = -1

    def update(done: int, total: int) -> None:
        nonlocal shown
        tenth = 10 * done // max(total, 1)
        if tenth > shown:
            shown = tenth
            console.print(f"{what}: {done}/{total}", soft_wrap=True)

    return update


class Display(AbstractContextManager["Display"]):
    """Progress of a training of `total` batches, on standard error, so that standard output stays for results."""

    def __init__(self, total: int, quiet: bool = False, console: PlainConsole | None = None) -> None:
        self.console = console or PlainConsole(stderr=True, quiet=quiet)
        self.total, self._started, self._begun, self._logged = total, time.monotonic(), 0, time.monotonic()
        self._bar: Progress | None = None
        if self.console.is_terminal and not quiet:
            self._bar = _bar(self.console)
            self._task = self._bar.add_task("training", total=total)

    def __enter__(self) -> Display:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, message: str) -> None:
        self.console.print(message, soft_wrap=True)

    def begin(self, batches: int) -> None:
        """Batches that a resumed run has done already."""
        self._begun = batches
        if self._bar is not None:
            self._bar.update(self._task, completed=batches)

    def batch(self, done: int, epoch: int, loss: float, rate: float) -> None:
        """`done` batches of the whole run; `loss` of the epoch so far; `rate` in samples per second."""
        text = f"epoch {epoch + 1}  loss {loss:.4g}  {rate:.4g} samples/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=text)
        elif time.monotonic() - self._logged > _LOG_EVERY:
            self._logged = time.monotonic()
            self.say(f"{text}  {done}/{self.total} batches{self._remaining(done)}")

    def epoch(self, line: str, done: int) -> None:
        """One line for a finished epoch, with the time that is left; above the bar on a terminal."""
        self._logged = time.monotonic()
        self.say(f"{line}{self._remaining(done)}")

    def _remaining(self, done: int) -> str:
        here = done - self._begun
        if here <= 0 or done >= self.total:
            return ""
        seconds = (time.monotonic() - self._started) / here * (self.total - done)
        minutes, seconds = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"  {hours:d}:{minutes:02d}:{seconds:02d} left"
