"""Weak and strong scaling as planned for H100s, and plans against what 1, 2 and 4 processes here hold and send.

    python benchmarks/planned_scaling.py [--out runs/planned-scaling] [--picture docs/images/planned-scaling.png]

The planned part is an FNO with 32^3 modes and 64 channels in mixed precision on 512^3 points (strong), or 64 x 512^2
for each device (weak). The counted part is a small FNO on 32^3 points on this machine, by gloo. Writes scaling.json and
the picture of it; exits with 0 when every counted figure is within 2% of its plan, with 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, multiprocessing
from torch.distributed.device_mesh import init_device_mesh

import halfwave as hw
from halfwave.files import make_directory, read_json, write_json
from halfwave.measure import measure_step, training_step
from halfwave.parallel import GridLayout, count_wire, parallelize
from halfwave.planner import get_device, plan_mesh
from halfwave.report.scaling import draw_scaling

DEVICES = (1, 4, 16, 64)
HERE = (1, 2, 4)
SMALL = (32, 32, 32)
TOLERANCE = 0.02


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/planned-scaling"))
    parser.add_argument("--picture", type=Path, default=Path("docs/images/planned-scaling.png"))
    options = parser.parse_args()
    make_directory(options.out)
    here = [compare(processes, options.out) for processes in HERE]
    strong = [planned((512, 512, 512), n) for n in DEVICES]
    weak = [planned((64 * n, 512, 512), n) for n in DEVICES]
    result = options.out / "scaling.json"
    write_json(result, {"device": "h100-sxm", "strong": strong, "weak": weak, "here": here})
    draw_scaling(result, options.picture)
    print(json.dumps(here, indent=2))
    return 0 if all(abs(row["off"]) <= TOLERANCE for row in here) else 1


def planned(grid: tuple[int, ...], devices: int) -> dict[str, Any]:
    with torch.device("meta"):
        model = hw.FNO((32, 32, 32), 1, 1, 64, n_layers=4)
    plan = plan_mesh(model, grid, f"grid={devices}", channels=1, device=get_device("h100-sxm"), policy="mixed")
    return plan.to_dict() | {"devices": devices}


def compare(processes: int, folder: Path) -> dict[str, Any]:
    """A step on so many processes here, counted and planned."""
    plan = plan_mesh(small_model(), SMALL, f"grid={processes}", channels=1, policy="full", loss=dot)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(count, (processes, port, str(folder)), processes)
    counted = read_json(folder / f"counted-{processes}.json")
    expected = {"peak_bytes": plan.peak_bytes, "sent_bytes": plan.sent_bytes}
    off = [counted[key] / expected[key] - 1 for key in expected if expected[key]]
    return {"processes": processes, "counted": counted, "planned": expected, "off": max(off, key=abs)}


def count(rank: int, processes: int, port: int, folder: str) -> None:
    """In one of the processes; the first one, which plans are of, writes what it counted."""
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    distributed.init_process_group("gloo", rank=rank, world_size=processes)
    mesh = init_device_mesh("cpu", (processes,))
    model = parallelize(small_model(), mesh)
    shape = (1, 1, *GridLayout.of(mesh, (0,)).piece_of(SMALL).grid)
    batch = (torch.randn(shape), torch.randn(shape))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    training_step(model, dot, optimizer, batch)
    with count_wire() as wire:
        measured = measure_step(model, dot, optimizer, batch)
    if rank == 0:
        counted = {"peak_bytes": measured.peak_memory_bytes, "sent_bytes": wire.total}
        write_json(Path(folder) / f"counted-{processes}.json", counted)
    distributed.destroy_process_group()


def small_model() -> hw.FNO:
    torch.manual_seed(0)
    return hw.FNO((8, 8, 8), 1, 1, 16, n_layers=2)


def dot(prediction: Tensor, target: Tensor) -> Tensor:
    return (prediction * target).sum()


if __name__ == "__main__":
    sys.exit(main())
