"""save and load: a model in one sealed safetensors file, with all that is needed to build it again.

The file's JSON holds the model's class and arguments, its policy, the stabilizers that acted in it, the normalizers and
the cloud encoder of an `Operator`, the version of the library, and whatever the caller adds. A model from `hw.compress`
is written with its packed weights and read as ordinary ones. Loading executes nothing from the file and unpickles
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.data import Normalizer
from halfwave.errors import InputError, described
from halfwave.files import as_path
from halfwave.models import (
    MODELS,
    Compressed,
    Foreign,
    Unrolled,
    Unrolling,
    build_model,
    compression_of,
    set_precision,
    settle_stabilizers,
    settled_stabilizers,
    stepping_model,
    under_policy,
)
from halfwave.precision import Policy
from halfwave.training.clouds import CloudEncoder
from halfwave.training.declared import ModelRecord, check_declared, check_fits, taken_at_its_word
from halfwave.training.devices import like, whole
from halfwave.training.operator import Operator
from halfwave.training.run_directory import find_model_file, is_run, library_version
from halfwave.training.sealed import read_sealed, write_sealed

KIND = "model"
_FOREIGN = "module:"


def save(model: nn.Module, path: str | Path, extra: Mapping[str, Any] | None = None) -> None:
    """Write a model, or an `Operator` with its normalizers, to the file `path`; `extra` is JSON that rides along.

    Models that are equal, saved with an equal `extra`, are files of equal bytes.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"cannot save {described(model)}: expected a model")
    if extra is not None and not isinstance(extra, Mapping):
        raise InputError(f"extra is {described(extra)}: expected a mapping that is JSON")
    write_sealed(as_path(path), *model_file(model, extra))


def model_file(model: nn.Module, extra: Mapping[str, Any] | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and JSON of a model's file. Where the model is sharded, every process must call this together."""
    bare = stepping_model(model.model if isinstance(model, Operator) else model)
    values = {**describe_model(model), "extra": dict(extra or {})}
    tensors = {name: whole(t) for name, t in bare.state_dict().items()}
    compressed = compression_of(bare)
    if compressed is not None:
        buffers = {name: t for name, t in tensors.items() if name not in compressed.packed}
        return {**buffers, **compressed.tensors()}, {**values, "compression": compressed.to_dict()}
    return tensors, values


def load(path: str | Path, expect: str | None = None, *, model: nn.Module | None = None) -> nn.Module:
    """The model that `save` wrote (an `Operator` if it was one), in evaluation mode, its weights in the dtype they had.

    `path` is a file, or the directory of a run, whose model answers in the units of its data:

    >>> model = hw.load("runs/darcy-mixed")
    >>> y = model(x)  # (B, C, *grid) to (B, O, *grid)

    A module of one's own is in the file by its weights alone: give one built alike as `model`, to take them.

    InputError, one line, for a file that is missing, empty, truncated, changed in any byte, or a pickle; for an unknown
    model; for one that is not the class named `expect`; for tensors that do not fit the model.
    """
    path = as_path(path)
    path = find_model_file(path) if is_run(path) else path
    if model is not None and not isinstance(model, nn.Module):
        raise InputError(f"model is {described(model)}: expected a module built as the saved one was")
    tensors, values = read_sealed(path)
    if values.get("kind") != KIND:
        raise InputError(f"{path} holds {values.get('kind', 'no model')!r}: a file written by halfwave.save is needed")
    record = ModelRecord.read(path, values)
    with taken_at_its_word(path):
        compressed, tensors = _unpacked(path, record, tensors)
        model = under_policy(model if model is not None else _rebuilt(path, record, tensors, expect))
        load_tensors(model, tensors, path)
        if compressed is not None:
            model.compression = compressed  # type: ignore[assignment]
        if record.policy is not None:
            set_precision(model, Policy.from_dict(record.policy))
        _settle(path, model, record)
        return _with_normalizers(model, record).eval()


def _settle(path: Path, model: nn.Module, record: ModelRecord) -> None:
    try:
        settle_stabilizers(model, record.stabilizers)
    except ValueError as error:
        raise InputError(f"{path} is of another model: {error}") from error


def _rebuilt(path: Path, record: ModelRecord, tensors: Mapping[str, Tensor], expect: str | None) -> nn.Module:
    """The model of a file without its weights, built only after what it declares was found to be what it has."""
    name = record.model
    if name.startswith(_FOREIGN):
        raise InputError(
            f"{path} has the weights of a {name.removeprefix(_FOREIGN)} of another program: load them into one, by "
            f"halfwave.load(path, model=...)"
        )
    if name not in MODELS:
        raise InputError(f"{path} holds the unknown model {name!r}: expected one of {', '.join(MODELS)}")
    if expect is not None and name != expect:
        raise InputError(f"{path} holds a {name}: expected {expect}")
    check_declared(path, name, record.arguments, tensors)
    return build_model(name, record.arguments).to(_dtype(tensors))


def read_extra(path: str | Path) -> dict[str, Any]:
    """The `extra` values that were given to `save`."""
    extra = read_sealed(as_path(path))[1].get("extra", {})
    return extra if isinstance(extra, dict) else {}


def describe_model(model: nn.Module) -> dict[str, Any]:
    """The JSON from which `load` builds the model again, without its tensors."""
    operator = model if isinstance(model, Operator) else Operator(model, None, None)
    bare = stepping_model(operator.model)
    config = {} if isinstance(bare, Foreign) else getattr(bare, "config", None)
    if not isinstance(config, dict):
        raise InputError(f"cannot save a {type(bare).__name__}: it has no config, expected one of {', '.join(MODELS)}")
    policy = getattr(bare, "policy", None)
    normalizers = (operator.x_normalizer, operator.y_normalizer)
    return {
        "kind": KIND,
        "model": bare.name if isinstance(bare, Foreign) else type(bare).__name__,
        "arguments": config,
        "policy": None if policy is None else policy.to_dict(),
        "stabilizers": settled_stabilizers(bare),
        "normalizers": [n.state() if n is not None else None for n in normalizers],
        "encoder": None if operator.encoder is None else operator.encoder.state(),
        "is_operator": isinstance(model, Operator),
        "unrolling": operator.model.unrolling.to_dict() if isinstance(operator.model, Unrolled) else None,
        "halfwave": library_version(),
    }


def load_tensors(model: nn.Module, tensors: Mapping[str, Tensor], path: str | Path) -> None:
    """Copy `tensors` into the model; InputError that names the first one missing, unexpected or of another shape."""
    check_fits(model, tensors, path)
    own = model.state_dict()
    for name in sorted(own):
        if tensors[name].dtype != own[name].dtype:
            raise InputError(
                f"{path} is of another model: {name!r} is {_describe(tensors[name])} there, {_describe(own[name])} here"
            )
    model.load_state_dict({name: like(own[name], t) for name, t in tensors.items()})


def _unpacked(
    path: Path, record: ModelRecord, tensors: dict[str, Tensor]
) -> tuple[Compressed | None, dict[str, Tensor]]:
    """The tensors of a compressed file as ordinary ones; those of another as they are."""
    if record.compression is None:
        return None, tensors
    try:
        compressed, others = Compressed.read(record.compression, tensors)
    except (KeyError, TypeError, AttributeError, InputError) as error:
        raise InputError(f"{path} holds weights that cannot be unpacked: {error}") from error
    return compressed, {**others, **{name: rows.unpack() for name, rows in compressed.packed.items()}}


def _dtype(tensors: Mapping[str, Tensor]) -> torch.dtype:
    """The dtype of a file's weights: fp32, unless the model had been converted."""
    return next((t.dtype for t in tensors.values() if t.is_floating_point()), torch.float32)


def _with_normalizers(model: nn.Module, record: ModelRecord) -> nn.Module:
    if record.unrolling is not None:
        model = Unrolled(model, Unrolling(**record.unrolling))
    if not record.is_operator:
        return model
    x, y = (Normalizer.from_state(state) if state is not None else None for state in record.normalizers)
    encoder = record.encoder
    return Operator(model, x, y, None if encoder is None else CloudEncoder.from_state(encoder))


def _describe(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
