"""What the compiler is told about functions that it cannot trace, without importing it.

`torch.compiler.disable` and `assume_constant_result` import the whole compiler where they decorate, which takes longer
than the rest of this library together; most programs never compile. These mark functions in the same way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


def constant_when_compiled(function: Function) -> Function:
    """`torch.compiler.assume_constant_result`: the compiler calls it once and takes the answer as given."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def outside_the_compiler(function: Function) -> Function:
    """`torch.compiler.disable`: the compiler leaves the call, and all that it calls, as they are."""
    disabled: list[Callable[..., Any]] = []

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if not disabled:
            disabled.append(torch.compiler.disable(function))
        return disabled[0](*args, **kwargs)

    call._torchdynamo_disable = True  # type: ignore[attr-defined]
    return cast(Function, call)


def casts_as_written() -> dict[str, Any]:
    """Options for torch.compile with which a value that a model rounds is rounded.

    Inductor takes fp32 to half and back for nothing, and keeps what it fuses in fp32: what runs then is not what was
    certified. An FNO in `mixed` on a CPU without native half was 7e-5 from fp32 without these options, and is 2.8e-3
    from it with them, as eagerly.
    """
    from torch._inductor import config

    return {name: True for name in ("emulate_precision_casts",) if hasattr(config, name)}  # seen in torch 2.13


def compile_options() -> dict[str, Any]:
    """What this library gives to torch.compile: casts as written, and a x + b in one instruction where a CPU has it.

    Inductor forbids its C++ compiler the latter, which rounds once where two instructions round twice; polynomials
    (`models.half_gelu`) take nearly half the time with it.
    """
    from torch._inductor import config

    contract = "enable_floating_point_contract_flag"
    return casts_as_written() | ({f"cpp.{contract}": "fast"} if hasattr(config.cpp, contract) else {})
