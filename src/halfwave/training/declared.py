"""What a model file declares, against the tensors that it has: before anything of the declared size is built.

A file says which model it holds and by which arguments it is built. Whoever made it may have written anything there: a
billion layers, or channels for which no machine has the memory. So numbers are compared with those of the tensors, and
the model is built on `meta` first, where it takes no memory, and no more of it than the file has tensors for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from halfwave.errors import InputError
from halfwave.models import build_model

_COUNTS = ("layers", "levels")
"""How the names of arguments end that say how often something is repeated."""
_FREE_SIZE = 1 << 20  # an argument may be a size of nothing, such as the positions of an embedding
_FREE_CALLS, _CALLS_OF_A_TENSOR = 1000, 20


class ModelRecord(BaseModel):
    """The JSON of a model file: kinds of values, not yet what they mean."""

    model_config = ConfigDict(strict=True, extra="ignore")

    model: str
    arguments: dict[str, Any]
    policy: dict[str, Any] | None
    normalizers: list[dict[str, Any] | None]
    is_operator: bool
    stabilizers: dict[str, str] = {}
    encoder: dict[str, Any] | None = None
    unrolling: dict[str, Any] | None = None
    compression: dict[str, Any] | None = None

    @classmethod
    def read(cls, path: str | Path, values: Mapping[str, Any]) -> ModelRecord:
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            raise InputError(f"{path} is not a model file: {name}: {first['msg']}") from None


@contextmanager
def taken_at_its_word(path: str | Path) -> Iterator[None]:
    """Within, what a file declares is acted upon: whatever goes wrong is the file's fault, and an InputError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path} declares what cannot be built: {reason}") from error


def check_declared(path: str | Path, name: str, arguments: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """InputError unless the model called `name`, built by these arguments, has the names and shapes of the tensors."""
    _check_numbers(path, arguments, tensors)
    limit = _FREE_CALLS + _CALLS_OF_A_TENSOR * len(tensors)
    with taken_at_its_word(path), torch.random.fork_rng(devices=[]), torch.device("meta"), _CountedCalls(path, limit):
        model = build_model(name, arguments)
    check_fits(model, tensors, path)


def check_fits(model: nn.Module, tensors: Mapping[str, Tensor], path: str | Path) -> None:
    """InputError that names the first tensor that is missing, unexpected or of another shape."""
    own = model.state_dict()
    for name in sorted(set(own) | set(tensors)):
        if name not in tensors or name not in own:
            whose = "the model has" if name in own else "the file has"
            raise InputError(f"{path} is of another model: only {whose} {name!r}")
        if tensors[name].shape != own[name].shape:
            raise InputError(
                f"{path} is of another model: {name!r} is {_shape(tensors[name])} there, {_shape(own[name])} here"
            )


def _shape(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)}"


def _check_numbers(path: str | Path, arguments: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Of a model with these tensors no size is far above the number of their entries, and no count above theirs."""
    entries = max(_FREE_SIZE, sum(tensor.numel() for tensor in tensors.values()))
    for name, value in arguments.items():
        counts = name.endswith(_COUNTS) and isinstance(value, int)
        most = max(1, len(tensors)) if counts else entries
        for number in _integers(value):
            if abs(number) > most:
                raise InputError(
                    f"{path} declares {name}={number}, and has {len(tensors)} tensors of {entries} entries in all"
                )


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping):
        yield from (number for part in value.values() for number in _integers(part))
    elif isinstance(value, list | tuple):
        yield from (number for part in value for number in _integers(part))


class _CountedCalls(TorchDispatchMode):
    """Ends a construction that goes on beyond `limit` operators of torch."""

    def __init__(self, path: str | Path, limit: int) -> None:
        super().__init__()
        self.path, self.left = path, limit

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.left -= 1
        if self.left < 0:
            raise InputError(f"{self.path} declares a larger model than it has tensors for")
        return func(*args, **(kwargs or {}))
