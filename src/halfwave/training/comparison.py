"""Training steps of several configs measured side by side: memory counted exactly, time in turn.

The configs take turns, step by step, in one process, and each has the median of its own steps (see `measure.clocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from halfwave.measure import take_turns
from halfwave.training.batches import Batch
from halfwave.training.config import TrainConfig
from halfwave.training.engine import Engine
from halfwave.training.problem import AnyDataset, build_operator, problem_of
from halfwave.training.run_state import seed_all


def compare_steps(
    configs: Mapping[str, TrainConfig], dataset: AnyDataset, steps: int = 15, warm_up: int = 2
) -> dict[str, dict[str, float]]:
    """For each config: `peak_memory_bytes`, `activation_bytes`, `samples_per_second` of a training step."""
    engines = {name: build_engine(config, dataset) for name, config in configs.items()}
    found: dict[str, dict[str, float]] = {}
    updates: dict[str, Callable[[], object]] = {}
    for name, engine in engines.items():
        batch = _batch(configs[name], dataset, engine)
        update = _update(engine, batch, len(batch))
        for _ in range(warm_up):
            update()
        _, measured = engine.measured_update([batch], len(batch))
        found[name] = {
            "peak_memory_bytes": measured.peak_memory_bytes,
            "activation_bytes": measured.activation_bytes,
        }
        updates[name] = update
    seconds = take_turns(updates, steps)
    for name in configs:
        size = min(configs[name].batch_size, len(dataset.train))
        found[name]["samples_per_second"] = size / seconds[name]
    return found


def _batch(config: TrainConfig, dataset: AnyDataset, engine: Engine) -> Batch:
    """The first samples of the train split, on the engine's device."""
    lazily = config.model_copy(update={"in_memory": False})
    train, _ = problem_of(dataset).samples(lazily, engine.operator)
    return Batch(*train[: config.batch_size]).to(engine.fabric.device)


def build_engine(config: TrainConfig, dataset: AnyDataset) -> Engine:
    """What one update of a config needs, without a run directory; its learning rate is the first of a long run."""
    seed_all(config.seed)
    from lightning_fabric import Fabric  # here: it brings the compiler along

    fabric = Fabric(accelerator=config.accelerator, devices=1)
    operator = build_operator(config, dataset)
    loss = problem_of(dataset).loss(config, model=operator.model)
    engine = Engine(fabric, operator, loss, config, total_steps=1000)
    engine.set_policy(config.build_schedule(fabric.device.type).policy_at(0.0))
    return engine


def _update(engine: Engine, batch: Batch, total: int) -> Callable[[], object]:
    return lambda: engine.update([batch], total)
