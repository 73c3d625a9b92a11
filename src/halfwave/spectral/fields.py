"""Fields as they are given to a layer or a model: one clear line for what is not one."""

from __future__ import annotations

import torch
from torch import Tensor


def check_tensor(name: str, x: object, device: torch.device) -> Tensor:
    """`x` if it is a real floating-point tensor on `device`; TypeError or ValueError that says what it is otherwise."""
    if not isinstance(x, Tensor):
        array = type(x).__module__ == "numpy"
        hint = ", as torch.from_numpy makes one of an array" if array else ""
        raise TypeError(f"expected {name} to be a torch.Tensor{hint}, got {type(x).__name__}")
    if x.is_complex():
        raise TypeError(f"expected real {name}, got {x.dtype}: give the real and imaginary parts as channels")
    if not x.is_floating_point():
        raise TypeError(f"expected floating-point {name}, got {x.dtype}: convert it with .float()")
    if x.device != device:
        raise ValueError(f"{name} is on {x.device} and the weights are on {device}: move one of them with .to()")
    return x


def check_field(x: object, channels: int, axes: int, device: torch.device, grid: str | None = None) -> Tensor:
    """`x` if it is a field (B, channels, *grid) with so many grid axes, each with a point; B may be 0.

    `grid` names the axes in the error.
    """
    field = check_tensor("input", x, device)
    if field.ndim != axes + 2 or field.shape[1] != channels:
        raise ValueError(f"expected input (batch, {channels}, {grid or f'{axes} grid axes'}), got {tuple(field.shape)}")
    if 0 in field.shape[2:]:
        raise ValueError(f"expected input with at least one point on every grid axis, got {tuple(field.shape)}")
    return field
