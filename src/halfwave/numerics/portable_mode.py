"""Portable: within it every layer computes by operators that an exporter and every runtime know.

One mode for all layers, run eagerly as well as traced, with the same function as outside of it:

- the plain way of every kernel (`numerics.kernel`): no slices, no change in place, no derivative of its own;
- matrix products for every transform, no FFT and no complex number;
- fp32 tensors and products whatever the format, values rounded by casts where a policy has them narrow: the program
  does not depend on what the CPU multiplies that made it, nor on what the one multiplies that runs it;
- matrices as constants, made before anything is traced (a traced tensor has no numbers to keep); where the grid is
  free (`free_grid`), by operators inside the program.

Sizes may be symbols while a program is traced. A layer must not count with them (`range`, `len`), nor look anything up
by them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Portable:
    """The mode with what it keeps: constants by what they are made from.

    Attributes:
        free_grid: whether grids are known only when the program runs.
        sealed: no further constant may be made: the program is being traced.
        interpreted: whether a runtime runs it operator by operator, not a compiler that fuses them: by the operators
            then that such have their fastest ways for (convolutions of one point, products on views).
    """

    free_grid: bool = False
    interpreted: bool = False
    sealed: bool = False
    constants: dict[Hashable, Tensor] = field(default_factory=dict)

    def constant(self, key: Hashable, build: Callable[[], Tensor]) -> Tensor:
        """The constant of `key`; the program shares it among all layers that ask for it."""
        if key not in self.constants:
            if self.sealed:
                raise RuntimeError(f"a constant was not made before the program was traced: {key}")
            self.constants[key] = build()
        return self.constants[key]


# A global, as what the CPU multiplies is one (`hardware`), and guarded by torch.compile in the same way.
_mode: Portable | None = None


def portable() -> Portable | None:
    """The portable mode that is on; None outside."""
    return _mode


def interpreted() -> bool:
    """True in a portable program for runtimes that run it operator by operator."""
    return _mode is not None and _mode.interpreted


@contextmanager
def portably(mode: Portable | None = None) -> Iterator[Portable]:
    """Within, layers of this process compute portably."""
    global _mode
    before, _mode = _mode, mode or Portable()
    try:
        yield _mode
    finally:
        _mode = before


def compiling() -> bool:
    """True inside torch.compile; the portable mode has ways of its own, also where an exporter traces it."""
    return torch.compiler.is_compiling() and _mode is None


def nominal(size: int) -> int:
    """A size to plan with: itself, or 1 where it is a symbol, for which nothing can be looked up or compared."""
    return size if isinstance(size, int) else 1
