"""How neuraloperator's state dicts hold spectral weights: tltorch's factorized tensors, by the names of their parts.

| kind   | names                       | shapes                            |
| ------ | --------------------------- | --------------------------------- |
| dense  | tensor                      | (C, O, *K)                        |
| cp     | weights, factors.factor_n   | (R,), (size, R)                   |
| tucker | core, factors.factor_n      | (R_1, ..., R_N), (size, R_n)      |
| tt     | factors.factor_n            | (R_n, size, R_n+1)                |

Separable weights have no axis O. Parts are complex, or real pairs with a last axis of 2 (always so on the sphere, where
the one axis of modes is that of the degrees).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def spectral_state(state: Mapping[str, Tensor], layer: int) -> dict[str, Tensor]:
    """The parts of one layer's spectral weights."""
    prefix = f"fno_blocks.convs.{layer}.weight."
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def complex_weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict with all of its spectral weights as complex tensors."""
    return {name: _as_complex(name, tensor) if _is_weight(name) else tensor for name, tensor in state.items()}


def paired_weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict with its spectral weights as real pairs."""
    return {name: torch.view_as_real(t) if _is_weight(name) else t for name, t in state.items()}


def spectral_modes(state: Mapping[str, Tensor], n_axes: int) -> tuple[int, ...]:
    """How many modes along each of `n_axes` axes the weights of the first layer are for."""
    return tuple(_read(spectral_state(state, 0))[2][-n_axes:])


def is_spherical(state: Mapping[str, Tensor], n_dim: int) -> bool:
    """Whether the weights are pairs with a mode axis less than the grid has axes, as those of an SFNO are."""
    parts = spectral_state(state, 0)
    pairs = bool(parts) and not any(tensor.is_complex() for tensor in parts.values())
    return pairs and len(_read(spectral_state(complex_weights(state), 0))[2]) == n_dim + 1


def weight_arguments(parts: Mapping[str, Tensor], n_axes: int) -> dict[str, Any]:
    """Arguments of `SpectralConv` that weights with `n_axes` axes of modes tell: factorization, rank, separable."""
    kind, rank, sizes = _read(parts)
    if len(sizes) - n_axes not in (1, 2):
        raise ValueError(f"spectral weights with {len(sizes)} axes do not belong to {n_axes} axes of modes")
    return {"factorization": kind, "rank": rank, "separable": len(sizes) == n_axes + 1}


def both_signs(kept: int) -> int:
    """n_modes of a last axis on which the frequencies 0 .. kept-1 are kept: the smallest such number."""
    return 2 * (kept - 1) if kept > 1 else 1


def _is_weight(name: str) -> bool:
    return name.startswith("fno_blocks.convs.") and ".weight." in name


def _as_complex(name: str, tensor: Tensor) -> Tensor:
    if tensor.is_complex():
        return tensor
    if tensor.ndim < 2 or tensor.shape[-1] != 2:
        raise ValueError(f"{name!r} of shape {tuple(tensor.shape)} is neither complex nor real pairs")
    return torch.view_as_complex(tensor.contiguous())


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
