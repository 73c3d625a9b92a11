"""MeshShape: how many processes there are, and what they share: data=2,grid=4, or grid=2x2 for two axes of the grid."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from halfwave.errors import InputError
from halfwave.parallel.pieces import GridLayout
from halfwave.parallel.ranks import Ranks

_PART = re.compile(r"(data|grid)=(\d+(?:x\d+)*)")


@dataclass(frozen=True)
class MeshShape:
    """`data` groups of processes with different samples; in each, grid[i] processes along axis i of the grid."""

    data: int = 1
    grid: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if self.data < 1 or not 1 <= len(self.grid) <= 3 or min(self.grid) < 1:
            raise InputError(f"mesh {self} has no processes: expected at least 1 along each of 1 to 3 axes")

    @classmethod
    def parse(cls, text: str) -> MeshShape:
        """From data=2,grid=4; each may be left out."""
        parts = [part.strip() for part in text.split(",")]
        found = {match[1]: match[2] for match in map(_PART.fullmatch, parts) if match}
        if len(found) != len(parts) or "x" in found.get("data", ""):
            raise InputError(f"mesh {text!r} is none: expected data=N,grid=M, or grid=MxM for two axes of the grid")
        return cls(int(found.get("data", 1)), tuple(int(n) for n in found.get("grid", "1").split("x")))

    @property
    def processes(self) -> int:
        return self.data * prod(self.grid)

    @property
    def axes(self) -> tuple[int, ...]:
        """Axes of the grid that are shared."""
        return tuple(range(len(self.grid)))

    def build(self, device_type: str) -> tuple[GridLayout, Ranks]:
        """The layout of the grid and the data group of this process. All processes call this together."""
        names = ("data", *(f"grid{axis}" for axis in self.axes))
        mesh: DeviceMesh = init_device_mesh(device_type, (self.data, *self.grid), mesh_dim_names=names)
        return GridLayout.of(mesh[names[1:]], self.axes), Ranks.of(mesh["data"])

    def __str__(self) -> str:
        return f"data={self.data},grid={'x'.join(map(str, self.grid))}"
