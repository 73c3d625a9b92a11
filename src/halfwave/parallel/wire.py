"""Bytes on the wire, counted where collectives are called: what this process sends to others.

An exchange sends every part that is not its own. A sum over P processes of n bytes is a ring: each sends
2 (P - 1) / P · n. Beside the count stands the formula (`traffic`), which has to agree with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class WireBytes:
    """What was sent while it was active, by purpose: ``"modes"``, ``"points"`` (of a GINO), ``"gradients"``,
    ``"sums"``, ``"grid"``."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def add(self, purpose: str, nbytes: int) -> None:
        self.sent[purpose] += nbytes
        self.calls[purpose] += 1

    @property
    def total(self) -> int:
        return sum(self.sent.values())


_ACTIVE: list[WireBytes] = []


@contextmanager
def count_wire() -> Iterator[WireBytes]:
    """Within, every collective of this package is counted, in the backward pass as well."""
    counter = WireBytes()
    _ACTIVE.append(counter)
    try:
        yield counter
    finally:
        _ACTIVE.remove(counter)


def record(purpose: str, nbytes: int) -> None:
    """A collective sends this many bytes; one that sends nothing is none."""
    for counter in _ACTIVE if nbytes else ():
        counter.add(purpose, nbytes)
