"""What a policy does to the error against the truth: the figure that users notice, and what it means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from halfwave.certificates.finite_sample import Interval
from halfwave.certificates.percent_text import percent

Kind = Literal["hardly", "raises", "lowers", "cannot tell"]

HARDLY = 0.05
"""A change of the error by at most this share of itself is called small."""


@dataclass(frozen=True)
class TestErrors:
    """Relative L2 errors against the truth, of each sample, in full precision and under the policy.

    `change` is an interval for the mean of their difference over all inputs; None where an error is not finite.
    """

    full: Tensor
    half: Tensor
    change: Interval | None

    @property
    def kind(self) -> Kind | None:
        """What the interval says: |change| <= HARDLY * error, surely up, surely down, or none of these."""
        if self.change is None:
            return None
        low, high = self.change.low, self.change.high
        if max(-low, high) <= HARDLY * float(self.full.mean()):
            return "hardly"
        return "raises" if low > 0 else "lowers" if high < 0 else "cannot tell"

    def rows(self) -> Iterator[tuple[str, str]]:
        """What a person asks, and the answer."""
        yield "The error against the truth is", f"{percent(self.half.mean())}; in full precision {self._full}"
        if self.change is not None:
            yield "  the mean of all inputs changes by", f"{_points(self.change)} ({_sure(self.change)})"

    def sentence(self, policy: str) -> str:
        """The change in one sentence; empty where there is no interval."""
        if self.change is None or self.kind is None:
            return ""
        verb = {"hardly": "hardly changes", "raises": "raises", "lowers": "lowers", "cannot tell": "may change"}
        text = f"{policy} {verb[self.kind]} the test error: {percent(self.half.mean())} with it, {self._full} without"
        text += f", in the mean of all inputs {_points(self.change)} ({_sure(self.change)})"
        if self.kind == "cannot tell":
            text += f"; {_count(self.change.samples)} cannot tell more"
        return text + "."

    def to_dict(self) -> dict[str, Any]:
        change = None if self.change is None else self.change.to_dict()
        return {"full": self.full, "half": self.half, "change": change}

    @property
    def _full(self) -> str:
        return percent(self.full.mean())


def _points(change: Interval) -> str:
    low, high = (f"{100 * end:+.2g}" for end in (change.low, change.high))
    return f"{low} to {high} points"


def _sure(change: Interval) -> str:
    return f"{100 * (1 - change.alpha):.4g}% sure"


def _count(samples: int) -> str:
    return f"{samples} samples" if samples > 1 else "one sample"
