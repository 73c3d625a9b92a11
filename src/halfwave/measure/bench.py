"""This library against neuraloperator at its best: equal work, one process, taking turns.

The peer's modes (`contenders`) each run a step; those that are near the quickest take part in all rounds, and the best
median is the peer's figure. Beside each time stands the least that the work can take here (`least_time`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from halfwave.measure.allocated import allocated_activations
from halfwave.measure.bench_cases import BenchCase, build_batch
from halfwave.measure.clocks import seconds_of, take_turns
from halfwave.measure.contenders import Batch, Contender, our_contender, peer_contenders
from halfwave.measure.least_time import MachineRates, count_work
from halfwave.measure.live_bytes import LiveBytes
from halfwave.measure.step import measure
from halfwave.precision import Policy

PEER = "neuraloperator"
# A mode of the peer that is this much slower than its quickest in a first trial is not its best.
_NEAR = 1.3


@dataclass(frozen=True)
class BenchRow:
    """One measured figure beside the peer's; `ratio` is the peer's time over ours.

    Activations are counted at dispatch, those of a compiled step by what the allocator hands out (`allocated`), which
    is a little more: scratch space inside kernels is in it.
    """

    case: str
    policy: str
    mode: str
    seconds: float
    peer_seconds: float
    peer_mode: str
    ratio: float
    activation_bytes: int
    peer_activation_bytes: int
    memory_ratio: float
    roofline_seconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def run_cases(
    cases: Sequence[BenchCase],
    policies: Sequence[str],
    compiled: bool,
    rounds: int,
    rates: MachineRates,
    say: Callable[[str], object],
) -> Iterator[list[BenchRow]]:
    """The rows of each case, as they are measured; `say` hears of what could not run."""
    for case in cases:
        yield _run_case(case, policies, compiled, rounds, rates, say)


def _run_case(
    case: BenchCase,
    policies: Sequence[str],
    compiled: bool,
    rounds: int,
    rates: MachineRates,
    say: Callable[[str], object],
) -> list[BenchRow]:
    torch.manual_seed(0)
    torch.compiler.reset()  # earlier cases count towards the limit of recompilations, past which a model runs eagerly
    batch = build_batch(case)
    modes = ("eager", "compiled") if compiled and case.kind != "conv" else ("eager",)
    peers = near_the_best(case, batch, "compiled" in modes, say)
    eager = next(iter(peers.values()))
    peer_bytes = _activation_bytes(eager, batch)
    ours: dict[tuple[str, str], Contender] = {}
    held: dict[tuple[str, str], int] = {}
    least: dict[str, float] = {}
    for name in policies:
        for mode in modes:
            own = our_contender(case, Policy.named(name), batch, compiled=mode == "compiled")
            own.step()
            ours[name, mode] = own
            if mode == "compiled":
                own.step()
                held[name, mode] = allocated_activations(own.step, own.model, own.optimizer)
        own = ours[name, "eager"]
        held[name, "eager"] = _activation_bytes(own, batch)
        least[name] = count_work(own.step, own.model, trains=case.trains).least_seconds(rates, name == "mixed")
    steps = {f"{PEER} {mode}": peer.step for mode, peer in peers.items()}
    seconds = take_turns(steps | {" ".join(label): own.step for label, own in ours.items()}, rounds)
    best = min(steps, key=lambda label: seconds[label])
    return [
        BenchRow(
            case=case.name,
            policy=policy,
            mode=mode,
            seconds=seconds[f"{policy} {mode}"],
            peer_seconds=seconds[best],
            peer_mode=best.removeprefix(f"{PEER} "),
            ratio=seconds[best] / seconds[f"{policy} {mode}"],
            activation_bytes=held[policy, mode],
            peer_activation_bytes=peer_bytes,
            memory_ratio=held[policy, mode] / peer_bytes,
            roofline_seconds=least[policy],
        )
        for policy, mode in ours
    ]


def near_the_best(case: BenchCase, batch: Batch, compiled: bool, say: Callable[[str], object]) -> dict[str, Contender]:
    """The peer's modes that run, and are not far from its quickest; the eager one, whose memory is counted, first."""
    tried: dict[str, tuple[Contender, float]] = {}
    if compiled and not case.peer_compiles:
        say(f"{case.name}: {PEER} is not compiled: it does not end in a quarter of an hour")
        compiled = False
    for mode, make in peer_contenders(case, batch, compiled=compiled).items():
        try:
            peer = make()
            peer.step()
            tried[mode] = peer, seconds_of(peer.step)
        except Exception as error:  # whatever a peer's mode runs into is for the record, not for us to mend
            say(f"{case.name}: {PEER} does not run {mode}: {str(error).splitlines()[0][:120]}")
    quickest = min(taken for _, taken in tried.values())
    return {mode: peer for mode, (peer, taken) in tried.items() if mode == "eager" or taken < _NEAR * quickest}


def _activation_bytes(own: Contender, batch: Batch) -> int:
    """The most that a step holds beside parameters, gradients, optimizer state and batch; of inference, beside both."""
    inputs, y = batch
    own.step()
    if own.optimizer is not None:
        return measure(own.step, own.model, own.optimizer, (*inputs, y)).activation_bytes
    with LiveBytes() as live:
        held = live.hold([*own.model.parameters(), *own.model.buffers(), *inputs, y])
        own.step()
        held |= live.hold(p.grad for p in own.model.parameters() if p.grad is not None)
    return live.peak(without=held)
