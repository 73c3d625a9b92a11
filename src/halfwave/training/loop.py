"""The one loop: epochs of updates, each epoch closed by an evaluation, a row and a checkpoint.

On several processes every one runs the same loop on its share of the data; only the first writes.
"""

from __future__ import annotations

import math
import time
from typing import Literal

import torch
from torch import Tensor

from halfwave.display import Display
from halfwave.domains import moved
from halfwave.measure import RangeMonitor, synchronize, take_allocator_peak
from halfwave.models import computing_in, settle_for
from halfwave.precision import Policy
from halfwave.training.batches import Batch, Samples, cut, epoch_order, share
from halfwave.training.checkpointing import Keeper
from halfwave.training.clouds import Inputs, Targets
from halfwave.training.declared import taken_at_its_word
from halfwave.training.devices import Interrupts, add_up
from halfwave.training.engine import Engine, Update
from halfwave.training.evaluation import Errors, mean_errors, sample_errors
from halfwave.training.in_time import noisy
from halfwave.training.nonfinite import NonFiniteError, diagnose, promote, safer
from halfwave.training.records import EpochMetrics, Recorder
from halfwave.training.run_state import Position

# Loss scaling halves its scale at every skipped step: after so many in a row it is 1e-15 of what it was.
_SKIPS_IN_A_ROW = 50


class Loop:
    """Runs an engine from a position to the end of training, and keeps the run directory up to date."""

    def __init__(
        self,
        engine: Engine,
        train: Samples,
        test: Samples,
        keeper: Keeper,
        display: Display,
    ) -> None:
        self.engine, self.config, self.fabric = engine, engine.config, engine.fabric
        self.train, self.test = train, test
        self.keeper, self.display = keeper, display
        self.schedule = self.config.build_schedule(self.fabric.device.type)
        settle_for(engine.operator.model, (policy for _, policy in self.schedule.phases))
        self.batches = -(-len(train) // self.config.batch_size)
        self.position = Position()
        self.monitor = RangeMonitor(engine.operator.model)
        self._said: set[str] = set()
        self.horizon: int | None = None
        self.recorder = Recorder(keeper.run_dir, writes=self.fabric.is_global_zero)

    def resume(self) -> None:
        """Go to the newest checkpoint, if there is one."""
        found = self.keeper.read(self.display.say)
        if found is not None:
            tensors, values = found
            with taken_at_its_word(f"the checkpoint in {self.keeper.run_dir}"):
                self.position = Position.from_dict(values["position"])
                self.engine.restore(tensors, values["engine"])
                self.monitor.restore(values["ranges"])
            self.display.say(f"resuming in epoch {self.position.epoch + 1} after {self.position.batch} batches")

    def run(self) -> Position:
        """All epochs that are left, or until a signal or early stopping; the position's status says which."""
        self.recorder.begin(self.position.rows)
        self.display.begin(self._done)
        with Interrupts(worker=self.fabric.world_size > 1) as interrupts:
            if self.config.monitor:
                with self.monitor:
                    self._run(interrupts)
            else:
                self._run(interrupts)
        return self.position

    def _run(self, interrupts: Interrupts) -> None:
        if self.config.on_nonfinite == "promote" and self.keeper.empty:
            self._checkpoint()  # something to go back to
        while (status := self._status()) == "running":
            end = self._run_epoch(interrupts)
            if end == "interrupted":
                self._checkpoint()
                status = end
                break
            if end == "complete":
                self._close_epoch()
        self.position.status = status

    def _status(self) -> str:
        if self.position.epoch >= self.config.epochs:
            return "finished"
        patience = self.config.patience
        return "early" if patience is not None and self.position.stale >= patience else "running"

    @property
    def _done(self) -> int:
        return self.position.epoch * self.batches + self.position.batch

    def _run_epoch(self, interrupts: Interrupts) -> Literal["complete", "interrupted", "rewound"]:
        """The rest of an epoch, unless a signal ends it or bad weights send the run back to a checkpoint."""
        position, config = self.position, self.config
        self.train.set_epoch(position.epoch)
        order = cut(epoch_order(config.seed, position.epoch, len(self.train)), config.batch_size)
        while position.batch < self.batches:
            self._prepare()
            group = order[position.batch : position.batch + config.accumulate]
            update = self._update(group, interrupts.requested)
            if self._accept(update, group):
                self._account(update, len(group))
            if self.position is not position:
                return "rewound"
            if position.batch < self.batches:
                if update.interrupted:
                    return "interrupted"
                if config.checkpoint_steps and position.step % config.checkpoint_steps == 0:
                    self._checkpoint()
        return "complete"

    def _prepare(self) -> None:
        """Policy and learning rate of the next update, from the position alone."""
        progress = self._done / (self.config.epochs * self.batches)
        self.position.phase = self.schedule.phase_at(progress)
        self.engine.set_policy(promote(self.schedule.policy_at(progress), self.position.promoted))
        self.horizon = self.engine.set_horizon(progress)
        self.engine.set_step(self.position.step)
        self.monitor.step = self.position.step

    def _update(self, group: list[Tensor], interrupted: bool) -> Update:
        begun = time.perf_counter()
        total = sum(len(indices) for indices in group)
        batches = [self._load(indices) for indices in group]
        start = time.perf_counter()  # throughput is that of steps with data in memory
        if self._measures(len(group)):
            # What is counted must not depend on whether this process has just resumed, with empty caches.
            self.engine.warm_up(batches, total)
            update, measured = self.engine.measured_update(batches, total, interrupted)
            self.position.measured[self._measured_as] = [
                measured.peak_memory_bytes, measured.activation_bytes, self.position.step
            ]  # fmt: skip
        else:
            update = self.engine.update(batches, total, interrupted)
            synchronize()
            self.recorder.time(total, time.perf_counter() - start)
        self.position.seconds += time.perf_counter() - begun
        return update

    def _measures(self, group: int) -> bool:
        """Bytes are counted once per policy: every update of a policy holds the same, clouds of other sizes apart.

        Not at the very first update, when the optimizer has no state yet, unless it is the last one of its epoch too,
        as every row has its figures. The position alone decides, so that a resumed run has the same ones.
        """
        if self.engine.compiled or self.config.strategy == "fsdp":
            return False  # their allocations do not pass the dispatcher
        known = self.position.measured.get(self._measured_as)
        if known is not None and (known[2] > 0 or self.position.step == 0):
            return False
        return self.position.step > 0 or self.position.batch + group >= self.batches

    @property
    def _measured_as(self) -> str:
        """What the bytes of an update depend on: the policy, and in time how far it looks."""
        return self._policy.name if self.horizon is None else f"{self._policy.name}, {self.horizon} steps"

    @property
    def _policy(self) -> Policy:
        assert self.engine.policy is not None, "the policy is set before every update"
        return self.engine.policy

    def _load(self, indices: Tensor) -> Batch:
        own = share(indices, self.engine.team.number, self.engine.team.size)
        # Every process takes part in every exchange, so one without samples goes through the motions.
        taken = own if len(own) else indices[:1]
        x, y = self.train[taken]
        if self.config.augment:
            x, y = self._moved(x, y, taken)
        if self.config.noise:
            assert isinstance(x, Tensor), "noise is for fields on a grid"
            seeds = [(self.config.seed, self.position.epoch, int(index), 2) for index in taken]
            x = noisy(self.engine.operator, x, self.config.noise, seeds)
        return Batch(x, y, weight=float(len(own) > 0)).to(self.fabric.device)

    def _moved(self, x: Inputs, y: Targets, taken: Tensor) -> tuple[Inputs, Targets]:
        """Each sample moved by a symmetry that its number, the epoch and the seed decide: the same on every rank."""
        assert isinstance(x, Tensor), "only fields on a grid are moved"
        assert isinstance(y, Tensor), "only fields on a grid are moved"
        seeds = [(self.config.seed, self.position.epoch, int(index), 1) for index in taken]
        return moved(self.config.augment, self.train.domain, x, y, seeds)

    def _accept(self, update: Update, group: list[Tensor]) -> bool:
        """True to go on with the next batch, False to take this one again under a safer policy."""
        position, config = self.position, self.config
        position.skips_in_a_row = 0 if update.applied else position.skips_in_a_row + 1
        # A smaller scale may mend gradients that overflow, but not a loss that does: an epoch of those is enough.
        updates = _SKIPS_IN_A_ROW if update.finite else min(_SKIPS_IN_A_ROW, -(-self.batches // config.accumulate))
        hopeless = position.skips_in_a_row >= updates
        tolerated = config.loss_scaling or config.on_nonfinite == "skip"
        if update.applied or (tolerated and not hopeless):
            return True
        if config.on_nonfinite == "promote" and self._promote():
            return False
        raise NonFiniteError(self._explain(group))

    def _promote(self) -> bool:
        target = safer(self._policy)
        if target is None:
            return False
        left, epoch = self._policy.name, self.position.epoch + 1
        self.display.say(f"non-finite values in epoch {epoch} under {left}: on with {target}")
        promoted = [*self.position.promoted, left]
        if not self.engine.finite():
            self.resume()
        self.position.promoted = promoted
        self.position.skips_in_a_row = 0
        return True

    def _explain(self, group: list[Tensor]) -> str:
        where = diagnose(self.engine.operator, self._load(group[0]).x) if self._can_diagnose else "see the monitor"
        skips = self.position.skips_in_a_row
        what = f"{skips} updates in a row were skipped" if skips > 1 else "the loss is not finite"
        kept = "no checkpoint had been written" if self.keeper.empty else "the last checkpoint is kept"
        return f"{what} in epoch {self.position.epoch + 1}, batch {self.position.batch + 1}: {where}; {kept}"

    @property
    def _can_diagnose(self) -> bool:
        return self.config.strategy != "fsdp"

    def _account(self, update: Update, batches: int) -> None:
        position = self.position
        if update.finite:
            position.loss_sum += update.loss_sum
            position.samples += update.samples
        position.zero_targets += update.zero_targets
        position.step += 1
        position.skipped += not update.applied
        position.batch += batches
        self.display.batch(self._done, position.epoch, position.mean_loss, self.recorder.rate or 0.0)

    def _close_epoch(self) -> None:
        """Evaluate, add the row, checkpoint; in this order, so that a checkpoint has all rows up to its epoch."""
        self.keeper.place.check()
        position, config = self.position, self.config
        last = position.epoch + 1 == config.epochs
        errors = self._evaluate() if last or (position.epoch + 1) % config.evaluate_every == 0 else None
        improved = position.note_error(None if errors is None else errors.means["l2"])
        row = self._row(errors, None if errors is None else self._evaluate_in_full(errors))
        self._say_zeros("train", position.zero_targets, len(self.train))
        self._say_zeros("test", 0 if errors is None else errors.zero_targets, len(self.test))
        position.rows.append(row)
        position.start_epoch()
        if improved:
            self.keeper.note_best(position.epoch)
        if self._status() != "running" or (position.epoch % config.checkpoint_every == 0 and self.keeper.affordable()):
            self._checkpoint()
        self.recorder.add(position.rows, self.monitor.rows())
        self.display.epoch(str(row), self._done)

    def _say_zeros(self, split: str, zeros: int, samples: int) -> None:
        """Once for each split: its errors are not those of all of its samples."""
        if zeros and split not in self._said:
            self._said.add(split)
            self.display.say(f"{zeros} of {samples} {split} targets are zero: left out of the mean errors")

    def _evaluate(self, resolution: int | None = None) -> Errors:
        team = self.engine.team
        own = range(team.number, len(self.test), team.size)
        passes = math.ceil(len(self.test) / team.size / self.config.batch_size)
        found = sample_errors(self.engine.module, self.test, own, self.config.batch_size, resolution, passes)
        totals = add_up(self.fabric, torch.stack(list(found.values()))).cpu() / team.copies
        return mean_errors(dict(zip(found, totals, strict=True)))

    def _evaluate_in_full(self, errors: Errors) -> Errors:
        """Errors of the weights as they are in full precision, which `errors` are where nothing is rounded."""
        if self._policy.is_wide:
            return errors
        with computing_in(self.engine.operator.model, "full"):
            return self._evaluate()

    def _row(self, errors: Errors | None, in_full: Errors | None) -> EpochMetrics:
        position = self.position
        means = {} if errors is None else errors.means
        full_means = {} if in_full is None else in_full.means
        peak, activation, _ = position.measured.get(self._measured_as, (None, None, None))
        return EpochMetrics(
            epoch=position.epoch + 1,
            step=position.step,
            phase=position.phase,
            policy=self._policy.name,
            train_loss=position.mean_loss,
            test_l2=means.get("l2"),
            test_h1=means.get("h1"),
            learning_rate=self.engine.learning_rate(position.step),
            loss_scale=self.engine.loss_scale,
            skipped_steps=position.skipped,
            seconds=position.seconds,
            samples_per_second=self.recorder.take_rate(),
            peak_memory_bytes=peak,
            activation_bytes=activation,
            allocator_peak_bytes=take_allocator_peak(self.fabric.device),
            zero_targets=None if errors is None else errors.zero_targets,
            test_l2_full=full_means.get("l2"),
            test_h1_full=full_means.get("h1"),
        )

    def finish(self) -> dict[str, dict[str, float]]:
        """Leave the operator as it stands, for `halfwave.load`; errors at the test resolutions asked for."""
        self.keeper.save_model(self.position.epoch)
        if self.position.status == "interrupted":
            return {}
        return {str(resolution): self._evaluate(resolution).means for resolution in self.config.test_resolutions}

    def _checkpoint(self) -> None:
        self.keeper.checkpoint(self._done, {"position": self.position.to_dict(), "ranges": self.monitor.rows()})
