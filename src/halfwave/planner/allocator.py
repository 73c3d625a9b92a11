"""What a device takes beyond the live tensors: rounding and fragmentation of its allocator, scratch of its libraries.

None of this is counted, because it happens below the dispatcher. It is stated instead, as bytes and as a sentence:

On CUDA:
- rounding: every block is a multiple of 512 bytes. Replayed exactly: it is what `max_memory_allocated` shows.
- fragmentation: blocks up to 1 MiB come from segments of 2 MiB, those up to 10 MiB from segments of 20 MiB, larger ones
  from segments of their own in multiples of 2 MiB, and a segment goes back only when all of it is free.
  Assumed: 5% of the rounded peak, and at least one segment of both small kinds.
- matrix products: cuBLAS's workspace in PyTorch's default configuration, 2 x 4 MiB + 8 x 16 KiB.
- FFT: cuFFT's work area, as much as the largest spectrum that one call reads or writes.
- convolutions: cuDNN's workspace, as much as the largest result of one call.
- context: CUDA itself and the kernels of PyTorch's libraries, 512 MiB.
On a CPU blocks are multiples of 64 bytes, pages are mapped one by one, and the scratch of matrix products and
convolutions stays in the cache; an FFT has a work area as above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from halfwave.measure import LiveBytes

MIB = 1 << 20
_GRANULE = {"cuda": 512, "cpu": 64}
_FRAGMENTED = 0.05
_LEAST_FRAGMENTED = 22 * MIB
_CUBLAS = 2 * 4 * MIB + 8 * 16 * 1024
_CONTEXT = 512 * MIB


class Scratch:
    """Watches for the calls whose libraries ask for scratch space, and keeps the size of the largest of each."""

    def __init__(self) -> None:
        self.fft = 0
        self.convolution = 0

    def watch(self, func: Any, args: Any, result: Any) -> None:
        """Told of every operator, by `LiveBytes`."""
        name = func._schema.name
        if "_fft_" in name:
            self.fft = max(self.fft, _complex_bytes((args, result)))
        elif "convolution" in name:
            self.convolution = max(self.convolution, _bytes(result))


def _bytes(values: Any) -> int:
    return max((t.nbytes for t in tree_leaves(values) if isinstance(t, Tensor)), default=0)


def _complex_bytes(values: Any) -> int:
    return _bytes([t for t in tree_leaves(values) if isinstance(t, Tensor) and t.is_complex()])


@dataclass(frozen=True)
class Overhead:
    """Bytes beyond the live ones, and the sentences that say what was assumed.

    Attributes:
        rounding: the rounded peak less the peak itself.
        fragmentation: share of the rounded peak that no tensor can use.
        workspace: scratch space of the libraries.
        context: what the device holds before the first tensor.
    """

    rounding: int
    fragmentation: int
    workspace: int
    context: int
    assumptions: tuple[str, ...]

    @property
    def margin(self) -> int:
        """Rounding and fragmentation."""
        return self.rounding + self.fragmentation


def estimate_overhead(live: LiveBytes, scratch: Scratch, kind: str) -> Overhead:
    """The overhead of a step that these two have watched, on a kind of device."""
    granule = _GRANULE.get(kind, _GRANULE["cuda"])
    rounded = live.peak(granule=granule)
    rounding = rounded - live.peak()
    if kind == "cpu":
        return Overhead(
            rounding=rounding,
            fragmentation=0,
            workspace=scratch.fft,
            context=0,
            assumptions=(
                f"allocator: every tensor rounded to {granule} bytes",
                f"FFT: a work area of {_mib(scratch.fft)}, the largest spectrum of one call",
            ),
        )
    fragmentation = max(_LEAST_FRAGMENTED, int(_FRAGMENTED * rounded))
    return Overhead(
        rounding=rounding,
        fragmentation=fragmentation,
        workspace=_CUBLAS + scratch.fft + scratch.convolution,
        context=_CONTEXT,
        assumptions=(
            f"allocator: every tensor rounded to {granule} bytes, {_FRAGMENTED:.0%} of that lost to fragmentation "
            f"({_mib(_LEAST_FRAGMENTED)} at least)",
            f"products: cuBLAS's workspace of {_CUBLAS / MIB:.3g} MiB, PyTorch's default",
            f"FFT: cuFFT's work area of {_mib(scratch.fft)}, the largest spectrum of one call",
            f"convolutions: cuDNN's workspace of {_mib(scratch.convolution)}, the largest output of one call",
            f"context of the device and its libraries: {_mib(_CONTEXT)}",
        ),
    )


def _mib(nbytes: int) -> str:
    return f"{nbytes / MIB:.0f} MiB" if nbytes >= 10 * MIB or not nbytes else f"{nbytes / MIB:.2f} MiB"
