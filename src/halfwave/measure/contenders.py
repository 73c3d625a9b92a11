"""Who takes part in the benchmark: this library in each policy, and neuraloperator in every mode that may be its best.

Equal work means the same architecture, number of parameters, batch and loss, and AdamW for both. The peer may run
eagerly, under torch's autocast to bf16, compiled, and with torch's AdamW or its own; its own half precision does not
run on a CPU. The quickest of them is what we are compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from halfwave.measure.bench_cases import BenchCase, build_ours, build_peer
from halfwave.models import set_precision
from halfwave.numerics import compile_options
from halfwave.precision import Policy

_RATE = 1e-4


@dataclass
class Contender:
    """A model and a function that does the case's work once; of training, with the optimizer that it uses."""

    model: nn.Module
    step: Callable[[], object]
    optimizer: torch.optim.Optimizer | None = None


Batch = tuple[tuple[Tensor, ...], Tensor]
Answer = Callable[..., Tensor]


def our_contender(case: BenchCase, policy: Policy, batch: Batch, *, compiled: bool) -> Contender:
    """A model of its own for each policy, so that none has to be switched or compiled again."""
    model = build_ours(case)
    set_precision(model, policy)
    # A GINO has no whole graph: how many edges there are is known only when the points are.
    whole = case.kind != "gino"
    answer = torch.compile(model, fullgraph=whole, options=compile_options()) if compiled else model
    return _contender(case, model, answer, batch, lambda p: torch.optim.AdamW(p, lr=_RATE, fused=True))


def peer_contenders(case: BenchCase, batch: Batch, *, compiled: bool) -> dict[str, Callable[[], Contender]]:
    """How to make each mode of the peer; each has a model of its own, and may fail to run."""

    def eager() -> Contender:
        model = build_peer(case)
        return _contender(case, model, model, batch, lambda p: torch.optim.AdamW(p, lr=_RATE))

    def own_adamw() -> Contender:
        from neuralop.training import AdamW

        model = build_peer(case)
        return _contender(case, model, model, batch, lambda p: AdamW(p, lr=_RATE))

    def autocast() -> Contender:
        model = build_peer(case)
        return _contender(case, model, _autocast(model), batch, lambda p: torch.optim.AdamW(p, lr=_RATE))

    def compiles() -> Contender:
        model = build_peer(case)
        return _contender(case, model, torch.compile(model), batch, lambda p: torch.optim.AdamW(p, lr=_RATE))

    modes: dict[str, Callable[[], Contender]] = {"eager": eager, "autocast": autocast}
    if case.trains:
        modes["own AdamW"] = own_adamw
    return modes | ({"compiled": compiles} if compiled else {})


def _autocast(model: nn.Module) -> Answer:
    def answer(*inputs: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(*inputs).float()

    return answer


def _contender(
    case: BenchCase,
    model: nn.Module,
    answer: Answer,
    batch: Batch,
    make_optimizer: Callable[[list[nn.Parameter]], Any],
) -> Contender:
    inputs, y = batch
    if case.kind == "inference":
        return Contender(model.eval(), lambda: _infer(answer, inputs))
    if case.kind == "conv":
        x = inputs[0].clone().requires_grad_()
        return Contender(model, lambda: _conv_step(model, answer, x, y))
    optimizer = make_optimizer(list(model.parameters()))
    return Contender(model, lambda: _training_step(answer, optimizer, inputs, y), optimizer)


def _infer(answer: Answer, inputs: Sequence[Tensor]) -> None:
    with torch.inference_mode():
        answer(*inputs)


def _conv_step(model: nn.Module, answer: Answer, x: Tensor, y: Tensor) -> None:
    model.zero_grad()
    x.grad = None
    out = answer(x)
    out.backward(y.to(out.dtype))


def _training_step(answer: Answer, optimizer: Any, inputs: Sequence[Tensor], y: Tensor) -> None:
    optimizer.zero_grad()
    (answer(*inputs) - y).square().mean().backward()
    optimizer.step()
