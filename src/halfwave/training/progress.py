"""What a person sees of a run: a live bar on a terminal, one line per epoch in a log file, nothing when quiet."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_LOG_EVERY = 60.0  # seconds between lines within an epoch, in a log file


class Display(AbstractContextManager["Display"]):
    """Progress of `total` batches, on standard error, so that standard output stays for results."""

    def __init__(self, total: int, quiet: bool = False, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, quiet=quiet, highlight=False)
        self.total, self._started, self._begun, self._logged = total, time.monotonic(), 0, time.monotonic()
        self._bar: Progress | None = None
        if self.console.is_terminal and not quiet:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=self.console, refresh_per_second=4)
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
        self.console.print(message, soft_wrap=True, markup=False)

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

    def epoch(self, row: Mapping[str, Any], done: int) -> None:
        """One line for a finished epoch; above the bar on a terminal."""
        self._logged = time.monotonic()
        tests = "".join(
            f"  test {name} {row[f'test_{name}']:.4g}" for name in ("l2", "h1") if row[f"test_{name}"] is not None
        )
        rate = "" if row["samples_per_second"] is None else f"  {row['samples_per_second']:.4g} samples/s"
        self.say(
            f"epoch {row['epoch']:>3}  {row['policy']:<5}  train loss {row['train_loss']:.4g}{tests}"
            f"  lr {row['learning_rate']:.2g}{rate}{self._remaining(done)}"
        )

    def _remaining(self, done: int) -> str:
        here = done - self._begun
        if here <= 0 or done >= self.total:
            return ""
        seconds = (time.monotonic() - self._started) / here * (self.total - done)
        minutes, seconds = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"  {hours:d}:{minutes:02d}:{seconds:02d} left"
