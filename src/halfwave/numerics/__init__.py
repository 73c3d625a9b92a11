"""Number formats and rounding: what a float can hold."""

from halfwave.numerics.accumulators import Accumulation, accumulation, multiplied_in, multiplies_parts_natively, weakest
from halfwave.numerics.alike import few_slices, unlike
from halfwave.numerics.byte_cache import ByteCache
from halfwave.numerics.compiler import casts_as_written, constant_when_compiled, outside_the_compiler
from halfwave.numerics.formats import FORMATS, Format, get_format, ieee_format, register_format
from halfwave.numerics.hardware import (
    core_count,
    cpu_multiplies,
    default_half,
    describe_cpu,
    free_memory_bytes,
    kind_of,
    mapped_bytes,
    memory_bytes,
    meta_as,
    multiplies_natively,
    narrows_fp32,
    on_threads,
    thread_count,
)
from halfwave.numerics.kernel import (
    Gradients,
    Kernel,
    LinearKernel,
    Operands,
    plainly,
    recomputed_later,
    run_kernel,
    run_linear,
    transformed,
    untransformed,
    without_autocast,
)
from halfwave.numerics.missing_tiles import avoid_missing_tiles, tiles_are_missing
from halfwave.numerics.portable_mode import Portable, compiling, interpreted, nominal, portable, portably
from halfwave.numerics.rounding import at_least_fp32, round_stochastically, round_to
from halfwave.numerics.row_integers import WIDTHS, RowIntegers, pack_rows, rounding_errors
from halfwave.numerics.split_products import kept_products, split
from halfwave.numerics.stage_arithmetic import Arithmetic, arithmetic, arithmetic_of

__all__ = [
    "FORMATS",
    "WIDTHS",
    "Accumulation",
    "Arithmetic",
    "ByteCache",
    "Format",
    "Gradients",
    "Kernel",
    "LinearKernel",
    "Operands",
    "Portable",
    "RowIntegers",
    "accumulation",
    "arithmetic",
    "arithmetic_of",
    "at_least_fp32",
    "avoid_missing_tiles",
    "casts_as_written",
    "compiling",
    "constant_when_compiled",
    "core_count",
    "cpu_multiplies",
    "default_half",
    "describe_cpu",
    "few_slices",
    "free_memory_bytes",
    "get_format",
    "ieee_format",
    "interpreted",
    "kept_products",
    "kind_of",
    "mapped_bytes",
    "memory_bytes",
    "meta_as",
    "multiplied_in",
    "multiplies_natively",
    "multiplies_parts_natively",
    "narrows_fp32",
    "nominal",
    "on_threads",
    "outside_the_compiler",
    "pack_rows",
    "plainly",
    "portable",
    "portably",
    "recomputed_later",
    "register_format",
    "round_stochastically",
    "round_to",
    "rounding_errors",
    "run_kernel",
    "run_linear",
    "split",
    "thread_count",
    "tiles_are_missing",
    "transformed",
    "unlike",
    "untransformed",
    "weakest",
    "without_autocast",
]
