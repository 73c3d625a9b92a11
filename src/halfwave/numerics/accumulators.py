"""What a device adds up in: how a matrix product's sums round, and who says so.

A bound on rounding errors is a guarantee of the arithmetic that it assumes. Storage formats are known; accumulators are
the device's own business, and differ:

- CPUs: oneDNN's default accumulation mode is "strict": sums of every floating-point product run in f32 (f64 for f64),
  each operation rounded to nearest (oneDNN developer guide, "accumulation mode"). The bf16 dot products of AVX512-BF16
  and AMX round to nearest and treat subnormal numbers as zero (Intel SDM, VDPBF16PS and TDPBF16PS).
- NVIDIA tensor cores multiply exactly and cut the aligned sum of a few products off after 24 bits or more; not
  documented by the vendor, found by experiment (Fasi, Higham, Mikaitis and Pranesh 2021 on V100, T4, A100; Khattak and
  Mikaitis 2025 on V100, A100, H100). By default torch also lets partial sums of fp16 and bf16 products be rounded to
  the format (`torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction`, and its bf16 twin): how often, nobody
  says.
- Elsewhere (Arm's bf16 instructions round to odd, Apple, XPU) nothing here is sure.

Where it is not known `known` is False, and what is computed from it is an estimate.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from halfwave.numerics.formats import FORMATS, Format
from halfwave.numerics.hardware import kind_of, multiplies_natively, narrows_fp32
from halfwave.numerics.stage_arithmetic import Arithmetic

_X86 = ("x86_64", "amd64", "i686")
_MEASURED_TENSOR_CORES = {(7, 0): "V100", (7, 5): "T4", (8, 0): "A100", (9, 0): "H100"}
# One product of a block of b >= 4 loses 2^-23 of the largest when it is aligned, the block's sum as much again when it
# is normalised: (1 + 2/b) 2^-23 for each product, rounded up to a power of two.
_TENSOR_CORE_UNIT = 2.0**-22


@dataclass(frozen=True)
class Accumulation:
    """How sums of products are rounded.

    Attributes:
        format: what partial sums are kept in: their range.
        unit: |fl(a + b) - (a + b)| <= unit |a + b|.
        nearest: rounding to nearest; other roundings add up to (1 + unit)^k instead of 1 + k unit.
        flushes: subnormal sums become zero.
        source: who says so.
        known: False where nobody does: then it is a guess.
    """

    format: Format
    unit: float
    nearest: bool = True
    flushes: bool = False
    source: str = "as given"
    known: bool = True

    @classmethod
    def to_nearest(cls, format: Format, source: str = "as given") -> Accumulation:
        return cls(format, format.unit_roundoff, source=source)

    def __str__(self) -> str:
        way = "to nearest" if self.nearest else f"with unit {self.unit:.2g}"
        return f"{self.format.name} {way} ({self.source}{'' if self.known else '; not known'})"


def accumulation(arith: Arithmetic, device: torch.device | str) -> Accumulation:
    """What products of this arithmetic are added up in on this device, as torch is set now."""
    kind = kind_of(device)
    if kind == "cpu":
        return _on_cpu(torch.bfloat16 if multiplies_parts_natively(arith, kind) else arith.compute)
    if kind == "cuda":
        return _on_cuda(arith.compute, torch.device(device))
    source = f"nothing is known of sums on {kind}"
    return Accumulation(_wide(arith.compute), 2.0**-22, nearest=False, source=source, known=False)


def multiplies_parts_natively(arith: Arithmetic, device_type: str) -> bool:
    """Whether products of bf16 parts may be those of bf16 instructions, which flush subnormal numbers."""
    return arith.format.parts > 1 and multiplies_natively(FORMATS["bf16"], device_type)


def multiplied_in(arith: Arithmetic, device: torch.device | str) -> Format:
    """The format that operands are rounded to before they are multiplied: tf32 for fp32 where CUDA is allowed to.

    bf16 parts are numbers of tf32: they stay what they are.
    """
    if arith.format.parts > 1:
        return arith.format
    if arith.compute is torch.float32 and kind_of(device) == "cuda" and _tf32_allowed():
        narrow = FORMATS["tf32"]
        return narrow if narrow.precision < arith.format.precision else arith.format
    return arith.format


def weakest(of: Iterable[Accumulation]) -> Accumulation:
    """One accumulation that stands for several: the largest unit, the shortest range, known where all are."""
    several = list(of)
    worst = max(several, key=lambda one: (one.unit, not one.nearest))
    return Accumulation(
        min((one.format for one in several), key=lambda format: format.largest),
        worst.unit,
        nearest=all(one.nearest for one in several),
        flushes=any(one.flushes for one in several),
        source="; ".join(dict.fromkeys(one.source for one in several)),
        known=all(one.known for one in several),
    )


def _wide(compute: torch.dtype) -> Format:
    return FORMATS["fp64" if compute is torch.float64 else "fp32"]


def _on_cpu(compute: torch.dtype) -> Accumulation:
    wide = _wide(compute)
    if compute is torch.float32 and narrows_fp32():
        source = "torch may multiply fp32 in bf16 here (fp32_precision or set_float32_matmul_precision)"
        return Accumulation(wide, wide.unit_roundoff, source=source, known=False)
    if compute in (torch.float32, torch.float64):
        return Accumulation.to_nearest(wide, f"{wide.name} of the CPU, IEEE 754")
    if platform.machine().lower() not in _X86:
        source = f"{platform.machine()}'s half-precision products may round to odd or add up in the format"
        return Accumulation(wide, 2.0**-22, nearest=False, flushes=True, source=source, known=False)
    flushes = compute is torch.bfloat16
    return Accumulation(wide, wide.unit_roundoff, flushes=flushes, source="oneDNN, strict accumulation in fp32")


def _on_cuda(compute: torch.dtype, device: torch.device) -> Accumulation:
    wide = _wide(compute)
    if compute is torch.float64 or (compute is torch.float32 and not _tf32_allowed()):
        return Accumulation.to_nearest(wide, f"{wide.name} of CUDA cores, IEEE 754")
    matmul = torch.backends.cuda.matmul
    if compute is torch.float16 and getattr(matmul, "allow_fp16_accumulation", False):
        half = FORMATS["fp16"]
        source = "allow_fp16_accumulation: tensor cores add up in fp16"
        return Accumulation(half, 2 * half.unit_roundoff, nearest=False, source=source, known=False)
    name = {torch.float16: "fp16", torch.bfloat16: "bf16"}.get(compute)
    switch = f"allow_{name}_reduced_precision_reduction"
    if name is not None and getattr(matmul, switch, True):
        source = f"{switch} lets torch round partial sums to {name}; set it to False to know"
        return Accumulation(wide, _TENSOR_CORE_UNIT, nearest=False, source=source, known=False)
    model = _tensor_cores(device)
    source = f"tensor cores of {model}, by experiment" if model else "tensor cores that nobody has measured"
    return Accumulation(wide, _TENSOR_CORE_UNIT, nearest=False, source=source, known=model is not None)


def _tensor_cores(device: torch.device) -> str | None:
    """The measured GPU with the same tensor cores; None without one."""
    if not torch.cuda.is_available():
        return None
    return _MEASURED_TENSOR_CORES.get(torch.cuda.get_device_capability(device))


def _tf32_allowed() -> bool:
    return bool(torch.backends.cuda.matmul.allow_tf32)
