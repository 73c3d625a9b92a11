"""Networks: how fast devices send to each other, by data sheets: the links inside a node, and the cards between nodes.

Rates are bytes per second that one device sends, in one direction, at their peak. `checked` says where a figure was
looked up, `unverified` which were found nowhere; where `checked` is empty, none was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from halfwave.planner.roofline import GB, Device, described_source


@dataclass(frozen=True)
class Network:
    """What connects the devices of a kind.

    Attributes:
        node: devices of one node.
        within, between: bytes/s that a device sends to others of its node, and to other nodes.
        latency: seconds that every exchange takes at least, stated and not from a data sheet.
        source, checked, unverified: of the rates, as in `Device`.
    """

    node: int
    within: float
    between: float
    source: str
    checked: str = ""
    unverified: str = ""
    latency: float = 2e-5

    def rate(self, devices: int) -> float:
        """Of an exchange among so many neighbours: that of its slowest link."""
        return self.within if devices <= self.node else self.between

    @property
    def sourced(self) -> str:
        return described_source(self.source, self.checked, self.unverified)

    def describe(self) -> str:
        rates = f"{self.within / GB:.4g} GB/s in a node of {self.node}, {self.between / GB:.4g} GB/s between nodes"
        return f"{rates} ({self.sourced})"


_PORT = "the port, which is assumed"
_PCIE4 = Network(
    4,
    31.5 * GB,
    12.5 * GB,
    "PCIe 4.0 x16, one direction, 128 of 130 bits; one 100 Gb/s port for each device",
    "64 GB/s in both directions: NVIDIA's A40 table at ecer.com",
    _PORT,
)
_PCIE5 = Network(
    8,
    63 * GB,
    25 * GB,
    "PCIe 5.0 x16, one direction, 128 of 130 bits; one 200 Gb/s port for each device",
    "128 GB/s in both directions: archive-lib.hpctech.co.jp/gpuproduct/nvidia-h100.html",
    _PORT,
)
_NVLINK3 = Network(
    8,
    300 * GB,
    25 * GB,
    "NVLink 3, 300 GB/s in each direction; one 200 Gb/s port for each device",
    "NVLink: glennklockwood.com/garden/processors/A100",
    "the port",
)
_NVLINK4 = Network(
    8,
    450 * GB,
    50 * GB,
    "NVLink 4, half of 900 GB/s in both directions; one 400 Gb/s InfiniBand port for each device",
    "systems of MLPerf Inference 3.1 (Dell XE9680: 8x 400Gb InfiniBand) and 4.1 (NVIDIA: NVLink 900GB/s); eight ports "
    "for eight devices in NVIDIA's DGX H100 user guide, table 6 (easymanua.ls/nvidia/dgx-h100)",
)
_NVLINK2 = Network(
    8,
    150 * GB,
    6.25 * GB,
    "NVLink 2, half of 300 GB/s; DGX-1: four 100 Gb/s ports for eight devices",
    "NVLink: V100.md of huggingface.co/datasets/lukeleeai/kernelbench-rag-content; ports: NVIDIA's DGX-1 white paper, "
    "quoted at leslivresblancs.fr",
)
NETWORKS: Mapping[str, Network] = MappingProxyType(
    {"h100-sxm": _NVLINK4, "h100-pcie": _PCIE5, "a100-40gb": _NVLINK3, "a100-80gb": _NVLINK3, "v100": _NVLINK2}
)


def network_of(device: Device) -> Network:
    """That of a device of the table; PCIe 4.0 where it has no links of its own."""
    return NETWORKS.get(device.name, _PCIE4)
