"""Runs that die at a chosen moment, and the comparison of two runs bit for bit."""

from pathlib import Path

import pytest
import torch

from halfwave.training.loop import Loop
from halfwave.training.records import read_metrics
from halfwave.training.sealed import read_sealed

TIMES = ("seconds", "samples_per_second")
BYTES = ("peak_memory_bytes", "activation_bytes")


class Stop(Exception):
    """Stands for a kill, at a moment of the test's choice."""


def tensors_of(run_dir):
    return read_sealed(Path(run_dir) / "model.safetensors")[0]


def rows_of(run_dir):
    return [{k: v for k, v in row.items() if k not in TIMES} for row in read_metrics(run_dir)]


def assert_same_run(first, second, bytes_within=0.0):
    """`bytes_within`: share by which counted bytes may differ, of runs on several processes alone.

    There a collective's thread holds the last reference to a small tensor for a moment that differs from run to run
    (seen: 20 or 80 of 226 kB, in one run of ten); nothing else may differ.
    """
    a, b = tensors_of(first), tensors_of(second)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    for mine, other in zip(rows_of(first), rows_of(second), strict=True):
        counted = [{name: row.pop(name) for name in BYTES} for row in (mine, other)]
        assert mine == other
        assert counted[0] == pytest.approx(counted[1], rel=bytes_within, abs=0)
    assert (
        read_sealed(first / "model.safetensors")[1]["policy"] == read_sealed(second / "model.safetensors")[1]["policy"]
    )


def stop_after(monkeypatch, updates):
    """Make the loop die after so many updates, as a kill would leave it: nothing is saved at that moment."""
    original = Loop._account
    count = [0]

    def counting(self, update, batches):
        count[0] += 1
        if count[0] > updates:
            raise Stop
        original(self, update, batches)

    monkeypatch.setattr(Loop, "_account", counting)
