"""Runs beside each other: what each directory below a place holds, and the settings in which they differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from halfwave.errors import InputError
from halfwave.files import read_json
from halfwave.training.config import FREE_ON_RESUME
from halfwave.training.records import SUMMARY, read_metrics
from halfwave.training.run_directory import is_run

_SHOWN = ("recipe", "model", "precision", "epochs")
"""Settings with a column of their own."""


@dataclass(frozen=True)
class RunListing:
    """One run; None is what it does not say (yet).

    Attributes:
        path: of its directory.
        recipe, model, precision: what was asked for.
        epochs, epochs_asked: done, and of how many.
        status: finished, early (stopped), interrupted, or running or stopped where it left no summary.
        l2, h1: test errors, in the precision of training.
        seconds: of all epochs.
        settings: of its config.
    """

    path: str
    recipe: str | None
    model: str | None
    precision: str | None
    epochs: int
    epochs_asked: int | None
    status: str
    l2: float | None
    h1: float | None
    seconds: float
    settings: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, run: Path) -> RunListing:
        """What the files of a run say; InputError where they cannot be read."""
        config = read_json(run / "config.json").get("config", {})
        summary = read_json(run / SUMMARY) if (run / SUMMARY).exists() else {}
        rows = read_metrics(run) if (run / "metrics.csv").exists() else []
        tested = [row for row in rows if row.get("test_l2") is not None]
        last = tested[-1] if tested else {}
        return cls(
            path=str(run),
            recipe=config.get("recipe"),
            model=config.get("model"),
            precision=config.get("precision"),
            epochs=len(rows),
            epochs_asked=config.get("epochs"),
            status=str(summary.get("status", "no result")),
            l2=summary.get("l2", last.get("test_l2")),
            h1=summary.get("h1", last.get("test_h1")),
            seconds=sum(float(row.get("seconds") or 0) for row in rows),
            settings=config,
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def find_runs(places: Iterable[Path]) -> list[Path]:
    """Run directories among these and below them, in order; InputError for a place that is not there."""
    found: dict[Path, None] = {}
    for place in places:
        if not place.exists():
            raise InputError(f"{place} does not exist: expected a run directory, or one with runs below it")
        records = [place / "config.json"] if is_run(place) else sorted(place.rglob("config.json"))
        found |= dict.fromkeys(record.parent for record in records if _is_record(record))
    return list(found)


def differing_settings(runs: Sequence[RunListing]) -> dict[str, list[Any]]:
    """Settings that are not the same in all runs, each with its values in order; what has a column is left out."""
    flat = [{**run.settings, **_flat(run.settings.get("arguments") or {})} for run in runs]
    names = dict.fromkeys(name for settings in flat for name in settings)
    values = {name: [settings.get(name) for settings in flat] for name in names if name not in (*_SHOWN, "arguments")}
    hidden = set(FREE_ON_RESUME) - {"data"}
    return {
        name: own for name, own in values.items() if name not in hidden and any(value != own[0] for value in own[1:])
    }


def _flat(arguments: dict[str, Any]) -> dict[str, Any]:
    return {f"arguments.{name}": value for name, value in arguments.items()}


def _is_record(path: Path) -> bool:
    """Whether it is the config.json of a run, and not another program's."""
    try:
        found = read_json(path)
    except InputError:
        return False
    return isinstance(found, dict) and isinstance(found.get("config"), dict)
