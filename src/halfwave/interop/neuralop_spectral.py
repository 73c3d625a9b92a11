"""How neuraloperator's state dicts hold spectral weights: tltorch's factorized tensors, by the names of their parts.

| kind   | names                       | shapes                            |
| ------ | --------------------------- | --------------------------------- |
| dense  | tensor                      | (C, O, *K)                        |
| cp     | weights, factors.factor_n   | (R,), (size, R)                   |
| tucker | core, factors.factor_n      | (R_1, ..., R_N), (size, R_n)      |
| tt     | factors.factor_n            | (R_n, size, R_n+1)                |

Separable weights have no axis O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor


def spectral_state(state: Mapping[str, Tensor], layer: int) -> dict[str, Tensor]:
    """The parts of one layer's spectral weights."""
    prefix = f"fno_blocks.convs.{layer}.weight."
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def spectral_arguments(state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Arguments of `FNO` that the spectral weights of the first layer tell: modes, factorization, rank, separable."""
    parts = spectral_state(state, 0)
    factors = [parts[f"factors.factor_{n}"] for n in range(len(parts)) if f"factors.factor_{n}" in parts]
    kind, rank, sizes = _read(parts, factors)
    n_dim = state["fno_blocks.convs.0.bias"].ndim - 1
    modes = sizes[-n_dim:]
    return {
        "n_modes": (*modes[:-1], 2 * (modes[-1] - 1) if modes[-1] > 1 else 1),
        "factorization": kind,
        "rank": rank,
        "separable": len(sizes) == n_dim + 1,
    }


def _read(parts: Mapping[str, Tensor], factors: list[Tensor]) -> tuple[str | None, Any, list[int]]:
    """(factorization, rank, sizes of the dense tensor)."""
    if "tensor" in parts:
        return None, 1.0, list(parts["tensor"].shape)
    if "weights" in parts:
        return "cp", len(parts["weights"]), [len(f) for f in factors]
    if "core" in parts:
        return "tucker", tuple(parts["core"].shape), [len(f) for f in factors]
    if factors and all(f.ndim == 3 for f in factors):
        return "tt", (*(len(f) for f in factors), 1), [f.shape[1] for f in factors]
    raise ValueError(
        f"not spectral weights of neuraloperator: found {', '.join(parts) or 'none'}, expected those of a dense, cp, "
        "tucker or tt tensor"
    )
