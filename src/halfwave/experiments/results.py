"""Result files: NAME.csv with the rows, and NAME.json that says what made them and how to tell that they are unchanged.

Both are replaced as a whole after every configuration, the record first. A process killed in between leaves a record
that knows of a row more than the file has, which is a row still to be measured; a row that its record does not know,
or knows with another checksum, was changed by hand.
"""

from __future__ import annotations

import csv
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from halfwave.errors import InputError
from halfwave.experiments.experiment import Experiment, Row, Scale
from halfwave.experiments.vouching import (
    Origin,
    Witness,
    earlier_origins,
    group_of,
    same_numbers,
    seen_again,
    vouched_for,
)
from halfwave.files import read_json, write_csv, write_json
from halfwave.numerics import core_count
from halfwave.training import describe_environment


@dataclass
class Results:
    """The rows of one experiment at one scale, by key, with their record."""

    experiment: Experiment
    scale: Scale
    folder: Path
    rows: dict[str, list[Row]] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)
    edited: list[str] = field(default_factory=list)
    """Keys whose rows were changed by hand."""

    @property
    def csv(self) -> Path:
        return self.folder / f"{self.experiment.name}.csv"

    @property
    def json(self) -> Path:
        return self.folder / f"{self.experiment.name}.json"

    @property
    def wanted(self) -> dict[str, Any]:
        """The configurations that this result is to have, those that its rows so far ask for included."""
        return self._wanted(self.all_rows)

    def _wanted(self, rows: list[Row]) -> dict[str, Any]:
        # Rows of an older form of the experiment have other columns, and nothing to ask for.
        columns = {measure.name for measure in self.experiment.measures}
        return self.experiment.keyed(self.scale, [row for row in rows if columns <= row.keys()])

    @property
    def missing(self) -> list[str]:
        """Keys without rows, with rows changed by hand, or with rows of other settings."""
        return [key for key, configuration in self.wanted.items() if not self._is_done(key, configuration)]

    @property
    def stale(self) -> list[str]:
        """Keys whose rows were measured by other code than this, which may not give the same numbers."""
        return [key for key, vouched in self._of_other_code.items() if not vouched]

    @property
    def vouched(self) -> list[str]:
        """Keys whose rows were measured by other code, which this one has been seen to give the same digits as."""
        return [key for key, vouched in self._of_other_code.items() if vouched]

    @property
    def _of_other_code(self) -> dict[str, bool]:
        entries, environments = self.record.get("rows", {}), self.record.get("environments", [])
        return vouched_for(self._done, entries, environments, self.experiment.code, self.witnesses)

    @property
    def _done(self) -> dict[str, Any]:
        return {key: c for key, c in self.wanted.items() if self._is_done(key, c)}

    @property
    def witnesses(self) -> list[Witness]:
        """What the record knows of codes that give the same digits, rows that were measured again included."""
        recorded = [Witness(*witness) for witness in self.record.get("witnesses", ())]
        return [*recorded, *sorted(seen_again(self._done, self.record.get("rows", {})) - set(recorded))]

    @property
    def to_measure(self) -> list[str]:
        """What a run measures: all that is missing or stale, in the order of the experiment.

        Of stale rows that differ in their seed alone the first comes before all others, for which it may stand.
        """
        wanted, missing, stale = self.wanted, set(self.missing), set(self.stale)
        groups: set[str | None] = set()
        due = [key for key in wanted if key in missing or key in stale]
        waiting = []
        for key in due:
            group = group_of(wanted[key]) if key in stale else None
            if group is not None and group in groups:
                waiting.append(key)
            groups.add(group)
        return [*(key for key in due if key not in waiting), *waiting]

    def _is_done(self, key: str, configuration: Any) -> bool:
        known = self.record.get("rows", {}).get(key, {})
        same = known.get("configuration") == self.experiment.digest(configuration)
        return same and key in self.rows and key not in self.edited

    @property
    def state(self) -> str:
        """For lists: done, how much of it, or what is wrong."""
        if not self.rows:
            return "not run"
        if self.edited:
            return f"changed by hand: {self.edited[0]}" + (", ..." if len(self.edited) > 1 else "")
        missing, stale, total = len(self.missing), len(self.stale), len(self.wanted)
        done = "done" if not missing else f"{total - missing} of {total}"
        return f"{done}, {stale} stale" if stale else done

    @property
    def all_rows(self) -> list[Row]:
        return [row for rows in self.rows.values() for row in rows]

    @property
    def measured_rows(self) -> list[Row]:
        """Those of the settings of today: what is shown and judged."""
        done = [key for key, configuration in self.wanted.items() if self._is_done(key, configuration)]
        return [row for key in done for row in self.rows[key]]

    @property
    def seconds(self) -> float:
        """Time that the measured configurations took."""
        return sum(entry["seconds"] for key, entry in self.record.get("rows", {}).items() if key in self.rows)

    def drop_untrusted(self) -> None:
        """Forget rows that were changed by hand, and those of configurations that the experiment has no more."""
        trusted = [row for key, rows in self.rows.items() if key not in self.edited for row in rows]
        wanted = self._wanted(trusted)
        self.rows = {key: rows for key, rows in self.rows.items() if key in wanted and key not in self.edited}
        self.edited = []

    def add(self, key: str, configuration: Any, rows: Sequence[Row], seconds: float) -> None:
        """Put the rows of one configuration into the files, in the place that the experiment gives it."""
        self.drop_untrusted()
        again = self._given_again(key, configuration, rows)
        self.rows[key] = list(rows)
        self.rows = {k: self.rows[k] for k in self.wanted if k in self.rows}
        environment = measuring_environment()
        environments = self.record.get("environments", [])
        if environment not in environments:
            environments = [*environments, environment]
        entry = {
            "configuration": self.experiment.digest(configuration),
            "code": self.experiment.code,
            "sha256": _digest([_texts(row) for row in rows]),
            "seconds": round(seconds, 3),
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "environment": environments.index(environment),
        } | ({"again": again} if again else {})
        entries = self.record.get("rows", {}) | {key: entry}
        self.record = {
            "experiment": self.experiment.name,
            "scale": self.scale,
            "timings": list(self.experiment.timings),
            "environments": environments,
            "rows": {k: entries[k] for k in self.rows},
        } | ({"witnesses": self.record["witnesses"]} if "witnesses" in self.record else {})
        self.write()

    def add_witnesses(self, witnesses: Sequence[Witness]) -> None:
        """Keep in the record that other code gives the same digits as this one."""
        known = dict.fromkeys((*map(Witness._make, self.record.get("witnesses", ())), *witnesses))
        self.record = {**self.record, "witnesses": [list(witness) for witness in known]}
        self.write()

    def _given_again(self, key: str, configuration: Any, rows: Sequence[Row]) -> list[Origin]:
        """What had these numbers before; nothing where there were none, or others."""
        if not self._is_done(key, configuration) or not same_numbers(self.rows[key], rows, self.experiment.timings):
            return []
        return earlier_origins(self.record["rows"][key], self.record["environments"], self.experiment.code)

    def write(self) -> None:
        """Replace both files."""
        rows = [_texts(row) for row in self.all_rows]
        write_json(self.json, self.record)
        write_csv(self.csv, tuple(rows[0]) if rows else ("key",), rows)


def read_results(experiment: Experiment, scale: Scale, directory: str | Path) -> Results:
    """What DIRECTORY/SCALE holds of an experiment: nothing, a part or all of it, and whether somebody changed it."""
    results = Results(experiment, scale, Path(directory) / scale)
    if not results.csv.exists():
        return results
    cells: dict[str, list[dict[str, str]]] = {}
    for row in _read_csv(results.csv):
        cells.setdefault(row.get("key", ""), []).append(row)
    results.rows = {key: [_values(row) for row in rows] for key, rows in cells.items()}
    results.record = _read_record(results.json)
    entries = results.record["rows"]
    results.edited = [key for key, rows in cells.items() if entries.get(key, {}).get("sha256") != _digest(rows)]
    return results


def _read_csv(path: Path) -> list[dict[str, str]]:
    try:
        with open(path, newline="", encoding="utf-8") as file:
            return [{str(name): str(text) for name, text in row.items()} for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {error}") from error


def _read_record(path: Path) -> dict[str, Any]:
    """The record of a result; without one no row can be trusted."""
    if not path.exists():
        return {"rows": {}}
    record = read_json(path)
    if not isinstance(record, Mapping) or not isinstance(record.get("rows"), Mapping):
        raise InputError(f"{path} is not the record of a result: remove it and its CSV, and run again")
    witnesses = record.get("witnesses", [])
    if not isinstance(witnesses, list) or not all(isinstance(w, list) and len(w) == 4 for w in witnesses):
        raise InputError(f"{path}: witnesses must be lists of group, machine and two codes: remove that entry")
    return dict(record)


def _digest(rows: Sequence[Mapping[str, str]]) -> str:
    """Of the names and the text of all cells: a changed digit or column is seen, whatever number it stands for."""
    return hashlib.sha256(json.dumps([list(row.items()) for row in rows]).encode()).hexdigest()


def _texts(row: Row) -> dict[str, str]:
    """The cells of a row; numbers as Python writes them, which read back to the same bits."""
    return {name: "" if value is None else str(value) for name, value in row.items()}


def _values(row: Mapping[str, str]) -> Row:
    return {name: _value(text) for name, text in row.items()}


def _value(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None


def measuring_environment() -> dict[str, Any]:
    """Versions, git state and machine; not the command, which says nothing about a number."""
    described = {name: value for name, value in describe_environment().items() if name != "command"}
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {**described, "cores": core_count(), "gpu": gpu}
