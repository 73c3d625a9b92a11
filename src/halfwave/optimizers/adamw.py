"""AdamW with one second moment for each complex number: neuraloperator's trajectory, three quarters of torch's state.

With g the gradient, a complex number a pair (g_r, g_i), and |g|² = g_r² + g_i² (g² for a real parameter):

    m <- β1 m + (1 - β1) g,        v <- β2 v + (1 - β2) |g|²,
    p <- p - s η sqrt(1 - β2^t) / (1 - β1^t) · m / (sqrt(v) + ε),        p <- (1 - η λ) p.

So the step of a complex number has the direction of its m, whatever basis its parts are in; torch's AdamW scales each
part by its own history. ε stands before the correction of v and the decay after the step, as in neuraloperator, where
s = 1. A complex number then moves by some η, while torch's AdamW moves each of its parts by so much: s = sqrt(2) makes
the two steps as long. For real numbers s is always 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import lcm
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from halfwave.numerics import kind_of
from halfwave.optimizers.moments import (
    FIRST,
    SECOND,
    STATES,
    StoredMoment,
    in_blocks,
    is_sharded,
    moment_of,
    new_moments,
    restored,
)
from halfwave.spectral import holds_pairs, mark_pairs, slices

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

_BYTES = 16  # of an element of a slice: parameter, gradient, moment and a temporary in fp32


class AdamW(Optimizer):
    """AdamW for models of pairs.

    The state holds 1.5 numbers for each number of a spectral weight, where torch's holds two; in bf16 the moments take
    half of that, in 8 bits a quarter. They are rounded stochastically then: v moves by 0.1% a step, less than such a
    number can. The random bits follow from the step and the parameter alone, so a resumed run has the same ones, and so
    has every process.

    Args:
        params: a model, or parameters or groups of them as torch takes them. Give the model where a wrapper has
            replaced its parameters (FSDP): the mark that tells pairs is then set again.
        lr, betas, eps, weight_decay: η, (β1, β2), ε, λ.
        pair_scale: s of complex numbers.
        state: format of the moments, ``"fp32"`` (the parameters' own dtype), ``"bf16"``, or ``"8bit"``: codes in blocks
            of up to 256 numbers with a scale each (`moments`, `log_code`).
        foreach: all parameters at once, operator by operator: few launches, temporaries as large as the weights.
        fused: one pass over the memory: on a CPU in slices that fit a cache, elsewhere one compiled kernel a
            parameter. By default fused on a CPU and foreach elsewhere.
    """

    def __init__(
        self,
        params: nn.Module | Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        pair_scale: float = 1.0,
        state: str = "fp32",
        foreach: bool | None = None,
        fused: bool | None = None,
    ) -> None:
        _check(lr, betas, eps, weight_decay, pair_scale, state)
        if foreach and fused:
            raise ValueError("foreach and fused are two ways to do the same: expected one of them")
        if isinstance(params, nn.Module):
            mark_pairs(params)
            params = [p for p in params.parameters() if p.requires_grad]
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "pair_scale": pair_scale}
        super().__init__(params, defaults | {"state": state, "foreach": foreach, "fused": fused})

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Groups of a file from before `pair_scale` go on as they were."""
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("pair_scale", 1.0)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of the parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        number = 0
        for group in self.param_groups:
            used = [(number + i, p) for i, p in enumerate(group["params"]) if p.grad is not None]
            number += len(group["params"])
            for together in self._alike(used):
                self._update(group, together)
        return loss

    def _alike(self, used: list[tuple[int, Tensor]]) -> Iterator[list[tuple[int, Tensor]]]:
        """Parameters on one kind of device with as many steps behind them, of pairs or of real numbers."""
        found: dict[tuple[str, float, bool], list[tuple[int, Tensor]]] = {}
        for number, p in used:
            key = (kind_of(p.device), float(self.state[p].get("step", 0)), holds_pairs(p))
            found.setdefault(key, []).append((number, p))
        yield from found.values()

    def _update(self, group: dict[str, Any], used: list[tuple[int, Tensor]]) -> None:
        operands = []
        for number, p in used:
            state = self._state_of(p, group["state"])
            state["step"] += 1
            operands.append(_operands(number, p, state))
        first = used[0][1]
        step = _Step.of(group, int(self.state[first]["step"]), holds_pairs(first))
        on_cpu = kind_of(first.device) == "cpu"
        if group["foreach"] or (group["fused"] is None and not on_cpu):
            step.together(operands)
            return
        for one in operands:
            step.in_slices(one, compiled=not on_cpu)

    def _state_of(self, p: Tensor, format: str) -> dict[str, Tensor]:
        state = self.state[p]
        if not state:
            state["step"] = torch.tensor(0.0)
            state.update(new_moments(p, format))
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's, which makes every moment one of the parameter's dtype: they go back to the state's format."""
        super().load_state_dict(state_dict)
        for group in self.param_groups:
            for p in group["params"]:
                if self.state[p]:
                    self.state[p].update(restored(self.state[p], group["state"]))


@dataclass(frozen=True)
class _Operands:
    """A parameter, its gradient and m as (n, 2, ...), v as (n, ...); of real numbers with 1 in place of 2."""

    number: int
    p: Tensor
    grad: Tensor
    m: StoredMoment
    v: StoredMoment

    def rows(self, part: slice) -> _Operands:
        return _Operands(self.number, self.p[part], self.grad[part], self.m.rows(part), self.v.rows(part))

    def parts(self) -> Iterator[_Operands]:
        """Slices that fit a cache, and that cut no block in two."""
        rows, together = len(self.p), lcm(self.m.together, self.v.together)
        width = _BYTES * together * self.p[0].numel() if rows else 1
        for part in slices(-(-rows // together), width, self.p.device):
            yield self.rows(slice(part.start * together, min(part.stop * together, rows)))


@dataclass(frozen=True)
class _Step:
    """The numbers of one update."""

    rate: float
    beta1: float
    beta2: float
    eps: float
    kept: float
    count: int

    @classmethod
    def of(cls, group: dict[str, Any], count: int, pairs: bool) -> _Step:
        (beta1, beta2), lr = group["betas"], float(group["lr"])
        rate = lr * (1 - beta2**count) ** 0.5 / (1 - beta1**count)
        rate *= group["pair_scale"] if pairs else 1.0
        return cls(rate, beta1, beta2, group["eps"], 1 - lr * group["weight_decay"], count)

    def in_slices(self, one: _Operands, compiled: bool) -> None:
        """One parameter in one pass over its memory."""
        generator = self._generator(one)
        for rows in one.parts():
            m, v = (moment.load(rows.p.dtype) for moment in (rows.m, rows.v))
            if compiled:
                # As tensors: a compiled kernel is made anew for every number that it has not seen.
                numbers = torch.tensor([self.rate, self.kept], dtype=rows.p.dtype, device=rows.p.device)
                _compiled()(rows.p, rows.grad, m, v, numbers, self.beta1, self.beta2, self.eps)
            else:
                self._move(rows.p, rows.grad, m, v)
            rows.m.store(m, generator)
            rows.v.store(v, generator)

    def _move(self, p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> None:
        """The update of the module's equations, in place."""
        m.lerp_(g, 1 - self.beta1)
        v.lerp_((g * g).sum(1), 1 - self.beta2)
        p.addcdiv_(m, v.sqrt().add_(self.eps).unsqueeze(1), value=-self.rate)
        if self.kept != 1:
            p.mul_(self.kept)

    def together(self, all_of_them: Sequence[_Operands]) -> None:
        """All parameters, operator by operator."""
        ps, grads = [o.p for o in all_of_them], [o.grad for o in all_of_them]
        ms, vs = ([getattr(o, name).load(o.p.dtype) for o in all_of_them] for name in "mv")
        torch._foreach_lerp_(ms, grads, 1 - self.beta1)
        squares = [square.sum(1) for square in torch._foreach_mul(grads, grads)]
        torch._foreach_lerp_(vs, squares, 1 - self.beta2)
        del squares
        roots = torch._foreach_sqrt(vs)
        torch._foreach_add_(roots, self.eps)
        torch._foreach_addcdiv_(
            ps, ms, [r.unsqueeze(1).expand_as(p) for r, p in zip(roots, ps, strict=True)], -self.rate
        )
        if self.kept != 1:
            torch._foreach_mul_(ps, self.kept)
        for one, m, v in zip(all_of_them, ms, vs, strict=True):
            generator = self._generator(one)
            one.m.store(m, generator)
            one.v.store(v, generator)

    def _generator(self, one: _Operands) -> torch.Generator | None:
        """Its bits follow from the parameter and the step; None where nothing is drawn."""
        if not one.m.draws or one.p.is_meta:
            return None
        return torch.Generator(one.p.device).manual_seed((one.number << 40) + self.count)


def _move_by(
    p: Tensor, g: Tensor, m: Tensor, v: Tensor, numbers: Tensor, beta1: float, beta2: float, eps: float
) -> None:
    """`_Step._move`, with the two numbers that change from step to step in a tensor."""
    rate, kept = numbers.unbind()
    m.lerp_(g, 1 - beta1)
    v.lerp_((g * g).sum(1), 1 - beta2)
    p.sub_(rate * m / v.sqrt().add_(eps).unsqueeze(1)).mul_(kept)


_COMPILED: list[Callable[..., None]] = []


def _compiled() -> Callable[..., None]:
    """The update as one kernel; made when it is first needed."""
    if not _COMPILED:
        _COMPILED.append(torch.compile(_move_by, dynamic=True))
    return _COMPILED[0]


def _operands(number: int, p: Tensor, state: dict[str, Tensor]) -> _Operands:
    assert p.grad is not None
    pairs = holds_pairs(p)
    own, grad, kept = p.detach(), p.grad, {name: t for name, t in state.items() if t.ndim}
    if is_sharded(p) and not (pairs and _cut_through_pairs(p)):
        own, grad, kept = _local(own), _local(grad), {name: _local(t) for name, t in kept.items()}
    if in_blocks(kept):
        grad = grad.contiguous()
    if all(t.is_contiguous() for t in (own, grad, *kept.values())) and not is_sharded(own):
        shape = (2, own.shape[-1]) if pairs else (1,)
        moments = [moment_of(kept, FIRST, shape, own.dtype), moment_of(kept, SECOND, shape[1:], own.dtype)]
        return _Operands(number, own.view(-1, *shape), grad.view(-1, *shape), *moments)
    # In one piece, whatever the strides; shards that cut pairs in two are torch's business.
    own, grad, m = (t.movedim(-2, 0).unsqueeze(0) if pairs else t[None, None] for t in (own, grad, kept[FIRST]))
    moments = [moment_of({name: t}, name, None, own.dtype) for name, t in ((FIRST, m), (SECOND, kept[SECOND][None]))]
    return _Operands(number, own, grad, *moments)


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if is_sharded(tensor) else tensor


def _cut_through_pairs(p: DTensor) -> bool:
    return any(placement.is_shard(p.ndim - 2) for placement in p.placements)


def _check(
    lr: float, betas: tuple[float, float], eps: float, weight_decay: float, pair_scale: float, state: str
) -> None:
    for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay), ("pair_scale", pair_scale)):
        if not value >= 0:
            raise ValueError(f"{name} must be at least 0, got {value!r}")
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"betas must be two numbers in [0, 1), got {betas!r}")
    if state not in STATES:
        raise ValueError(f"unknown state {state!r}: expected one of {', '.join(STATES)}")
