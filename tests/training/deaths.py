"""Runs that die at a chosen moment, and the comparison of two runs bit for bit."""

from pathlib import Path

import torch

from halfwave.training.loop import Loop
from halfwave.training.records import read_metrics
from halfwave.training.sealed import read_sealed

TIMES = ("seconds", "samples_per_second")


class Stop(Exception):
    """Stands for a kill, at a moment of the test's choice."""


def tensors_of(run_dir):
    return read_sealed(Path(run_dir) / "model.safetensors")[0]


def rows_of(run_dir):
    return [{k: v for k, v in row.items() if k not in TIMES} for row in read_metrics(run_dir)]


def assert_same_run(first, second):
    a, b = tensors_of(first), tensors_of(second)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert rows_of(first) == rows_of(second)
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
