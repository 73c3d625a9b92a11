"""Do two checkouts train to the same bits? Five steps of every model in every policy, and a digest of the weights.

    python benchmarks/same_bits.py --before PATH/TO/OTHER/CHECKOUT

Each checkout runs in a process of its own with its `src` first on the path, on one thread, from the same seed. Prints a
line for each model and policy, and exits with 1 where weights differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

POLICIES = ("full", "amp", "half", "mixed", "fp16")


def cases() -> dict[str, Any]:
    """Builders of small models with their inputs."""
    import torch

    import halfwave as hw

    common: dict[str, Any] = {"in_channels": 1, "out_channels": 1, "hidden_channels": 8, "n_layers": 2}

    def fields(*grid: int) -> tuple[Any, ...]:
        return (torch.randn(2, 1, *grid),)

    def cloud() -> tuple[Any, ...]:
        axis = torch.linspace(0, 1, 6)
        grid = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1)[None]
        return torch.rand(1, 50, 3), grid, torch.rand(1, 40, 3), torch.randn(1, 50, 1)

    def gino() -> Any:
        return hw.GINO(
            1, 1, in_gno_radius=0.4, out_gno_radius=0.4, fno_n_modes=(4, 4, 4), fno_hidden_channels=8, fno_n_layers=2,
            fno_in_channels=1, in_gno_channel_mlp_hidden_layers=(16,), out_gno_channel_mlp_hidden_layers=(16,),
        )  # fmt: skip

    return {
        "FNO 1-D": (lambda: hw.FNO(n_modes=(16,), **common), lambda: fields(64)),
        "FNO 2-D": (lambda: hw.FNO(n_modes=(12, 12), **common), lambda: fields(33, 40)),
        "FNO 2-D, fft": (lambda: hw.FNO(n_modes=(12, 12), backend="fft", **common), lambda: fields(32, 32)),
        "FNO 2-D, padded": (lambda: hw.FNO(n_modes=(12, 12), domain_padding=0.1, **common), lambda: fields(32, 32)),
        "FNO 3-D": (lambda: hw.FNO(n_modes=(4, 4, 4), **common), lambda: fields(12, 10, 9)),
        "FNO 2-D, large": (
            lambda: hw.FNO(n_modes=(32, 32), **{**common, "hidden_channels": 32}),
            lambda: fields(96, 96),
        ),
        "TFNO cp": (lambda: hw.TFNO((12, 12), factorization="cp", rank=0.3, **common), lambda: fields(32, 32)),
        "TFNO tucker": (lambda: hw.TFNO((12, 12), factorization="tucker", rank=0.3, **common), lambda: fields(32, 32)),
        "TFNO tt": (lambda: hw.TFNO((12, 12), factorization="tt", rank=0.3, **common), lambda: fields(32, 32)),
        "SFNO": (lambda: hw.SFNO(n_modes=(16, 24), **common), lambda: fields(32, 64)),
        "U-Net": (lambda: hw.UNet(1, 1, hidden_channels=8, n_levels=2), lambda: fields(32, 36)),
        "GINO": (gino, cloud),
    }


def digests() -> dict[str, str]:
    """The weights after five steps of AdamW, as hashes, by model and policy."""
    import torch

    import halfwave as hw

    torch.set_num_threads(1)
    found = {}
    for name, (build, inputs) in cases().items():
        for policy in POLICIES:
            torch.manual_seed(0)
            model, given = build(), inputs()
            hw.set_precision(model, hw.Policy.named("mixed", "fp16") if policy == "fp16" else policy)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            for _ in range(5):
                optimizer.zero_grad()
                model(*given).square().mean().backward()
                optimizer.step()
            digest = hashlib.sha256()
            for parameter in model.parameters():
                digest.update(parameter.detach().numpy().tobytes())
            found[f"{name}, {policy}"] = digest.hexdigest()[:16]
    return found


def _of(checkout: Path) -> dict[str, str]:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, __file__, "--worker"], env=environment, check=True, capture_output=True, text=True
    )
    result: dict[str, str] = json.loads(run.stdout)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout of this repository")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(digests()))
        return 0
    if arguments.before is None:
        parser.error("--before is needed: a checkout of the commit to compare with")
    before, after = _of(arguments.before), _of(Path(__file__).resolve().parents[1])
    differing = [name for name in after if after[name] != before.get(name)]
    for name in after:
        print(f"{name:24} {'DIFFERS' if name in differing else 'same bits'}")
    print(f"{len(after) - len(differing)} of {len(after)} the same")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
