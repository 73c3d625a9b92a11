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
    n_dim = state["fno_blocks.convs.0.bias"].ndim - 1
    modes = _read(parts)[2][-n_dim:]
    return {"n_modes": (*modes[:-1], both_signs(modes[-1])), **weight_arguments(parts, n_dim)}


def weight_arguments(parts: Mapping[str, Tensor], n_axes: int) -> dict[str, Any]:
    """Arguments of `SpectralConv` that weights with `n_axes` axes of modes tell: factorization, rank, separable."""
    kind, rank, sizes = _read(parts)
    return {"factorization": kind, "rank": rank, "separable": len(sizes) == n_axes + 1}


def both_signs(kept: int) -> int:
    """n_modes of a last axis on which the frequencies 0 .. kept-1 are kept: the smallest such number."""
    return 2 * (kept - 1) if kept > 1 else 1


def _read(parts: Mapping[str, Tensor]) -> tuple[str | None, Any, list[int]]:
    """(factorization, rank, sizes of the dense tensor)."""
    factors = [parts[f"factors.factor_{n}"] for n in range(len(parts)) if f"factors.factor_{n}" in parts]
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
