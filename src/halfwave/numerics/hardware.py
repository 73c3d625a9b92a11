"""The hardware: all that the library asks of the machine that it runs on, and what follows from the answers.

No other module asks a CPU anything (of GPUs torch.cuda is asked where one is used). What differs between machines:

- `multiplies_natively` (does the CPU multiply bf16, fp16?): what products are taken in (`numerics.arithmetic`), and by
  it transform matrices, the backend that `spectral.cost` finds cheaper, the roundings that a bound charges
  (`certificates.conv_bound`, `numerics.accumulators`), planned memory, `repr`; the order of candidates in
  `planner.precision`.
- `tiles_are_missing` (a virtual machine that claims AMX and has none): bf16 is not multiplied natively there.
- `thread_count`: how `models.pointwise` cuts a field (where half is not multiplied natively), and the last bits of
  every sum (data are made, and experiments run, `on_threads(1)`, so that their numbers do not depend on it).
- `bf16_tiles` (has it AMX tiles?): what multiplies the bf16 parts of `numerics.split_products`.
- `narrows_fp32` (may fp32 be multiplied in less?): whether a bound of fp32 is one (`numerics.accumulators`).
- `core_count`, `memory_bytes`: how many processes make data; the memory that `halfwave plan` plans for.
- `free_memory_bytes`, `mapped_bytes`: how much of a file is read at once; the limit of a process that tries a file.
- `kind_of`, `default_half` (which device?): slices or one piece, native products, the half format that nobody named.

Storing a narrow format always saves memory. Multiplying in it only saves time where the device has the
instructions; elsewhere products are taken in float32 on values rounded to the format, which is what the
instructions would do (exact products, fp32 accumulation), and the result is rounded again.

A test, or whoever plans for another machine, says what the machine is: `cpu_multiplies`, `on_threads`, `meta_as`. torch
multiplies half formats on every CPU, only slowly on most, so what is said can be run as well as planned.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

import torch

from halfwave.numerics.compiler import constant_when_compiled
from halfwave.numerics.formats import FORMATS, Format
from halfwave.numerics.missing_tiles import tiles_are_missing

# Tensors on `meta` hold no numbers: they stand for those of another device, this kind of one.
_STANDS_FOR: ContextVar[str] = ContextVar("halfwave_meta_stands_for", default="cpu")
# What `cpu_multiplies` says; None is what the CPU says itself. A global and not a ContextVar: every thread of a process
# computes on the same CPU, and torch.compile guards globals, so that a graph of the other arithmetic is never run.
_said: tuple[str, ...] | None = None


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
    return _found(format.name) if _said is None else format.name in _said


@contextmanager
def cpu_multiplies(*formats: str) -> Iterator[None]:
    """Within, the CPU of this process (all threads) multiplies these half formats natively and no others.

    `cpu_multiplies("bf16")` is an AVX512-BF16 or AMX machine, `cpu_multiplies()` one without half-precision products.
    What is cached is cached by the arithmetic that follows, and a compiled model compiles again.
    """
    unknown = set(formats) - {"bf16", "fp16"}
    if unknown:
        raise ValueError(f"unknown half format {sorted(unknown)[0]!r}: expected bf16, fp16")
    global _said
    before, _said = _said, formats
    try:
        yield
    finally:
        _said = before


# torch.compile takes the answer as given; it cannot look into torch.cpu.
@constant_when_compiled
def _found(name: str) -> bool:
    return name in _native_half()


@lru_cache(maxsize=1)
def _native_half() -> frozenset[str]:
    probes = {
        "bf16": ("_is_avx512_bf16_supported", "_is_amx_tile_supported", "_is_arm_bf16_supported"),
        "fp16": ("_is_amx_fp16_supported", "_is_avx512_fp16_supported"),
    }
    found = {
        name for name, asked in probes.items() if any(getattr(torch.cpu, probe, lambda: False)() for probe in asked)
    }
    return frozenset(found - {"bf16"} if tiles_are_missing() else found)


def narrows_fp32() -> bool:
    """Whether torch has been allowed to multiply fp32 in bf16 or tf32 on this CPU."""
    # "none" follows the wider setting, whose default is IEEE; older versions of torch have the second one only.
    matmul = getattr(torch.backends.mkldnn, "matmul", None)
    narrow = getattr(matmul, "fp32_precision", "none") in ("bf16", "tf32")
    return narrow or torch.get_float32_matmul_precision() != "highest"


def bf16_tiles(device: torch.device | str) -> AbstractContextManager[None]:
    """Within, fp32 operands that are bf16 numbers are multiplied by AMX's tiles, where this CPU has them.

    Such products are exact, so nothing but their time changes. A compiled program multiplies them in fp32.
    """
    here = kind_of(device) == "cpu" and not torch.compiler.is_compiling() and _has_tiles()
    return _narrowed_fp32() if here else nullcontext()


@constant_when_compiled
def _has_tiles() -> bool:
    asked = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    return bool(asked()) and not tiles_are_missing() and hasattr(torch.backends.mkldnn, "matmul")


@contextmanager
def _narrowed_fp32() -> Iterator[None]:
    """oneDNN rounds fp32 operands to bf16, multiplies those and answers in fp32; for every thread of the process."""
    matmul = getattr(torch.backends.mkldnn, "matmul")  # noqa: B009, its types do not know it
    before = matmul.fp32_precision
    matmul.fp32_precision = "bf16"
    try:
        yield
    finally:
        matmul.fp32_precision = before


def default_half(device: torch.device | str = "cpu") -> Format:
    """fp16 on CUDA, as in the paper; bf16 elsewhere (the half format that CPUs multiply, where they do)."""
    return FORMATS["fp16" if torch.device(device).type == "cuda" else "bf16"]


def thread_count() -> int:
    """Threads that one operation of torch is shared by."""
    return torch.get_num_threads()


@contextmanager
def on_threads(count: int) -> Iterator[None]:
    """Within, torch computes on this many threads: the order of a sum, and so its last bit, depends on them."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def core_count() -> int:
    """Cores of this machine; 1 where it does not say."""
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Main memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_memory_bytes() -> int:
    """What this process may still take: of the machine's memory, of its control group's, of its own limits."""
    free = [memory_bytes(), *_machine_free(), *_group_free(), *_process_free()]
    return max(0, min(free))


def _machine_free() -> Iterator[int]:
    with suppress(OSError, ValueError), open("/proc/meminfo", encoding="ascii") as file:
        yield from (1024 * int(line.split()[1]) for line in file if line.startswith("MemAvailable:"))


def _group_free() -> Iterator[int]:
    """Of a container, whose files say what is there to it."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with suppress(OSError, ValueError):
            most, now = (int(Path("/sys/fs/cgroup", name).read_text()) for name in (limit, used))
            yield most - now


def _process_free() -> Iterator[int]:
    """Of `ulimit -v` and `ulimit -d`: what is left beside the pages that are taken."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # not on every system

        for kind, taken in zip((resource.RLIMIT_AS, resource.RLIMIT_DATA), _taken(0, 5), strict=True):
            most = resource.getrlimit(kind)[0]
            if most != resource.RLIM_INFINITY:
                yield most - taken


def mapped_bytes() -> int:
    """All that this process has mapped, as `ulimit -v` counts it; OSError where the system does not say."""
    return _taken(0)[0]


def _taken(*columns: int) -> list[int]:
    pages = Path("/proc/self/statm").read_text().split()
    return [os.sysconf("SC_PAGE_SIZE") * int(pages[column]) for column in columns]


def describe_cpu() -> str:
    """One line for records: instruction set, threads, and the half formats multiplied natively."""
    native = [n for n in ("bf16", "fp16") if multiplies_natively(FORMATS[n], "cpu")]
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{capability}, {thread_count()} threads, native half: {', '.join(native) or 'none'}"
