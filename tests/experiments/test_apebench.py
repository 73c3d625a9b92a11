"""The experiment `apebench` with a stand-in for JAX: our side is trained and scored; and the metric is APEBench's."""

import numpy as np
import pytest

from halfwave.data import Advection
from halfwave.experiments import apebench, apebench_peer
from halfwave.experiments.apebench_peer import Scored, geometric_mean
from halfwave.experiments.runner import run, summarise


class Scenario:
    """Advection in place of a scenario: train and test trajectories."""

    def __init__(self, dims, size):
        self.states = [
            np.stack(
                [Advection(resolution=size.points, dim=dims, steps=steps).trajectory(0, split, i) for i in range(n)]
            )
            for split, (n, steps) in (("train", size.train), ("test", size.test))
        ]

    def get_train_data(self):
        return self.states[0]

    def get_test_data(self):
        return self.states[1]


def nrmse(states, truth):
    axes = tuple(range(2, states.ndim - 1))
    return tuple(
        float(np.mean(np.sqrt(((states[:, t] - truth[:, t]) ** 2).mean(axes) / (truth[:, t] ** 2).mean(axes))))
        for t in range(states.shape[1])
    )


def test_the_contest_is_scored_and_summarised(tmp_path, monkeypatch):
    monkeypatch.setattr(apebench, "build_scenario", lambda name, dims, size: Scenario(dims, size))
    monkeypatch.setattr(apebench, "train_peer", lambda scenario, network, seed: Scored((0.5, 2.0), 32527, 1.0))
    monkeypatch.setattr(apebench, "score_rollout", nrmse)
    monkeypatch.setattr(apebench, "SCENARIOS", (("Advection", 1), ("Diffusion", 2)))
    results = run(apebench.EXPERIMENT, "smoke", tmp_path)
    summary = summarise(results)
    for line in summary.comparison.lines:
        peer, full, mixed, ratio = line.ours[:4]
        assert peer == pytest.approx(1.0)  # geometric mean of 0.5 and 2
        assert full > 0
        assert ratio == pytest.approx(mixed / full)
    line = [row for rows in results.rows.values() for row in rows if row["dims"] == 1 and row["method"] == "full"]
    assert line[0]["parameters"] == pytest.approx(32527, rel=0.05)  # as many as APEBench's own FNO


def test_the_metric_is_exponaxs():
    exponax = pytest.importorskip("exponax")
    assert exponax is not None
    rng = np.random.default_rng(0)
    states, truth = (rng.standard_normal((3, 2, 1, 16)).astype(np.float32) for _ in range(2))
    assert apebench_peer.score_rollout(states, truth) == pytest.approx(nrmse(states, truth), rel=1e-5)
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert geometric_mean([1.0, np.inf]) == np.inf
