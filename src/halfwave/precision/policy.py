"""Policy: one number format for each role in a neural operator.

The roles are the stages of the FNO block (forward transform, contraction, inverse transform), the weights that the
contraction reads, and everything else (pointwise layers: what AMP does). The paper's four methods are named policies:

| name  | transforms, contraction, weights | pointwise |
| ----- | -------------------------------- | --------- |
| full  | fp32                             | fp32      |
| amp   | fp32                             | half      |
| half  | half                             | fp32      |
| mixed | half                             | half      |

``stream`` is mixed with the residual stream in the next format with more digits: fp16 where half is bf16, which takes
the same bytes and an eighth of its rounding, and fp32 where it is fp16. What mixed bf16 loses, it loses there: the
rounding of the pointwise layers adds up along the stream, that of the spectral ones hardly counts (`precision-swap`).
Training in it needs loss scaling where the stream is fp16. ``double`` is fp64 in every role. fp32 is the dtype of the
master weights: see `resolved`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from halfwave.errors import nearest
from halfwave.numerics import FORMATS, Format, default_half, get_format
from halfwave.precision.resolved import Resolved, resolve
from halfwave.precision.stabilizers import check_stabilizer

ROLES = ("forward_transform", "contraction", "inverse_transform", "pointwise", "weights")
NAMES = ("full", "amp", "half", "mixed")
PRECISIONS = (*NAMES, "stream", "double")
BLOCKS = ("FFF", "FFH", "FHF", "FHH", "HFF", "HFH", "HHF", "HHH")
SPECTRAL_ROLES = ("forward_transform", "contraction", "inverse_transform", "weights")
_HALF_ROLES = {"amp": ("pointwise",), "half": SPECTRAL_ROLES, "mixed": ROLES, "stream": SPECTRAL_ROLES}


@dataclass(frozen=True)
class Policy:
    """One format name for each role, and a stabilizer applied before the forward transform.

    The stabilizer ``"auto"`` is tanh where a half-precision FFT could overflow and none where it cannot (the gemm
    backend folds 1/N into its matrix, so its coefficients are means, bounded by max|v|), until a layer has computed:
    from then on it is the one that acted, in every format. Another name changes it.
    Accepts format names or `Format` objects; unknown ones raise ValueError.

    `layers` names parts of a model that have a policy of their own (``{"blocks.0": Policy(...)}``, or pairs); all that
    lies under such a name follows it, and the roles above hold everywhere else. A plan makes such policies.
    """

    forward_transform: str = "fp32"
    contraction: str = "fp32"
    inverse_transform: str = "fp32"
    pointwise: str = "fp32"
    weights: str = "fp32"
    stabilizer: str = "auto"
    name: str = "custom"
    layers: tuple[tuple[str, Policy], ...] = ()

    def __post_init__(self) -> None:
        for role in ROLES:
            object.__setattr__(self, role, get_format(getattr(self, role)).name)
        check_stabilizer(self.stabilizer)
        if not isinstance(self.name, str):
            raise ValueError(f"the name of a policy must be text, got {self.name!r}")
        pairs = self.layers.items() if isinstance(self.layers, Mapping) else self.layers
        object.__setattr__(self, "layers", tuple((name, policy) for name, policy in pairs))
        for name, policy in self.layers:
            if not isinstance(policy, Policy) or policy.layers:
                raise ValueError(f"the policy of layer {name!r} must be a Policy without layers of its own")

    @classmethod
    def named(
        cls,
        name: str,
        dtype: str | Format | torch.dtype | None = None,
        stabilizer: str = "auto",
        device: torch.device | str = "cpu",
    ) -> Policy:
        """One of the paper's four methods, ``"stream"``, ``"double"``, or a setting of its block ablation (``"HHF"``).

        `dtype` is what half means, by default what `device` does fast; ``"full"`` in fp64 is ``"double"``.
        """
        if name not in (*PRECISIONS, *BLOCKS):
            near = nearest(name, PRECISIONS)
            raise ValueError(f"unknown precision {name!r}: expected one of {', '.join(PRECISIONS)}{near}")
        half = default_half(device) if dtype is None else _as_format(dtype)
        if name in BLOCKS:
            return cls.block(name, half, stabilizer)
        if name in ("full", "double"):
            return cls._wide(name, half, stabilizer)
        _check_half(name, half)
        roles: dict[str, Any] = dict.fromkeys(_HALF_ROLES[name], half.name)
        if name == "stream":
            roles["pointwise"] = "fp16" if half.name == "bf16" else "fp32"
        return cls(**roles, stabilizer=stabilizer, name=name)

    @classmethod
    def _wide(cls, name: str, dtype: Format, stabilizer: str) -> Policy:
        """full or double; a half dtype, which a schedule hands to all of its phases, has nothing to act on."""
        if name == "double" and dtype.name == "fp32":
            raise ValueError("dtype fp32 contradicts precision 'double': expected fp64, or precision 'full'")
        if name == "double" or dtype.name == "fp64":
            return replace(cls.uniform("fp64", stabilizer), name="double")
        return cls(stabilizer=stabilizer, name="full")

    @classmethod
    def block(cls, setting: str, dtype: str | Format | torch.dtype | None = None, stabilizer: str = "auto") -> Policy:
        """A row of the paper's block ablation: three letters F or H for forward, contraction, inverse."""
        if len(setting) != 3 or set(setting) - {"F", "H"}:
            raise ValueError(f"unknown block setting {setting!r}: expected three letters F or H, such as 'HHF'")
        half = default_half() if dtype is None else _as_format(dtype)
        _check_half(setting, half)
        forward, contraction, inverse = (half.name if letter == "H" else "fp32" for letter in setting)
        return cls(forward, contraction, inverse, "fp32", contraction, stabilizer, setting)

    @classmethod
    def uniform(cls, dtype: str | Format | torch.dtype, stabilizer: str = "auto") -> Policy:
        """The same format in every role: fp64 serves as the reference of certificates and gradient checks."""
        name = _as_format(dtype).name
        return cls(name, name, name, name, name, stabilizer, name)

    def format(self, role: str) -> Format:
        """The `Format` of a role."""
        if role not in ROLES:
            raise ValueError(f"unknown role {role!r}: expected one of {', '.join(ROLES)}")
        return FORMATS[getattr(self, role)]

    def on(self, device: torch.device | str, dtype: torch.dtype = torch.float32) -> Resolved:
        """The arithmetic of each role (outside `layers`) on a device, for master weights of this dtype.

        A role in fp32 computes in the dtype of the weights, so that `model.double()` is fp64 throughout under
        ``"full"``, and outside the half roles under the others.
        """
        formats = self.forward_transform, self.contraction, self.inverse_transform, self.pointwise, self.weights
        return resolve(formats, device, dtype)

    def of(self, layer: str) -> Policy:
        """The policy of a module by its name in the model, one without layers.

        It is that of the longest name in `layers` that the module lies under, and the rest's where there is none.
        """
        above = [(name, policy) for name, policy in self.layers if layer == name or layer.startswith(f"{name}.")]
        if above:
            return max(above, key=lambda pair: len(pair[0]))[1]
        return replace(self, layers=()) if self.layers else self

    @property
    def formats(self) -> frozenset[Format]:
        """Every format that some role has, in some layer."""
        plain = (self, *(policy for _, policy in self.layers))
        return frozenset(policy.format(role) for policy in plain for role in ROLES)

    @property
    def is_wide(self) -> bool:
        """True when no role, in any layer, has a format narrower than fp32."""
        return all(format.name in ("fp32", "fp64") for format in self.formats)

    @property
    def emulated(self) -> bool:
        """True when some role has a format that exists only as rounding inside float32 (fp8, tf32)."""
        return any(format.emulated for format in self.formats)

    def with_(self, **changes: Any) -> Policy:
        """A copy with some roles (or the stabilizer) changed; layers with a policy of their own keep theirs."""
        unknown = set(changes) - {*ROLES, "stabilizer", "name"}
        if unknown:
            raise ValueError(f"unknown role {sorted(unknown)[0]!r}: expected one of {', '.join(ROLES)}, stabilizer")
        return replace(self, **{"name": "custom", **changes})

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; ``"layers"`` only where there are any."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "layers"}
        if self.layers:
            values["layers"] = {name: policy.to_dict() for name, policy in self.layers}
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Policy:
        unknown = set(values) - {f.name for f in fields(cls)}
        if unknown:
            raise ValueError(f"unknown policy field {sorted(unknown)[0]!r}: expected {', '.join(ROLES)}, stabilizer")
        layers = values.get("layers", {})
        if not isinstance(layers, Mapping) or not all(isinstance(policy, Mapping) for policy in layers.values()):
            raise ValueError(f"layers of a policy must be an object of policies by name, got {layers!r}")
        own = tuple((name, cls.from_dict(policy)) for name, policy in layers.items())
        return cls(**{**values, "layers": own})

    def brief(self) -> str:
        """Name and formats in a few words: ``mixed (bf16)``, ``stream (bf16, fp16)``, ``custom (fp32, fp16)``."""
        used = {format.name for format in self.formats}
        narrow = used - {"fp32"} if self.name in PRECISIONS else used
        return f"{self.name} ({', '.join(sorted(narrow or used))})"

    def __str__(self) -> str:
        roles = ", ".join(f"{role} {getattr(self, role)}" for role in ROLES)
        own = f", other formats in {', '.join(name for name, _ in self.layers)}" if self.layers else ""
        return f"{self.name} ({roles}, stabilizer {self.stabilizer}{own})"


def as_policy(value: str | Policy) -> Policy:
    """A policy, or the named one."""
    return value if isinstance(value, Policy) else Policy.named(value)


def _check_half(name: str, half: Format) -> None:
    """ValueError for a dtype that cannot be what half means in the precision `name`."""
    if not half.half:
        accepted = ", ".join(f.name for f in FORMATS.values() if f.half)
        raise ValueError(f"dtype {half} is not half: precision {name!r} takes one of {accepted}")


def _as_format(dtype: str | Format | torch.dtype) -> Format:
    if isinstance(dtype, torch.dtype):
        found = [f for f in FORMATS.values() if f.dtype is dtype]
        if not found:
            raise ValueError(f"no format for {dtype}: expected one of {', '.join(FORMATS)}")
        return found[0]
    return get_format(dtype)
