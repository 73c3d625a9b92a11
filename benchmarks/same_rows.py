"""Does a change of code leave the numbers of committed results alone? The first updates of every setting, by both.

    python benchmarks/same_rows.py --before PATH/TO/OTHER/CHECKOUT --scale medium
    python benchmarks/same_rows.py --before PATH/TO/OTHER/CHECKOUT --scale medium overview number-systems

Changed code makes rows stale (docs/evidence.md). For each group of stale rows that differ in their seed alone this
takes one configuration, cuts its trainings to a few updates of one batch and its test splits to a few samples, and
measures it with the code of either checkout, in a process of its own on one thread. Where every number, times excepted,
is the same to the last digit, the record of the result keeps that as a witness, and the rows are no longer stale. It
counts only on a machine of the kind that measured the rows, and only for rows that the other checkout's code measured.
A CPU that multiplies bf16 can take products as one that does not: `--multiplies none` asks about rows of such machines.

Exits with 1 if some rows stay stale: `halfwave reproduce` measures those again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EPOCHS = 4
"""Of one batch, mostly: the phases of a schedule are parts of the epochs."""
SAMPLES = 16
"""At least: a linear map needs more samples than a batch of bodies has."""
TEST_SAMPLES = 4
NONE = "none"
Key = tuple[str, str]
"""An experiment, and one of its configurations."""


@dataclass(frozen=True)
class Beginning:
    """What one code says of a configuration that was cut: its rows but for times, or the reason why there are none."""

    code: str
    rows: Sequence[Mapping[str, str]] | None
    reason: str = ""


def shortened(value: Any) -> Any:
    """A configuration, or any part of it, with trainings of a few updates and recipes of a few test samples."""
    from halfwave.experiments.lab import Training
    from halfwave.recipes import Recipe

    if isinstance(value, Training):
        changes = {**value.changes, "epochs": EPOCHS, "evaluate_every": EPOCHS // 2, "checkpoint_every": EPOCHS}
        recipe = replace(shortened(value.recipe), n_train=max(SAMPLES, value.config("").batch_size))
        return replace(value, recipe=recipe, changes=changes)
    if isinstance(value, Recipe):
        return replace(value, n_test=min(value.n_test, TEST_SAMPLES))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: shortened(getattr(value, field.name)) for field in fields(value)})
    if isinstance(value, Mapping):
        return {name: shortened(v) for name, v in value.items()}
    return type(value)(map(shortened, value)) if type(value) in (list, tuple) else value


def machine_said(multiplies: str | None) -> AbstractContextManager[None]:
    """Within, one thread computes, and the CPU multiplies this half format natively; None is what it does."""
    from halfwave.numerics import cpu_multiplies, on_threads

    stack = ExitStack()
    stack.enter_context(on_threads(1))
    if multiplies is not None:
        stack.enter_context(cpu_multiplies(*(() if multiplies == NONE else (multiplies,))))
    return stack


def measure(keys: Sequence[Key], scale: str, directory: str, multiplies: str | None = None) -> list[Beginning]:
    """Of configurations that the results in `directory` want, by the library that this process imports."""
    from halfwave.experiments.experiment import check_scale
    from halfwave.experiments.lab import Lab
    from halfwave.experiments.registry import get_experiment
    from halfwave.experiments.results import read_results

    found = []
    with tempfile.TemporaryDirectory() as folder, machine_said(multiplies):
        for name, key in keys:
            experiment = get_experiment(name)
            configuration = read_results(experiment, check_scale(scale), directory).wanted[key]
            found.append(_measure(experiment, shortened(configuration), Lab(folder)))
            print(f"  {name}: {key}", file=sys.stderr, flush=True)
    return found


def _measure(experiment: Any, configuration: Any, lab: Any) -> Beginning:
    """Of the library only what older checkouts have as well."""
    from halfwave.training import seed_all

    seed_all(0)
    try:
        rows = experiment.rows(configuration, lab)
    except Exception as error:  # some need more than a beginning: they are measured again as a whole
        return Beginning(experiment.code, None, f"{type(error).__name__}: {error}"[:200])
    timed = experiment.timings
    return Beginning(experiment.code, [{k: str(v) for k, v in row.items() if k not in timed} for row in rows])


def measured_by(
    checkout: Path, keys: Sequence[Key], scale: str, directory: Path, multiplies: str | None = None
) -> list[Beginning]:
    """The same in a process of its own, by the library of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--worker", "--scale", scale, "--results", str(directory)]
    command += [] if multiplies is None else ["--multiplies", multiplies]
    run = subprocess.run(
        command, env=environment, input=json.dumps(keys), check=True, stdout=subprocess.PIPE, text=True, cwd=checkout
    )
    return [Beginning(**found) for found in json.loads(run.stdout.splitlines()[-1])]


def of_both(
    checkouts: tuple[Path, Path], keys: Sequence[Key], scale: str, directory: Path, multiplies: str | None
) -> tuple[dict[Key, Beginning], dict[Key, Beginning]]:
    """By the code of two checkouts, side by side."""
    if not keys:
        return {}, {}
    print(f"{len(keys)} settings, each measured in small by two codes", flush=True)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda c: measured_by(c, keys, scale, directory, multiplies), checkouts)
    return dict(zip(keys, first, strict=True)), dict(zip(keys, second, strict=True))


def groups_of_stale(results: Any) -> dict[tuple[str, tuple[str, str]], list[str]]:
    """Keys of stale rows by their group and by the code and machine that measured them."""
    from halfwave.experiments.vouching import group_of, origin_of

    found: dict[tuple[str, tuple[str, str]], list[str]] = {}
    for key in results.stale:
        group = group_of(results.wanted[key])
        if group is not None:
            origin = origin_of(results.record["rows"][key], results.record["environments"])
            found.setdefault((group, origin), []).append(key)
    return found


def why_not(codes: set[str], before: Beginning | None, after: Beginning | None) -> str:
    """Why rows of any of these codes stay stale; empty where they do not."""
    if before is None or after is None:
        return "was measured on a machine of another kind"
    if before.code not in codes:
        return "was measured by code that is not the other checkout's"
    if before.rows is None or after.rows is None:
        return f"cannot be cut: {before.reason or after.reason}"
    return "" if before.rows == after.rows else "other digits"


def look_at(names: Sequence[str], scale: str, before: Path, directory: Path, multiplies: str | None = None) -> int:
    """Both codes on all groups of stale rows; writes witnesses and says what stays stale. The number of such rows."""
    from halfwave.experiments.experiment import check_scale
    from halfwave.experiments.registry import get_experiment
    from halfwave.experiments.results import measuring_environment, read_results
    from halfwave.experiments.vouching import Witness, codes_like, machine_of

    known = check_scale(scale)
    with machine_said(multiplies):
        here = machine_of(measuring_environment())
    found = {name: read_results(get_experiment(name), known, directory) for name in names}
    groups = {name: groups_of_stale(results) for name, results in found.items()}
    keys = [
        (name, stale[0])
        for name, of_name in groups.items()
        for (_, (_, machine)), stale in of_name.items()
        if machine == here
    ]
    old, new = of_both((before, ROOT), keys, scale, directory, multiplies)
    for name, results in found.items():
        witnesses = []
        for (group, origin), stale in groups[name].items():
            first, second = old.get((name, stale[0])), new.get((name, stale[0]))
            if reason := why_not(codes_like(origin, group, results.witnesses), first, second):
                print(f"{name}, {stale[0]} and {len(stale) - 1} others: {reason}")
            elif first is not None and second is not None:
                witnesses.append(Witness(group, origin[1], first.code, second.code))
        if witnesses:
            read_results(results.experiment, known, directory).add_witnesses(witnesses)  # others may have written since
    after = {name: read_results(get_experiment(name), known, directory) for name in names}
    for name, results in after.items():
        if results.rows:
            print(f"{name:24} {len(found[name].stale)} rows were stale, {len(results.stale)} are")
    return sum(len(results.stale) for results in after.values())


def main() -> int:
    from halfwave.experiments.registry import NAMES, get_experiment

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="experiments; all that have results otherwise")
    parser.add_argument("--before", type=Path, help="a checkout of the commit that the rows were measured at")
    parser.add_argument("--scale", default="medium")
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument(
        "--multiplies", choices=(NONE, "bf16"), help="the half format that the CPU is taken to multiply"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        keys = [(name, key) for name, key in json.load(sys.stdin)]
        found = measure(keys, arguments.scale, str(arguments.results), arguments.multiplies)
        print(json.dumps([vars(beginning) for beginning in found]))
        return 0
    if arguments.before is None:
        parser.error("--before is needed: a checkout of the commit that the rows were measured at")
    names = arguments.names or [name for name in NAMES if arguments.scale in get_experiment(name).scales]
    directories = arguments.before.resolve(), arguments.results.resolve()
    stale = look_at(names, arguments.scale, *directories, arguments.multiplies)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
