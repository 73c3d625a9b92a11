"""Rows of other code whose numbers today's code gives again, so that a change that moves no number costs no evidence.

Rows that differ in their seed alone are one group. Where one of a group is measured again and every number of it is
the same to the last digit, times excepted, its record keeps by which code and on which machine it was measured
before; rows of the group with that code and machine then stand for today's code too. One that moves a digit is a
witness of nothing, and all of its group are measured again; so are rows without a seed.

Cheaper than a whole row is its beginning: a `Witness` says that two codes gave the same digits, on one machine, for the
trainings of a group cut to their first updates (`benchmarks/same_rows.py` runs both).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from halfwave.experiments.experiment import Row, scalars

Origin = tuple[str, str]
"""The code of a row, and the machine."""


class Witness(NamedTuple):
    """Two codes with the same digits for one group of rows on one machine, as a record keeps it."""

    group: str
    machine: str
    before: str
    after: str


_NO_DIGIT = ("git", "halfwave", "platform")
"""What an environment has beside processor and packages; the code has a digest, and kernels round nothing."""


def group_of(configuration: Any) -> str | None:
    """Digest of all settings of a configuration but seeds, those of its trainings included; None without a seed."""
    if "seed" not in scalars(configuration):
        return None
    settings = json.dumps(_seedless(asdict(configuration)), sort_keys=True, default=str)
    return hashlib.sha256(settings.encode()).hexdigest()[:16]


def _seedless(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _seedless(v) for name, v in value.items() if name != "seed"}
    return [_seedless(v) for v in value] if isinstance(value, list | tuple) else value


def origin_of(entry: Mapping[str, Any], environments: Sequence[Mapping[str, Any]]) -> Origin:
    """Of a row, by its entry in the record: whatever decides its digits but the configuration."""
    return str(entry.get("code")), machine_of(environments[entry["environment"]])


def machine_of(environment: Mapping[str, Any]) -> str:
    """Digest of what an environment has that may decide a digit."""
    machine = {name: v for name, v in environment.items() if name not in _NO_DIGIT}
    return hashlib.sha256(json.dumps(machine, sort_keys=True, default=str).encode()).hexdigest()[:16]


def earlier_origins(entry: Mapping[str, Any], environments: Sequence[Mapping[str, Any]], code: str) -> list[Origin]:
    """What the same numbers, measured again by `code`, had come from before."""
    known = [origin_of(entry, environments), *map(tuple, entry.get("again", ()))]
    return [origin for origin in dict.fromkeys(known) if origin[0] != code]


def same_numbers(rows: Sequence[Row], others: Sequence[Row], timings: Collection[str]) -> bool:
    """To the last digit, as a result file writes them; times differ from run to run."""
    return list(_numbers(rows, timings)) == list(_numbers(others, timings))


def _numbers(rows: Sequence[Row], timings: Collection[str]) -> Iterator[list[tuple[str, str]]]:
    for row in rows:
        yield [(name, str(value)) for name, value in row.items() if name not in timings]


def vouched_for(
    configurations: Mapping[str, Any],
    entries: Mapping[str, Mapping[str, Any]],
    environments: Sequence[Mapping[str, Any]],
    code: str,
    witnesses: Collection[Witness],
) -> dict[str, bool]:
    """Of these rows by key those that other code has measured: whether one of their group stands for them."""
    found = {}
    for key, configuration in configurations.items():
        if entries[key].get("code") != code:
            group, origin = group_of(configuration), origin_of(entries[key], environments)
            found[key] = group is not None and code in codes_like(origin, group, witnesses)
    return found


def seen_again(configurations: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]) -> set[Witness]:
    """What rows say that were measured a second time and gave the same digits."""
    return {
        Witness(group, machine, before, str(entries[key].get("code")))
        for key, configuration in configurations.items()
        if (group := group_of(configuration)) is not None
        for before, machine in entries[key].get("again", ())
    }


def codes_like(origin: Origin, group: str, witnesses: Collection[Witness]) -> set[str]:
    """The code of a row, and all to which witnesses of its group lead from it, one after the other."""
    code, machine = origin
    steps = [witness for witness in witnesses if (witness.group, witness.machine) == (group, machine)]
    found, waiting = {code}, [code]
    while waiting:
        before = waiting.pop()
        new = {witness.after for witness in steps if witness.before == before} - found
        found |= new
        waiting += new
    return found
