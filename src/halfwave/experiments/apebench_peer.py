"""APEBench's side of a comparison: its data as arrays, its JAX network trained as it trains, its metric on rollouts.

Needs `pip install "halfwave[peer]"` (apebench, exponax and jax on the CPU); nothing else here imports jax.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from halfwave.errors import InputError

PEAK_RATE = 1e-3
"""APEBench's own largest learning rate, after a rise over the first fifth of its updates."""


@dataclass(frozen=True)
class Size:
    """How large a scenario is, and how long a network is trained on it."""

    points: int
    train: tuple[int, int]
    """Trajectories, and steps of each."""
    test: tuple[int, int]
    updates: int
    batch: int = 20


@dataclass(frozen=True)
class Scored:
    """Of a stepper: nRMSE at each step of the test rollouts, mean over trajectories."""

    errors: tuple[float, ...]
    parameters: int
    seconds: float
    """Of the training, see `processor_seconds`."""

    @property
    def score(self) -> float:
        """APEBench's figure: the geometric mean over the first 100 steps."""
        return geometric_mean(self.errors[:100])


def processor_seconds(call: Callable[[], object]) -> float:
    """Of a call, all threads and compilation together: what else the machine does is not counted."""
    start = time.process_time()
    call()
    return time.process_time() - start


def geometric_mean(values: Any) -> float:
    """exp(mean log); infinite where a rollout is."""
    array = np.asarray(values, dtype=np.float64)
    return float(np.exp(np.log(array).mean())) if np.isfinite(array).all() else float("inf")


def build_scenario(name: str, dims: int, size: Size) -> Any:
    """The scenario `name` of apebench.scenarios.difficulty, such as "Burgers"; InputError without APEBench."""
    try:
        import apebench
    except ImportError as error:
        raise InputError(f"APEBench is not installed ({error}): pip install 'halfwave[peer]'") from error
    kind = getattr(apebench.scenarios.difficulty, name, None)
    if kind is None:
        raise InputError(f"APEBench has no scenario {name!r} by difficulty")
    return kind(
        num_spatial_dims=dims,
        num_points=size.points,
        num_train_samples=size.train[0],
        train_temporal_horizon=size.train[1],
        num_test_samples=size.test[0],
        test_temporal_horizon=size.test[1],
        batch_size=size.batch,
        optim_config=f"adam;{size.updates};warmup_cosine;0.0;{PEAK_RATE};{max(1, size.updates // 5)}",
    )


def trajectories(scenario: Any) -> tuple[np.ndarray, np.ndarray]:
    """Train and test states, N x (steps + 1) x C x grid, float32: what `halfwave.train` takes as trajectories."""
    return np.asarray(scenario.get_train_data(), np.float32), np.asarray(scenario.get_test_data(), np.float32)


def train_peer(scenario: Any, network: str, seed: int) -> Scored:
    """Its own network, one-step training, one seed."""
    tables: list[Any] = []
    how = {"task_config": "predict", "train_config": "one", "network_config": network}
    seconds = processor_seconds(lambda: tables.append(scenario(**how, start_seed=seed, num_seeds=1)[0]))
    table = tables[0]
    columns = sorted(name for name in table.columns if name.startswith("mean_nRMSE_"))
    errors = tuple(float(table[name].iloc[0]) for name in columns)
    return Scored(errors, int(scenario.get_parameter_count(network)), seconds)


def score_rollout(states: np.ndarray, truth: np.ndarray) -> tuple[float, ...]:
    """Its nRMSE of rollouts (N x steps x C x grid), as `exponax.metrics.nRMSE` has it: per channel, then summed."""
    import exponax
    import jax.numpy as jnp

    return tuple(
        float(exponax.metrics.mean_metric(exponax.metrics.nRMSE, jnp.asarray(states[:, t]), jnp.asarray(truth[:, t])))
        for t in range(states.shape[1])
    )
