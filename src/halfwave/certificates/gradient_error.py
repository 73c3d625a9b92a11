"""What a policy does to gradients: rounding in the backward pass, and underflow, which loss scaling prevents.

A loss of size 1 on N numbers has gradients of size 1/N, and those of a deep layer are smaller still: in fp16 they fall
below 6e-8 and vanish. Loss scaling multiplies the loss by a power of two and the gradients by its inverse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from halfwave.certificates.observing import run_as
from halfwave.certificates.samples import Sample, call
from halfwave.precision import Policy

SCALE = 2.0**14
_MOVED = 0.01  # where the target lies: an answer that is exact has no gradient


@dataclass(frozen=True)
class GradientError:
    """Relative errors ||g - g_full|| / ||g_full|| of all parameters' gradients together, without and with loss scaling.

    inf where a gradient is not finite.
    """

    plain: float
    scaled: float

    @property
    def loss_scaling(self) -> bool:
        """Does scaling the loss help, by a tenth or more?"""
        return self.scaled < 0.9 * self.plain

    @property
    def best(self) -> float:
        return min(self.plain, self.scaled)


def measure_gradient_error(model: nn.Module, samples: Sequence[Sample], policy: Policy) -> GradientError:
    """The gradients of a relative L2 loss under the policy against those in full precision, on these samples."""
    full, under = run_as(model, Policy.named("full")), run_as(model, policy)
    exact = _gradient(full, samples, 1.0)

    def error(scale: float) -> float:
        found = float((_gradient(under, samples, scale) - exact).norm() / exact.norm())
        return found if math.isfinite(found) else math.inf

    return GradientError(error(1.0), error(SCALE))


def _gradient(model: nn.Module, samples: Sequence[Sample], scale: float) -> Tensor:
    """All gradients one after the other, in float64."""
    model.requires_grad_(True).zero_grad()
    with torch.enable_grad(), torch.compiler.set_stance("force_eager"):
        for sample in samples:
            (scale * _loss(call(model, sample, Tensor.float)) / len(samples)).backward()
    found = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return torch.cat([g.double().flatten() for g in found]) / scale


def _loss(answer: Tensor) -> Tensor:
    """||f - y|| / ||y|| for a target a hundredth away from the answer, along random signs."""
    signs = torch.randint(0, 2, answer.shape, generator=torch.Generator().manual_seed(0)).to(answer) * 2 - 1
    fixed = answer.detach().float()
    target = fixed + _MOVED * signs * fixed.square().mean().sqrt()
    return (answer.float() - target).norm() / target.norm()
