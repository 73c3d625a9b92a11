"""This library against neuraloperator: equal work, one process, taking turns.

Equal work means the same architecture, number of parameters, batch, loss and optimizer (AdamW; ours fused, which
theirs cannot be, as its weights are complex). The peer runs in fp32, eager: its half precision does not run on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from halfwave.measure.bench_cases import BenchCase, build_batch, build_ours, build_peer
from halfwave.measure.clocks import best_seconds, take_turns
from halfwave.measure.step import measure
from halfwave.models import set_precision
from halfwave.precision import Policy

PEER = "neuraloperator"


@dataclass(frozen=True)
class BenchRow:
    """One measured figure beside the peer's; `ratio` is the peer's time over ours."""

    case: str
    policy: str
    mode: str
    seconds: float
    peer_seconds: float
    ratio: float
    activation_bytes: int | None
    peer_activation_bytes: int
    memory_ratio: float | None
    roofline_seconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class MachineRates:
    """What this machine reaches: products in each format (FLOP/s) and copies (bytes/s)."""

    fp32: float
    bf16: float
    memory: float


def measure_rates() -> MachineRates:
    """Best of a few runs of a large product in fp32 and bf16, and of a large copy."""
    a, b = torch.randn(2048, 512), torch.randn(512, 512)
    half_a, half_b = a.bfloat16(), b.bfloat16()
    flops = 2.0 * 2048 * 512 * 512
    source, target = torch.randn(1 << 23), torch.empty(1 << 23)
    return MachineRates(
        fp32=flops / best_seconds(lambda: a @ b),
        bf16=flops / best_seconds(lambda: half_a @ half_b),
        memory=2.0 * source.nbytes / best_seconds(lambda: target.copy_(source)),
    )


def run_cases(
    cases: Sequence[BenchCase], policies: Sequence[str], compiled: bool, rounds: int, rates: MachineRates
) -> Iterator[list[BenchRow]]:
    """The rows of each case, as they are measured."""
    for case in cases:
        yield _run_case(case, policies, compiled, rounds, rates)


@dataclass
class _Contender:
    """A model with its optimizer and a function that does the case's work once."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: Callable[[], object]
    batch: tuple[Tensor, ...]


def _run_case(
    case: BenchCase, policies: Sequence[str], compiled: bool, rounds: int, rates: MachineRates
) -> list[BenchRow]:
    torch.manual_seed(0)
    ours, peer = _contender(case, build_ours(case), fused=True), _contender(case, build_peer(case), fused=False)
    steps: dict[str, Callable[[], object]] = {PEER: peer.step}
    memory = {PEER: _activation_bytes(peer)}
    flops = {}
    for name in policies:
        steps[f"{name} eager"] = _under(ours, Policy.named(name))
        steps[f"{name} eager"]()
        memory[f"{name} eager"] = _activation_bytes(ours)
        flops[name] = _flops(ours.step)
    if compiled and case.kind != "conv":
        for name in policies:
            steps[f"{name} compiled"] = _compiled(case, ours, Policy.named(name))
            steps[f"{name} compiled"]()
    seconds = take_turns(steps, rounds)
    return [
        _row(case, label, seconds, memory, _roofline(flops[label.split()[0]], label, ours, memory, rates))
        for label in seconds
        if label != PEER
    ]


def _row(case: BenchCase, label: str, seconds: dict[str, float], memory: dict[str, int], roofline: float) -> BenchRow:
    policy, mode = label.split()
    held = memory.get(label)
    return BenchRow(
        case=case.name,
        policy=policy,
        mode=mode,
        seconds=seconds[label],
        peer_seconds=seconds[PEER],
        ratio=seconds[PEER] / seconds[label],
        activation_bytes=held,
        peer_activation_bytes=memory[PEER],
        memory_ratio=None if held is None else held / memory[PEER],
        roofline_seconds=roofline,
    )


def _contender(case: BenchCase, model: nn.Module, fused: bool) -> _Contender:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused or None)
    inputs, y = build_batch(case)
    if case.kind == "conv":
        x = inputs[0].clone().requires_grad_()
        return _Contender(model, optimizer, lambda: _conv_step(model, x, y), (x, y))
    return _Contender(model, optimizer, lambda: _training_step(model, optimizer, inputs, y), (*inputs, y))


def _conv_step(model: nn.Module, x: Tensor, y: Tensor) -> None:
    model.zero_grad()
    x.grad = None
    out = model(x)
    out.backward(y.to(out.dtype))


def _training_step(
    model: Callable[..., Tensor], optimizer: torch.optim.Optimizer, inputs: Sequence[Tensor], y: Tensor
) -> None:
    optimizer.zero_grad()
    (model(*inputs) - y).square().mean().backward()
    optimizer.step()


def _under(own: _Contender, policy: Policy) -> Callable[[], object]:
    def step() -> None:
        set_precision(own.model, policy)
        own.step()

    return step


def _compiled(case: BenchCase, own: _Contender, policy: Policy) -> Callable[[], object]:
    """A compiled copy of the model, so that switching policies does not recompile it."""
    model = build_ours(case)
    set_precision(model, policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    # A GINO has no whole graph: how many edges there are is known only when the points are.
    graph = torch.compile(model, fullgraph=case.kind != "gino")
    *inputs, y = own.batch
    return lambda: _training_step(graph, optimizer, inputs, y)


def _activation_bytes(own: _Contender) -> int:
    own.step()
    return measure(own.step, own.model, own.optimizer, own.batch).activation_bytes


def _flops(step: Callable[[], object]) -> float:
    with FlopCounterMode(display=False) as counter:
        step()
    return float(counter.get_total_flops())


def _roofline(flops: float, label: str, own: _Contender, memory: dict[str, int], rates: MachineRates) -> float:
    """Products at the best measured rate of their format, and every activation, weight and optimizer byte once."""
    policy = label.split()[0]
    half = max(rates.fp32, rates.bf16)
    rate = half if policy == "mixed" else rates.fp32
    parameters = sum(p.nbytes for p in own.model.parameters())
    # AdamW reads weight, gradient and two moments, and writes three of them.
    traffic = 7 * parameters + 2 * memory[f"{policy} eager"]
    return flops / rate + traffic / rates.memory
