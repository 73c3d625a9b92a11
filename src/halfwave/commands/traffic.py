"""What a training step sends on a mesh, for commands that measure it in one process."""

from __future__ import annotations

from typing import Any

from torch import nn

from halfwave.planner import format_bytes, plan_mesh
from halfwave.precision import Policy


def plan_step_traffic(
    model: nn.Module, inputs: tuple[int, ...], mesh: str, policy: str | Policy | None = None
) -> dict[str, Any]:
    """Of a step on inputs (B, C, *grid): bytes that a process sends, by purpose, and those of an FFT's transposes.

    Counted at the exchanges of the first process, on `meta`: nothing is sent. ValueError for a model that cannot work
    on pieces.
    """
    batch, channels, *grid = inputs
    plan = plan_mesh(model, tuple(grid), mesh, channels=channels, batch=batch, policy=policy)
    return {"mesh": plan.mesh, "sent_bytes": plan.sent, "transposes_bytes": plan.transposes}


def describe_traffic(traffic: dict[str, Any]) -> str:
    """One sentence."""
    sent = traffic["sent_bytes"]
    largest = sorted(sent.items(), key=lambda item: -item[1])
    parts = ", ".join(f"{name} {format_bytes(nbytes)}" for name, nbytes in largest if nbytes)
    fft = traffic["transposes_bytes"]
    beside = f"; an FFT's transposes would send {format_bytes(fft)} in place of the modes" if fft else ""
    return f"on {traffic['mesh']} a process sends {parts or 'nothing'} a step{beside}"
