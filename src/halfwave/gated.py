"""`halfwave.train`: a training that is refused before it begins where its memory is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from halfwave import training
from halfwave.gate import ARGUMENTS, check_memory
from halfwave.training import RunResult, TrainConfig, open_data, settle


def train(
    config: TrainConfig | None = None,
    run_dir: str | Path | None = None,
    *,
    quiet: bool = False,
    force: bool = False,
    **settings: Any,
) -> RunResult:
    """Train to the end, or go on with the run that `run_dir` holds; a finished one returns its result at once.

    >>> halfwave.train(data=(x, y), model=halfwave.FNO(...), run_dir="runs/mine", epochs=20)
    >>> halfwave.train(data="flow.npz", model="fno", run_dir="runs/flow")

    The settings are those of a `TrainConfig`, or one of them. `data` are arrays, tensors, a `Dataset` of pairs or a
    path; `model` is a family (fno, tfno, sfno, gino, unet: its settings follow from the data), the name of a class with
    `arguments`, or a built module, which is trained in place (on one device). By default `run_dir` is
    runs/MODEL-PRECISION. A finished run goes on when more `epochs` are asked for.

    InputError, before anything is written, for a data file or model that cannot be used, a directory that cannot be
    written, a directory that holds a run with other settings or other data, and, unless `force`, a training whose plan
    needs more memory than there is, with the largest batch that fits (`halfwave.gate.check_memory` says what counts).
    """
    config = settle(config, settings)
    if not force:
        check_memory(config, open_data(config), ARGUMENTS)
    return training.train(config, run_dir, quiet=quiet)
