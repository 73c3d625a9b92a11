"""The contraction of an FNO block with CP weights, as the paper's model for Navier-Stokes and Darcy flow has it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from halfwave.experiments.experiment import Scale
from halfwave.numerics import Arithmetic, arithmetic_of
from halfwave.recipes import HALF, problem
from halfwave.spectral import ComplexMode, ContractionPlan, FactorizedWeight, WeightSettings, plan_contraction


@dataclass(frozen=True)
class Block:
    """Sizes of one contraction: kept modes a side, channels in and out, batch, and the share of dense parameters."""

    modes: int
    channels: int
    batch: int
    rank: float


# Of the paper's block below its scale, in modes, channels and batch.
_SHARES: dict[Scale, int] = {"smoke": 4, "small": 2, "paper": 1}


def block_of(name: str, scale: Scale) -> Block:
    """The block of a problem's TFNO, at the paper's rank."""
    recipe, share = problem(name, "paper"), _SHARES[scale]
    arguments = recipe.arguments
    return Block(
        modes=arguments["n_modes"][0] // share,
        channels=arguments["hidden_channels"] // share,
        batch=recipe.training["batch_size"] // share,
        rank=arguments["rank"],
    )


class CPContraction:
    """The operands of a contraction on a device ("meta": shapes without values) and its plans in half precision."""

    def __init__(self, block: Block, device: str = "cpu") -> None:
        kept = (block.modes, block.modes // 2 + 1)
        with torch.device(device):
            weight = WeightSettings("cp", block.rank).build(kept, block.channels, block.channels, 1.0)
            assert isinstance(weight, FactorizedWeight)
            # Pair axis before the last index, as the plan's operands have it.
            spectrum = torch.randn(*kept, block.batch, 2, block.channels).to(torch.float16).requires_grad_()
        terms = weight.terms()
        self.arith: Arithmetic = arithmetic_of(HALF, device)
        self.operands: list[Tensor] = [spectrum, *(tensor for _, tensor in terms)]
        self.equation = ",".join(["klbc", *(indices for indices, _ in terms)]) + "->klbo"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of the operands, without the pair axis."""
        return [(*t.shape[:-2], t.shape[-1]) for t in self.operands]

    def plan(self, complex_mode: ComplexMode = "C") -> ContractionPlan:
        """The memory-greedy plan, in the cache after the first call."""
        return plan_contraction(self.equation, self.shapes, "memory", complex_mode, format=HALF)
