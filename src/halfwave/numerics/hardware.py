"""Which formats a device multiplies natively, and which half format to take when nobody says.

Storing a narrow format always saves memory. Multiplying in it only saves time where the device has the
instructions; elsewhere products are taken in float32 on values rounded to the format, which is what the
instructions would do (exact products, fp32 accumulation), and the result is rounded again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

import torch

from halfwave.numerics.formats import FORMATS, Format

# Tensors on `meta` hold no numbers: they stand for those of another device, this kind of one.
_STANDS_FOR: ContextVar[str] = ContextVar("halfwave_meta_stands_for", default="cpu")


def kind_of(device: torch.device | str) -> str:
    """The kind of device that computes: cpu, cuda, ...; for `meta` the kind that it stands for (see `meta_as`)."""
    kind = device if isinstance(device, str) else device.type
    return _STANDS_FOR.get() if kind == "meta" else kind


@contextmanager
def meta_as(kind: str) -> Iterator[None]:
    """Within, every layer treats `meta` tensors as it treats tensors on this kind of device.

    A layer decides by its device how to work: in slices or in one piece, in which dtype products are taken. A plan made
    on `meta` has to take the same decisions as the run that it is made for.
    """
    token = _STANDS_FOR.set(kind)
    try:
        yield
    finally:
        _STANDS_FOR.reset(token)


def multiplies_natively(format: Format, device_type: str) -> bool:
    """True where a matrix product with operands in `format` is as fast as in fp32, or faster."""
    if format.emulated:
        return False
    if not format.half:
        return True
    if kind_of(device_type) != "cpu":
        return True
    return _cpu_has(format.name)


# torch.compile takes the answer as given; it cannot look into torch.cpu.
@torch.compiler.assume_constant_result
def _cpu_has(name: str) -> bool:
    return name in _native_half()


@lru_cache(maxsize=1)
def _native_half() -> frozenset[str]:
    probes = {
        "bf16": ("_is_avx512_bf16_supported", "_is_amx_tile_supported", "_is_arm_bf16_supported"),
        "fp16": ("_is_amx_fp16_supported", "_is_avx512_fp16_supported"),
    }
    return frozenset(
        name for name, asked in probes.items() if any(getattr(torch.cpu, probe, lambda: False)() for probe in asked)
    )


def default_half(device: torch.device | str = "cpu") -> Format:
    """fp16 on CUDA, as in the paper; bf16 elsewhere (the half format that CPUs multiply, where they do)."""
    return FORMATS["fp16" if torch.device(device).type == "cuda" else "bf16"]


def describe_cpu() -> str:
    """One line for records: instruction set, threads, and the half formats multiplied natively."""
    native = [n for n in ("bf16", "fp16") if multiplies_natively(FORMATS[n], "cpu")]
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{capability}, {torch.get_num_threads()} threads, native half: {', '.join(native) or 'none'}"
