"""Rooflines: how long an operator takes at the peak rates of a device, which stand here from vendors' data sheets.

The figures were written down from memory. `checked` says where they were found again, mostly in pages that quote a data
sheet, as the sheets themselves could not be opened; `unverified` names those that were found nowhere, and every record
says so. Rates are dense (without structured sparsity), half-precision products with fp32
accumulation. fp32 is the rate of ordinary products: PyTorch uses TF32 only when asked to. Peaks are never reached;
ratios of times built on them are a better guide than the times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch

from halfwave.errors import InputError, nearest
from halfwave.numerics import FORMATS
from halfwave.planner.op_costs import OperatorCall

GB = 10**9
TERA = 10**12
_NAMES = {format.dtype: name for name, format in FORMATS.items() if format.dtype is not None and not format.emulated}


@dataclass(frozen=True)
class Device:
    """A device of the table.

    Attributes:
        name: on the command line.
        kind: ``"cuda"`` or ``"cpu"``.
        memory: bytes; of a CPU, what a machine may have.
        fp32, half: FLOP/s of products in fp32, and in fp16 or bf16.
        bandwidth: bytes/s of its memory.
        overhead: seconds that every operator takes at least (a kernel's launch), stated and not from a data sheet.
        half_formats: that it multiplies itself; the others run at the rate of fp32.
        source: where the figures are from.
        checked: where they were looked up; empty for figures that nobody has.
        unverified: those that `checked` does not have.
    """

    name: str
    kind: str
    memory: int
    fp32: float
    half: float
    bandwidth: float
    source: str
    overhead: float = 5e-6
    half_formats: tuple[str, ...] = ("fp16", "bf16")
    checked: str = ""
    unverified: str = ""

    @property
    def sourced(self) -> str:
        """The source, and whether the figures were looked up."""
        return described_source(self.source, self.checked, self.unverified)


def described_source(source: str, checked: str, unverified: str) -> str:
    """Where figures are from, where they were found again, and which were not."""
    if not checked:
        return f"{source}; unverified"
    return f"{source}; checked: {checked}" + (f"; unverified: {unverified}" if unverified else "")


_H100 = "archive-lib.hpctech.co.jp/gpuproduct/nvidia-h100.html, a vendor's page of NVIDIA's table"
_A100 = "glennklockwood.com/garden/processors/A100, which quotes NVIDIA's data sheet"
_ALL = (
    Device("v100", "cuda", 32 * GB, 15.7 * TERA, 125 * TERA, 900 * GB,
           "NVIDIA V100 data sheet (SXM2)", half_formats=("fp16",),
           checked="V100.md of huggingface.co/datasets/lukeleeai/kernelbench-rag-content; 125 TFLOPS also in "
                   "developer.nvidia.com/programming-tensor-cores-cuda-9-0"),
    Device("t4", "cuda", 16 * GB, 8.1 * TERA, 65 * TERA, 320 * GB, "NVIDIA T4 data sheet", half_formats=("fp16",),
           checked="sysrqmts.com/en/gpus/nvidia/tesla/t4"),
    Device("a100-40gb", "cuda", 40 * GB, 19.5 * TERA, 312 * TERA, 1555 * GB, "NVIDIA A100 data sheet (SXM4 40GB)",
           checked=_A100),
    Device("a100-80gb", "cuda", 80 * GB, 19.5 * TERA, 312 * TERA, 2039 * GB, "NVIDIA A100 data sheet (SXM4 80GB)",
           checked=_A100),
    Device("h100-sxm", "cuda", 80 * GB, 67 * TERA, 989 * TERA, 3350 * GB,
           "NVIDIA H100 data sheet (SXM5; half of the figure with sparsity)",
           checked=f"{_H100}; glennklockwood.com/garden/processors/h100, which quotes NVIDIA's white paper"),
    Device("h100-pcie", "cuda", 80 * GB, 51 * TERA, 756 * TERA, 2000 * GB,
           "NVIDIA H100 data sheet (PCIe; half of the figure with sparsity)", checked=_H100),
    Device("l4", "cuda", 24 * GB, 30.3 * TERA, 121 * TERA, 300 * GB,
           "NVIDIA L4 data sheet (half of the figure with sparsity)",
           checked="half precision and memory: grokipedia.com/page/NVIDIA_L4_vs_L40S, which quotes its sheet; fp32: "
                   "pcpartcomparison.com/gpu/tesla-t4-vs-l4"),
    Device("rtx-a6000", "cuda", 48 << 30, 38.7 * TERA, 154.8 * TERA, 768 * GB,
           "NVIDIA RTX A6000 data sheet (half of the figure with sparsity)",
           checked="llmperf.net/categories/gpu/Nvidia-A6000-GPUs, which quotes Microway's comparison; fp32 in "
                   "sysrqmts.com/es/gpus/compare/nvidia-rtx-a6000-vs-nvidia-tesla-p40"),
    Device("rtx-3090", "cuda", 24 << 30, 35.6 * TERA, 71 * TERA, 936 * GB, "NVIDIA Ampere GA102 white paper",
           checked="gpu.spicedreamphone.com/en/gpu/a40-pcie-vs-geforce-rtx-3090",
           unverified="half precision with fp32 accumulation"),
    Device("rtx-3090-ti", "cuda", 24 << 30, 40 * TERA, 80 * TERA, 1008 * GB,
           "NVIDIA Ampere GA102 white paper, scaled to the clock and cores of the RTX 3090 Ti",
           checked="fp32: wccftech.com/nvidia-geforce-rtx-4090-is-the-first-gaming-graphics-card-to-deliver-100-tflops",
           unverified="half precision, memory bandwidth"),
    Device("rtx-4090", "cuda", 24 << 30, 82.6 * TERA, 165.2 * TERA, 1008 * GB, "NVIDIA Ada GPU white paper",
           checked="waredb.com/processor/nvidia-geforce-rtx-4090"),
    Device("xeon-8380", "cpu", 256 << 30, 5.9 * TERA, 5.9 * TERA, 204.8 * GB,
           "Intel ARK: 40 cores x 2.3 GHz x 64 FLOP (AVX-512), 8 channels of DDR4-3200", 5e-6, ()),
    Device("xeon-8480", "cpu", 512 << 30, 7.2 * TERA, 114.7 * TERA, 307.2 * GB,
           "Intel ARK: 56 cores x 2.0 GHz x 64 FLOP (AVX-512), 1024 in bf16 (AMX), 8 channels of DDR5-4800",
           5e-6, ("bf16",),
           checked="cores and channels: servethehome.com/intel-xeon-max-9480-deep-dive",
           unverified="clock, FLOP of a cycle, rate of the memory"),
    Device("epyc-7763", "cpu", 256 << 30, 5.0 * TERA, 5.0 * TERA, 204.8 * GB,
           "AMD: 64 cores x 2.45 GHz x 32 FLOP (AVX2), 8 channels of DDR4-3200", 5e-6, (),
           checked="cores and clock: techgage.com/article/amd-epyc-milan-launch-performance",
           unverified="FLOP of a cycle, channels"),
    Device("epyc-9654", "cpu", 384 << 30, 7.4 * TERA, 14.7 * TERA, 460.8 * GB,
           "AMD: 96 cores x 2.4 GHz x 32 FLOP, 64 in bf16 (AVX-512), 12 channels of DDR5-4800", 5e-6, ("bf16",),
           checked="cores, clock and channels: hpctech.co.jp/product/amd-epyc-9004-series",
           unverified="FLOP of a cycle"),
)  # fmt: skip

DEVICES: Mapping[str, Device] = MappingProxyType({device.name: device for device in _ALL})


_SHORT = {"h100": "h100-sxm", "a100": "a100-80gb"}


def get_device(name: str) -> Device:
    """The device called `name` (h100 and a100 for short); InputError with the names of the table otherwise."""
    known = _SHORT.get(name.lower(), name.lower())
    if known not in DEVICES:
        raise InputError(f"unknown device {name!r}: expected one of {', '.join(DEVICES)}{nearest(name, DEVICES)}")
    return DEVICES[known]


@dataclass(frozen=True)
class Roofline:
    """max(flops / peak rate, bytes / bandwidth) + overhead, with the rates of a data sheet."""

    device: Device

    def describe(self) -> str:
        return f"roofline of {self.device.name} ({self.device.sourced})"

    def seconds(self, operator: OperatorCall) -> float:
        if operator.is_view:
            return 0.0
        compute = operator.flops / self._rate(operator.dtype)
        return max(compute, operator.nbytes / self.device.bandwidth) + self.device.overhead

    def _rate(self, dtype: torch.dtype) -> float:
        if _NAMES.get(dtype) in self.device.half_formats:
            return self.device.half
        return self.device.fp32 / 2 if dtype is torch.float64 else self.device.fp32
