"""Policy: one number format for each role in a neural operator.

The roles are the stages of the FNO block (forward transform, contraction, inverse transform), the weights that the
contraction reads, and everything else (pointwise layers: what AMP does). The paper's four methods are named policies:

| name  | transforms, contraction, weights | pointwise |
| ----- | -------------------------------- | --------- |
| full  | fp32                             | fp32      |
| amp   | fp32                             | half      |
| half  | half                             | fp32      |
| mixed | half                             | half      |
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from halfwave.numerics import FORMATS, Format, default_half, get_format
from halfwave.precision.stabilizers import check_stabilizer

ROLES = ("forward_transform", "contraction", "inverse_transform", "pointwise", "weights")
NAMES = ("full", "amp", "half", "mixed")
BLOCKS = ("FFF", "FFH", "FHF", "FHH", "HFF", "HFH", "HHF", "HHH")
_SPECTRAL = ("forward_transform", "contraction", "inverse_transform", "weights")
_HALF_ROLES = {"full": (), "amp": ("pointwise",), "half": _SPECTRAL, "mixed": ROLES}


@dataclass(frozen=True)
class Policy:
    """One format name for each role, and a stabilizer applied before the forward transform.

    The stabilizer ``"auto"`` is tanh where a half-precision FFT could overflow and none where it cannot (the gemm
    backend folds 1/N into its matrix, so its coefficients are means, bounded by max|v|).
    Accepts format names or `Format` objects; unknown ones raise ValueError.
    """

    forward_transform: str = "fp32"
    contraction: str = "fp32"
    inverse_transform: str = "fp32"
    pointwise: str = "fp32"
    weights: str = "fp32"
    stabilizer: str = "auto"
    name: str = "custom"

    def __post_init__(self) -> None:
        for role in ROLES:
            object.__setattr__(self, role, get_format(getattr(self, role)).name)
        check_stabilizer(self.stabilizer)

    @classmethod
    def named(
        cls,
        name: str,
        dtype: str | Format | torch.dtype | None = None,
        stabilizer: str = "auto",
        device: torch.device | str = "cpu",
    ) -> Policy:
        """One of the paper's four methods, or a setting of its block ablation such as ``"HHF"`` (see `block`).

        `dtype` is what half means, by default what `device` does fast.
        """
        if name not in (*NAMES, *BLOCKS):
            raise ValueError(f"unknown precision {name!r}: expected one of {', '.join(NAMES)}")
        half = default_half(device) if dtype is None else _as_format(dtype)
        if name in BLOCKS:
            return cls.block(name, half, stabilizer)
        roles = dict.fromkeys(_HALF_ROLES[name], half.name)
        return cls(**roles, stabilizer=stabilizer, name=name)

    @classmethod
    def block(cls, setting: str, dtype: str | Format | torch.dtype | None = None, stabilizer: str = "auto") -> Policy:
        """A row of the paper's block ablation: three letters F or H for forward, contraction, inverse."""
        if len(setting) != 3 or set(setting) - {"F", "H"}:
            raise ValueError(f"unknown block setting {setting!r}: expected three letters F or H, such as 'HHF'")
        half = default_half() if dtype is None else _as_format(dtype)
        forward, contraction, inverse = (half.name if letter == "H" else "fp32" for letter in setting)
        return cls(forward, contraction, inverse, "fp32", contraction, stabilizer, setting)

    @classmethod
    def uniform(cls, dtype: str | Format | torch.dtype, stabilizer: str = "none") -> Policy:
        """The same format in every role: fp64 serves as the reference of certificates and gradient checks."""
        name = _as_format(dtype).name
        return cls(name, name, name, name, name, stabilizer, name)

    def format(self, role: str) -> Format:
        """The `Format` of a role."""
        if role not in ROLES:
            raise ValueError(f"unknown role {role!r}: expected one of {', '.join(ROLES)}")
        return FORMATS[getattr(self, role)]

    @property
    def emulated(self) -> bool:
        """True when some role has a format that exists only as rounding inside float32 (fp8, tf32)."""
        return any(self.format(role).emulated for role in ROLES)

    def with_(self, **changes: str) -> Policy:
        """A copy with some roles (or the stabilizer) changed."""
        unknown = set(changes) - {*ROLES, "stabilizer", "name"}
        if unknown:
            raise ValueError(f"unknown role {sorted(unknown)[0]!r}: expected one of {', '.join(ROLES)}, stabilizer")
        return replace(self, **{"name": "custom", **changes})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Policy:
        unknown = set(values) - {*ROLES, "stabilizer", "name"}
        if unknown:
            raise ValueError(f"unknown policy field {sorted(unknown)[0]!r}: expected {', '.join(ROLES)}, stabilizer")
        return cls(**values)

    def __str__(self) -> str:
        roles = ", ".join(f"{role} {getattr(self, role)}" for role in ROLES)
        return f"{self.name} ({roles}, stabilizer {self.stabilizer})"


def as_policy(value: str | Policy) -> Policy:
    """A policy, or the named one."""
    return value if isinstance(value, Policy) else Policy.named(value)


def _as_format(dtype: str | Format | torch.dtype) -> Format:
    if isinstance(dtype, torch.dtype):
        found = [f for f in FORMATS.values() if f.dtype is dtype]
        if not found:
            raise ValueError(f"no format for {dtype}: expected one of {', '.join(FORMATS)}")
        return found[0]
    return get_format(dtype)
