"""Unrolled: a model of one step in time, applied again to its own answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from halfwave.errors import InputError

Gradients = Literal["all", "last", "pushforward"]


@dataclass(frozen=True)
class Unrolling:
    """How a model steps, u_{n+1} = f(u_n, .., u_{n-h+1}; e), and how its training looks at that.

    Attributes:
        channels: of a state u.
        history: h, states that it sees; channels of its input are h C, oldest first, then those of e, which stay.
        horizon: k, steps of a training sample.
        gradients: ``"all"``: every step has a loss, and gradients go through all steps before it. ``"last"``: every
            step has a loss, and gradients go through that step alone. ``"pushforward"``: the last step alone has a
            loss, and those before it, which make its input, no gradients (Brandstetter et al. 2022).
        residual: the model gives the change of the state in units of `increments`, one a channel, and not the state.
        recompute: each step keeps its input only and runs again in the backward pass: activations of one step alone.
    """

    channels: int
    history: int = 1
    horizon: int = 1
    gradients: Gradients = "all"
    residual: bool = False
    increments: tuple[float, ...] = ()
    recompute: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "increments", tuple(self.increments))
        if min(self.channels, self.history, self.horizon) < 1:
            raise InputError(
                f"channels, history and horizon are {self.channels}, {self.history} and {self.horizon}: "
                f"expected at least 1 of each"
            )
        if self.gradients not in get_args(Gradients):
            raise InputError(f"unknown gradients {self.gradients!r}: expected one of {', '.join(get_args(Gradients))}")

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "increments": list(self.increments)}


class Unrolled(nn.Module):
    """B x (h C + E) x grid to the states of the next steps, B x (m C) x grid, m of them one after the other.

    In evaluation they are all k of the horizon. In training those that have a loss: the first `steps` of them, or with
    ``"pushforward"`` the last of those alone; `steps` may grow from 1 to k on the way.

    States are in the units of the model, the same at every step, so nothing is decoded and encoded between steps.
    """

    def __init__(self, model: nn.Module, unrolling: Unrolling) -> None:
        super().__init__()
        self.model, self.unrolling = model, unrolling
        self.steps = unrolling.horizon

    @property
    def in_channels(self) -> int | None:
        return getattr(self.model, "in_channels", None)

    @property
    def n_dim(self) -> int | None:
        return getattr(self.model, "n_dim", None)

    def set_steps(self, steps: int) -> None:
        """How many steps training looks at from now on."""
        if not 1 <= steps <= self.unrolling.horizon:
            raise InputError(f"{steps} steps of a horizon of {self.unrolling.horizon}: expected 1 to the horizon")
        self.steps = steps

    @property
    def span(self) -> tuple[int, int]:
        """First and last + 1 of the steps that the answer has, counted from 0."""
        if not self.training:
            return 0, self.unrolling.horizon
        return (self.steps - 1 if self.unrolling.gradients == "pushforward" else 0), self.steps

    def forward(self, x: Tensor) -> Tensor:
        """(B, h C + E, *grid) to (B, m C, *grid): the next m states of C channels, from h and E fields beside them.

        m is the horizon in evaluation, and what `span` says in training.
        """
        first, last = self.span
        states, beside = self.split(x)
        kept: list[Tensor] = []
        for step in range(last):
            if step < first:
                with torch.no_grad():
                    states = self.advance(states, beside)
                continue
            states = self.advance(self._seen(states, step), beside)
            kept.append(states[:, -self.unrolling.channels :])
        return torch.cat(kept, dim=1) if len(kept) > 1 else kept[0]

    def roll(self, x: Tensor) -> Iterator[Tensor]:
        """The next states without end, each B x C x grid, in the model's units."""
        states, beside = self.split(x)
        while True:
            states = self.advance(states, beside)
            yield states[:, -self.unrolling.channels :]

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The states of an input and what rides along."""
        cut = self.unrolling.history * self.unrolling.channels
        if x.ndim < 3 or x.shape[1] < cut:
            raise InputError(f"an input of shape {tuple(x.shape)}: expected at least {cut} channels of states")
        return x[:, :cut], x[:, cut:]

    def advance(self, states: Tensor, beside: Tensor) -> Tensor:
        """The last h states after one more step."""
        if self.unrolling.recompute and torch.is_grad_enabled():
            state = checkpoint(self._next, states, beside, use_reentrant=False)
        else:
            state = self._next(states, beside)
        if self.unrolling.history == 1:
            return state
        return torch.cat([states[:, self.unrolling.channels :], state], dim=1)

    def _next(self, states: Tensor, beside: Tensor) -> Tensor:
        answer = self.model(torch.cat([states, beside], dim=1) if beside.shape[1] else states)
        if not self.unrolling.residual:
            return answer
        change = answer * self._increments(answer)
        return states[:, -self.unrolling.channels :] + change

    def _increments(self, like: Tensor) -> Tensor | float:
        sizes = self.unrolling.increments
        if not sizes:
            return 1.0
        if len(set(sizes)) == 1:
            return sizes[0]
        return torch.tensor(sizes, dtype=like.dtype, device=like.device).reshape(-1, *[1] * (like.ndim - 2))

    def _seen(self, states: Tensor, step: int) -> Tensor:
        """The states as the backward pass sees them: with ``"last"`` a step's own inputs are given."""
        return states.detach() if self.unrolling.gradients == "last" and step else states


def stepping_model(model: nn.Module) -> nn.Module:
    """The model of one step inside an `Unrolled`, or the model itself."""
    return model.model if isinstance(model, Unrolled) else model
