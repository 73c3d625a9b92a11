"""The one loop: epochs of updates, each epoch closed by an evaluation, a row and a checkpoint."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from halfwave.errors import InputError
from halfwave.training.checkpoints import Checkpoints
from halfwave.training.engine import Engine, Pair, Update, add_up
from halfwave.training.evaluation import Samples, sum_errors
from halfwave.training.measures import synchronize
from halfwave.training.order import cut, epoch_order, share
from halfwave.training.position import Position
from halfwave.training.progress import Display
from halfwave.training.records import Board, Row, write_metrics
from halfwave.training.saving import save


class Loop:
    """Runs an engine from a position to the end of training, and keeps the run directory up to date."""

    def __init__(
        self,
        engine: Engine,
        position: Position,
        train: Samples,
        test: Samples,
        metadata: Mapping[str, Any],
        checkpoints: Checkpoints,
        display: Display,
        run_dir: Path,
    ) -> None:
        self.engine, self.position, self.config, self.fabric = engine, position, engine.config, engine.fabric
        self.train, self.test, self.metadata = train, test, metadata
        self.checkpoints, self.display, self.run_dir = checkpoints, display, run_dir
        self.schedule = self.config.build_schedule(self.fabric.device.type)
        self.batches = -(-len(train) // self.config.batch_size)
        self._times: list[float] = []  # seconds per sample of the updates in this epoch

    def run(self) -> None:
        """All epochs that are left."""
        write_metrics(self.run_dir, self.position.rows)
        board = Board(self.run_dir, self.position.rows)
        self.display.begin(self._done)
        while self.position.epoch < self.config.epochs:
            self._run_epoch()
            row = self._close_epoch()
            board.add(row)
            self.display.epoch(row, self._done)
        self.position.status = "finished"
        board.close()

    @property
    def _done(self) -> int:
        return self.position.epoch * self.batches + self.position.batch

    @property
    def _progress(self) -> float:
        return self._done / (self.config.epochs * self.batches)

    def _run_epoch(self) -> None:
        position, config = self.position, self.config
        order = cut(epoch_order(config.seed, position.epoch, len(self.train)), config.batch_size)
        self._times = []
        while position.batch < self.batches:
            self.engine.set_policy(self.schedule.policy_at(self._progress))
            group = order[position.batch : position.batch + config.accumulate]
            self._account(self._update(group), len(group))
            if (
                config.checkpoint_steps
                and position.step % config.checkpoint_steps == 0
                and position.batch < self.batches
            ):
                self._checkpoint()

    def _update(self, group: list[Tensor]) -> Update:
        start = time.perf_counter()
        total = sum(len(indices) for indices in group)
        batches = [self._load(indices) for indices in group]
        # Once an epoch, at its second update: by then the optimizer has its state.
        if self.position.peak_memory_bytes is None and (self.position.batch or self.batches <= len(group)):
            update, measured = self.engine.measured_update(batches, total)
            self.position.peak_memory_bytes = measured.peak_memory_bytes
            self.position.activation_bytes = measured.activation_bytes
        else:
            update = self.engine.update(batches, total)
            synchronize()
            self._times.append((time.perf_counter() - start) / total)
        self.position.seconds += time.perf_counter() - start
        return update

    def _load(self, indices: Tensor) -> Pair:
        x, y = self.train[share(indices, self.fabric.global_rank, self.fabric.world_size)]
        return x.to(self.fabric.device), y.to(self.fabric.device)

    def _account(self, update: Update, batches: int) -> None:
        position = self.position
        if not update.finite:
            raise InputError(f"the loss became non-finite in epoch {position.epoch + 1}, batch {position.batch + 1}")
        position.loss_sum += update.loss_sum
        position.samples += update.samples
        position.step += 1
        position.skipped += not update.applied
        position.batch += batches
        self.display.batch(self._done, position.epoch, position.mean_loss, self._rate or 0.0)

    @property
    def _rate(self) -> float | None:
        return 1 / statistics.median(self._times) if self._times else None

    def _close_epoch(self) -> Row:
        """Evaluate, add the row, checkpoint; in this order, so that a checkpoint has all rows up to its epoch."""
        position, config = self.position, self.config
        last = position.epoch + 1 == config.epochs
        tested = last or (position.epoch + 1) % config.evaluate_every == 0
        errors = self._evaluate() if tested else {"l2": None, "h1": None}
        row = self._row(errors)
        position.rows.append(row)
        improved = errors["l2"] is not None and (position.best is None or errors["l2"] < position.best)
        if improved:
            position.best = errors["l2"]
        position.stale = 0 if improved else position.stale + tested
        position.start_epoch()
        if improved:
            save(self.engine.operator, self.run_dir / "best.safetensors", extra={"epoch": position.epoch})
        if last or position.epoch % config.checkpoint_every == 0:
            self._checkpoint()
        write_metrics(self.run_dir, position.rows)
        return row

    def _evaluate(self) -> dict[str, float | None]:
        ranks = range(self.fabric.global_rank, len(self.test), self.fabric.world_size)
        sums = sum_errors(self.engine.module, self.test, ranks, self.metadata, self.config.batch_size)
        totals = add_up(self.fabric, torch.tensor(list(sums.values()), dtype=torch.float64)).tolist()
        return {name: value / len(self.test) for name, value in zip(sums, totals, strict=True)}

    def _row(self, errors: Mapping[str, float | None]) -> Row:
        position = self.position
        progress = (self._done - 1) / (self.config.epochs * self.batches)
        assert self.engine.policy is not None, "an epoch has at least one update"
        return {
            "epoch": position.epoch + 1,
            "step": position.step,
            "phase": self.schedule.phase_at(progress),
            "policy": self.engine.policy.name,
            "train_loss": position.mean_loss,
            "test_l2": errors["l2"],
            "test_h1": errors["h1"],
            "learning_rate": self.engine.learning_rate,
            "loss_scale": self.engine.loss_scale,
            "skipped_steps": position.skipped,
            "seconds": position.seconds,
            "samples_per_second": self._rate,
            "peak_memory_bytes": position.peak_memory_bytes,
            "activation_bytes": position.activation_bytes,
        }

    def _checkpoint(self) -> None:
        tensors, values = self.engine.state()
        self.checkpoints.write(self._done, tensors, {"engine": values, "position": self.position.to_dict()})
