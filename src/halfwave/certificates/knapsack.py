"""Formats for many stages under a budget: a knapsack whose error is asked of the sensitivities, not added up.

Least cost for an error: from the cheapest formats, the change that lowers the error most for its cost, until it is
within the budget; then every change that saves cost and keeps to it, singly and in exchange for another. Least error
for a cost: the same from the widest formats. Both are within a few per cent of an exhaustive search where that can be
made (a test does), which the problem's size forbids elsewhere: three formats for twenty stages are 3^20 plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, permutations

from halfwave.certificates.stored_bytes import Stage

Formats = dict[Stage, str]
_SAME = 1.25
_EXCHANGES = 200  # looked at, those that save most first: there are hundreds more in a deep model


@dataclass(frozen=True)
class Knapsack:
    """The problem: formats for each stage, what they cost together, and what error they make together.

    Attributes:
        candidates: names of formats, the narrowest first and fp32 last.
        costs: of each stage in each format.
        error: of all stages in these formats.
    """

    candidates: tuple[str, ...]
    costs: Mapping[Stage, Mapping[str, float]]
    error: Callable[[Formats], float]

    def cost(self, formats: Formats) -> float:
        return sum(self.costs[stage][name] for stage, name in formats.items())

    def cheapest(self) -> Formats:
        """Each stage in its cheapest format; of equal ones the one with more digits, which comes later."""
        return {
            stage: min(reversed(self.candidates), key=lambda name, s=stage: self.costs[s][name])  # type: ignore[misc]
            for stage in self.costs
        }

    def widest(self) -> Formats:
        return dict.fromkeys(self.costs, self.candidates[-1])

    def least_cost(self, budget: float) -> Formats | None:
        """The cheapest formats found with an error within the budget; None where even the widest exceed it."""
        if self.error(self.widest()) > budget:
            return None
        formats = self.best_of_equals(self.cheapest())
        while self.error(formats) > budget:
            formats = self._widened(formats)
        return self._saved(formats, budget)

    def least_error(self, limit: float) -> Formats | None:
        """The formats with the least error found whose cost is within the limit; None where none are."""
        formats = self.cheapest()
        if self.cost(formats) > limit:
            return None
        formats = self.best_of_equals(formats)
        while True:
            better = [
                changed
                for changed in self.changes(formats)
                if self.cost(changed) <= limit and self.error(changed) < self.error(formats)
            ]
            if not better:
                return formats
            formats = min(better, key=self.error)

    def best_of_equals(self, formats: Formats) -> Formats:
        """Of formats that cost a stage the same (fp16 and bf16), the one with the least error, all else as it is."""
        for stage, name in formats.items():
            equal = [other for other in self.candidates if self.costs[stage][other] == self.costs[stage][name]]
            plans = [{**formats, stage: other} for other in reversed(equal)]
            least = min(map(self.error, plans))
            # More digits first, unless they lack range: below that factor an estimate tells nothing apart.
            formats = next(plan for plan in plans if self.error(plan) <= _SAME * least)
        return formats

    def _widened(self, formats: Formats) -> Formats:
        """The change that lowers the error's square most for its cost."""
        now, paid = self.error(formats), self.cost(formats)

        def worth(changed: Formats) -> float:
            gain, price = _gain(now, self.error(changed)), self.cost(changed) - paid
            return gain / price if price > 0 else float("inf") * (1 if gain > 0 else -1)

        return max(self._wider(formats), key=worth)

    def _saved(self, formats: Formats, budget: float) -> Formats:
        """Cheaper formats within the budget, as long as a change, or an exchange of two, makes them so."""
        while True:
            paid = self.cost(formats)
            cheaper = [c for c in self.changes(formats) if self.cost(c) < paid and self.error(c) <= budget]
            if not cheaper:
                exchanges = sorted(self._exchanges(formats), key=self.cost)[:_EXCHANGES]
                cheaper = list(islice((c for c in exchanges if self.error(c) <= budget), 1))
            if not cheaper:
                return formats
            formats = min(cheaper, key=self.cost)

    def changes(self, formats: Formats) -> Iterator[Formats]:
        for stage, name in formats.items():
            yield from ({**formats, stage: other} for other in self.candidates if other != name)

    def _wider(self, formats: Formats) -> Iterator[Formats]:
        for stage, name in formats.items():
            later = self.candidates[self.candidates.index(name) + 1 :]
            yield from ({**formats, stage: other} for other in later)

    def _exchanges(self, formats: Formats) -> Iterator[Formats]:
        """One stage to the widest format, another to one that it does not have."""
        paid = self.cost(formats)
        for up, down in permutations(formats, 2):
            raised = {**formats, up: self.candidates[-1]}
            for other in self.candidates:
                changed = {**raised, down: other}
                if self.cost(changed) < paid:
                    yield changed


def _gain(before: float, after: float) -> float:
    """How much the square of an error falls; from an overflow to none, most."""
    if before == float("inf"):
        return 1e300 if after < before else 0.0
    return before**2 - after**2
