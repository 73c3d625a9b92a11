"""Networks: how fast devices send to each other, by data sheets: the links inside a node, and the cards between nodes.

Rates are bytes per second that one device sends, in one direction, at their peak. `checked` says where a figure was
looked up; one that is empty is unverified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from halfwave.planner.roofline import GB, Device


@dataclass(frozen=True)
class Network:
    """What connects the devices of a kind.

    Attributes:
        node: devices of one node.
        within, between: bytes/s that a device sends to others of its node, and to other nodes.
        latency: seconds that every exchange takes at least, stated and not from a data sheet.
        source, checked: of the rates, as in `Device`.
    """

    node: int
    within: float
    between: float
    source: str
    checked: str = ""
    latency: float = 2e-5

    def rate(self, devices: int) -> float:
        """Of an exchange among so many neighbours: that of its slowest link."""
        return self.within if devices <= self.node else self.between

    @property
    def sourced(self) -> str:
        return f"{self.source}; {f'checked: {self.checked}' if self.checked else 'unverified'}"

    def describe(self) -> str:
        rates = f"{self.within / GB:.4g} GB/s in a node of {self.node}, {self.between / GB:.4g} GB/s between nodes"
        return f"{rates} ({self.sourced})"


_PCIE4 = Network(4, 31.5 * GB, 12.5 * GB, "PCIe 4.0 x16, one direction; one 100 Gb/s port for each device")
_PCIE5 = Network(8, 63 * GB, 25 * GB, "PCIe 5.0 x16, one direction; one 200 Gb/s port for each device")
_NVLINK3 = Network(
    8,
    300 * GB,
    25 * GB,
    "NVLink 3, 300 GB/s in each direction; one 200 Gb/s port for each device",
    "NVLink: glennklockwood.com/garden/processors/A100; the port is unverified",
)
_NVLINK4 = Network(
    8,
    450 * GB,
    50 * GB,
    "NVLink 4, half of 900 GB/s in both directions; one 400 Gb/s InfiniBand port for each device",
    "systems of MLPerf Inference 3.1 (Dell XE9680: 8x 400Gb InfiniBand) and 4.1 (NVIDIA: NVLink 900GB/s)",
)
_NVLINK2 = Network(8, 150 * GB, 12.5 * GB, "NVLink 2, half of 300 GB/s; one 100 Gb/s port for each device")
NETWORKS: Mapping[str, Network] = MappingProxyType(
    {"h100-sxm": _NVLINK4, "h100-pcie": _PCIE5, "a100-40gb": _NVLINK3, "a100-80gb": _NVLINK3, "v100": _NVLINK2}
)


def network_of(device: Device) -> Network:
    """That of a device of the table; PCIe 4.0 where it has no links of its own."""
    return NETWORKS.get(device.name, _PCIE4)
