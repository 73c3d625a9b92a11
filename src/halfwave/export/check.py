"""What a written file answers beside what torch answers: every export is checked before it has its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from halfwave.errors import InputError
from halfwave.export.program import Program
from halfwave.training import Operator

Run = Callable[[Tensor], Tensor]

# Relative L2 difference that a file may have, by the unit roundoff of the narrowest format that its policy names: in
# fp32 sums in another order, in half formats the same roundings at other places.
_LIMITS = ((2.0**-20, 1e-5), (2.0**-10, 5e-3), (1.0, 5e-2))


@dataclass(frozen=True)
class Difference:
    """Relative L2 difference of the answers to one input."""

    what: str
    relative: float

    def __str__(self) -> str:
        return f"{self.what}: {self.relative:.1e}"


def limit_of(program: Program) -> float:
    """The largest difference that is taken for rounding."""
    roundoff = max(format.unit_roundoff for format in program.policy.formats)
    return next(limit for most, limit in _LIMITS if roundoff <= most)


def compare(program: Program, run: Run, samples: Tensor | None = None) -> list[Difference]:
    """A file beside torch on random inputs of every shape it promises, and on real ones; InputError for another."""
    found = [_difference(program, run, *probe) for probe in _probes(program, samples)]
    worst = max(found, key=lambda difference: difference.relative)
    limit = limit_of(program)
    if not worst.relative <= limit:  # NaN fails as well
        raise InputError(f"the exported file answers otherwise than torch ({worst}; at most {limit:.0e}): not written")
    return found


def _difference(program: Program, run: Run, what: str, x: Tensor) -> Difference:
    with torch.no_grad():
        expected = program.reference(x)
    return Difference(what, relative_l2(run(x), expected))


def relative_l2(y: Tensor, expected: Tensor) -> float:
    return float((y.double() - expected.double()).norm() / expected.double().norm())


def _probes(program: Program, samples: Tensor | None) -> Iterable[tuple[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    for shape in program.shapes.probes():
        x = _like_data(program.reference, torch.randn(shape, generator=generator))
        yield f"random {' x '.join(map(str, shape))}", x
    if samples is not None:
        batch = samples[:4] if program.shapes.free_batch else samples[:1]
        yield f"{len(batch)} real", batch


def _like_data(operator: Operator, noise: Tensor) -> Tensor:
    """Noise with the mean and the standard deviation of the inputs that the operator was trained on."""
    return noise if operator.x_normalizer is None else operator.x_normalizer.decode(noise)
