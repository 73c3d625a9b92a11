"""Signals during training: the first one asks the loop to save and stop, a second SIGINT stops at once."""

from __future__ import annotations

import signal
import threading
from contextlib import AbstractContextManager
from types import FrameType, TracebackType
from typing import Any

_CAUGHT = (signal.SIGINT, signal.SIGTERM)


class Interrupts(AbstractContextManager["Interrupts"]):
    """While active, SIGINT and SIGTERM set `requested`; outside the main thread signals are left as they are.

    A `worker` (one of several processes) ignores SIGINT: a terminal sends it to all of them, and the parent passes one
    request on.
    """

    def __init__(self, worker: bool = False) -> None:
        self.requested = False
        self._worker = worker
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._catch) for number in _CAUGHT}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self._worker:
            return
        if number == signal.SIGINT and self.requested:
            raise KeyboardInterrupt
        self.requested = True
