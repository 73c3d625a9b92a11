"""Predicted against measured times of eager training steps on this machine.

    python benchmarks/planned_time.py [--sides 64 128 256] [--channels 32] [--batch 4] [--rounds 7]

For the FNO on each grid: a training step in full and in mixed precision, predicted from operators that are measured one
by one (`halfwave plan --measure`) and then run. Full and mixed take turns, so that a disturbance hits both. What must
hold: the predicted time of mixed relative to full is within 30% of the measured one.
"""

from __future__ import annotations

import argparse
from functools import partial

import torch

import halfwave as hw
from halfwave.measure import take_turns, training_step
from halfwave.planner import Stopwatch, plan_cost
from halfwave.training import RelativeL2

POLICIES = ("full", "mixed")
ALLOWED = 0.30


def predicted(side: int, channels: int, batch: int, clock: Stopwatch) -> dict[str, float]:
    model = build(side, channels)
    return {p: plan_cost(model, (batch, 1, side, side), clock, policy=p, device="cpu").seconds for p in POLICIES}


def measured(side: int, channels: int, batch: int, rounds: int) -> dict[str, float]:
    """Medians over rounds in which the policies take turns."""
    model = build(side, channels)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    data = torch.randn(batch, 1, side, side), torch.randn(batch, 1, side, side)

    def step(policy: str) -> None:
        hw.set_precision(model, policy)
        training_step(model, RelativeL2(), optimizer, data)

    calls = {policy: partial(step, policy) for policy in POLICIES}
    take_turns(calls, 1)
    return take_turns(calls, rounds)


def build(side: int, channels: int) -> hw.FNO:
    torch.manual_seed(0)
    return hw.FNO((side // 2, side // 2), 1, 1, channels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    clock = Stopwatch()
    print(clock.describe())
    print(
        f"{'grid':>5} {'full pred.':>11} {'measured':>9} {'mixed pred.':>12} {'measured':>9} {'ratio':>6} "
        f"{'measured':>9}"
    )
    worst = 0.0
    for side in given.sides:
        guess = predicted(side, given.channels, given.batch, clock)
        truth = measured(side, given.channels, given.batch, given.rounds)
        ratios = [times["mixed"] / times["full"] for times in (guess, truth)]
        worst = max(worst, abs(ratios[0] / ratios[1] - 1))
        print(
            f"{side:>5} {guess['full']:>11.3f} {truth['full']:>9.3f} {guess['mixed']:>12.3f} {truth['mixed']:>9.3f} "
            f"{ratios[0]:>6.2f} {ratios[1]:>9.2f}"
        )
    print(f"relative times are at most {worst:.0%} off; allowed {ALLOWED:.0%}")
    raise SystemExit(worst > ALLOWED)


if __name__ == "__main__":
    main()
