"""keep_freed_blocks: large tensors of one size use the same pages again and again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Page faults of ten tensors of 64 MiB, one after the other, when the heap has settled; each has 16384 pages of 4 KiB.
SCRIPT = """
import resource, sys, torch
from halfwave.measure import keep_freed_blocks
kept = keep_freed_blocks() if sys.argv[1] == "keep" else False
for _ in range(10):
    torch.ones(1 << 24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(1 << 24)
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(argument: str, **variables: str) -> tuple[bool, int]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")} | variables
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, argument], env=environment, capture_output=True, text=True, check=True
    )
    kept, faults = done.stdout.split()
    return kept == "True", int(faults)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the setting is glibc's")
def test_freed_blocks_are_used_again() -> None:
    kept, faults = run("keep")
    if not kept:
        pytest.skip("the C library has no such setting")
    assert 4 * faults < run("leave")[1]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the setting is glibc's")
def test_a_threshold_of_the_user_is_left_alone() -> None:
    assert run("keep", MALLOC_MMAP_THRESHOLD_="1000000")[0] is False
