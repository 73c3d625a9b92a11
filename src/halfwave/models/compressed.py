"""Compressed: the weights of a model as they are stored after `hw.compress`, a few bits each.

The model itself computes with ordinary fp32 parameters, which are exactly what the stored integers stand for. So it
trains, exports and runs like any other; only its file is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.errors import InputError
from halfwave.numerics import RowIntegers

_MARK = "#"
"""Between a parameter's name and that of a part of it: names of modules have none."""


@dataclass(frozen=True)
class Compressed:
    """Packed parameters by name, and what is known of what that cost.

    Attributes:
        packed: of every parameter.
        record: JSON-able, of how they were chosen: errors, and the shells with their bits.
        text: the same in words.
    """

    packed: Mapping[str, RowIntegers]
    record: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    @property
    def nbytes(self) -> int:
        """Of the packed weights; the file has a few kB of names and settings beside them."""
        return sum(rows.nbytes for rows in self.packed.values())

    def fill(self, model: nn.Module) -> None:
        """Give a model the parameters that are stored."""
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(self.packed[name].unpack())

    def fits(self, model: nn.Module) -> bool:
        """Whether the model still has the parameters that are stored: training on changes them."""
        own = dict(model.named_parameters())
        return own.keys() == self.packed.keys() and all(
            torch.equal(parameter.detach().cpu(), self.packed[name].unpack()) for name, parameter in own.items()
        )

    def tensors(self) -> dict[str, Tensor]:
        """To be kept in a file in place of the parameters."""
        return {f"{name}{_MARK}{part}": t for name, rows in self.packed.items() for part, t in rows.tensors().items()}

    def to_dict(self) -> dict[str, Any]:
        shapes = {name: list(rows.shape) for name, rows in self.packed.items()}
        return {"shapes": shapes, "record": dict(self.record), "text": self.text}

    @classmethod
    def read(cls, values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> tuple[Compressed, dict[str, Tensor]]:
        """What `to_dict` and `tensors` gave, and the other tensors of the file."""
        parts: dict[str, dict[str, Tensor]] = {name: {} for name in values["shapes"]}
        others = {}
        for name, tensor in tensors.items():
            parameter, mark, part = name.partition(_MARK)
            if not mark:
                others[name] = tensor
            elif parameter not in parts:
                raise InputError(f"packed weights of an unknown parameter {parameter!r}")
            else:
                parts[parameter][part] = tensor
        packed = {n: RowIntegers.from_tensors(tuple(shape), parts[n]) for n, shape in values["shapes"].items()}
        return cls(packed, values["record"], values["text"]), others

    def __str__(self) -> str:
        return self.text


def compression_of(model: nn.Module) -> Compressed | None:
    """What `hw.compress` left with the model, if its weights are still those; None otherwise."""
    found = getattr(model, "compression", None)
    return found if isinstance(found, Compressed) and found.fits(model) else None
