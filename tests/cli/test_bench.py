"""The benchmark on a tiny case: equal work, ratios that are what they say, figures kept after every case."""

import json

import pytest

from halfwave.commands import bench
from halfwave.experiments.bench import Case

TINY = (
    Case("step-tiny", "step", (12, 12), (4, 4), 4, 2, n_layers=2),
    Case("conv-tiny", "conv", (16,), (6,), 3, 2),
)


@pytest.fixture(autouse=True)
def _tiny_cases(monkeypatch):
    monkeypatch.setattr(bench, "CASES", TINY)


def test_bench_writes_ratios(command, tmp_path):
    out = tmp_path / "bench.json"
    code, printed, err = command("bench", "--out", out, "--policies", "full", "mixed", "--rounds", 2)
    assert code == 0, err
    rows = json.loads(out.read_text())["cases"]
    assert [(row["case"], row["policy"]) for row in rows] == [
        ("step-tiny", "full"), ("step-tiny", "mixed"), ("conv-tiny", "full"), ("conv-tiny", "mixed")
    ]  # fmt: skip
    for row in rows:
        assert row["ratio"] == pytest.approx(row["peer_seconds"] / row["seconds"])
        assert row["memory_ratio"] == pytest.approx(row["activation_bytes"] / row["peer_activation_bytes"])
        assert row["roofline_seconds"] > 0
    assert "against neuraloperator" in printed


def test_bench_refuses_what_it_does_not_know(fails):
    fails(2, "unknown case 'step-7': expected one of step-tiny, conv-tiny", "bench", "--cases", "step-7")
    fails(2, "unknown precision 'quarter'", "bench", "--policies", "quarter")
    fails(2, "--rounds must be at least 1", "bench", "--rounds", 0)
