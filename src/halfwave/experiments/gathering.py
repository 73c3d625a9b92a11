"""gather: what the result files of a scale say, for the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from halfwave.errors import InputError
from halfwave.experiments.experiment import SCALES, Experiment, Scale, scalars
from halfwave.experiments.lab import Training
from halfwave.experiments.results import Results, read_results
from halfwave.report import Evidence, Finding

_MOST_VALUES = 12


def scales_present(experiments: Iterable[Experiment], directory: str | Path) -> list[Scale]:
    """Scales of which DIRECTORY has at least one result file, the largest first."""
    names = [experiment.name for experiment in experiments]
    return [s for s in reversed(SCALES) if any((Path(directory) / s / f"{name}.csv").exists() for name in names)]


def gather(experiments: Sequence[Experiment], scale: Scale, directory: str | Path) -> Evidence:
    """The evidence of a scale. What is not readable or changed by hand is said and not shown.

    Of a result that is not whole the points are shown that there are, part by part, without a verdict.
    """
    run_here = [experiment for experiment in experiments if scale in experiment.scales]
    return Evidence(scale, tuple(_finding(experiment, scale, Path(directory)) for experiment in run_here))


def command_for(name: str, scale: Scale, directory: str | Path) -> str:
    """The command that makes a result, or goes on with it."""
    where = "" if Path(directory) == Path("results") else f" --out {directory}"
    return f"halfwave reproduce {name} --scale {scale}{where}"


def _finding(experiment: Experiment, scale: Scale, directory: Path) -> Finding:
    def finding(status: str, **values: Any) -> Finding:
        command = command_for(experiment.name, scale, directory)
        texts = (experiment.name, experiment.source, experiment.question, experiment.claim)
        return Finding(*texts, command, status, **values)

    try:
        results = read_results(experiment, scale, directory)
    except InputError as error:
        return finding("unreadable", problem=f"{error}.")
    if not results.rows:
        return finding("missing", problem="There is no result at this scale.")
    if not results.measured_rows:
        return finding("incomplete", problem="All that is measured is of other settings than today's.")
    if results.edited:
        return finding("changed by hand", problem=_edits(results))
    partly = f"{results.state} configurations are measured: no verdict on the whole." if results.missing else ""
    try:
        summary = experiment.summary(results.measured_rows)
    except Exception as error:  # one file that its experiment cannot read must not hide the other 26
        if partly:  # tables that need every point
            return finding("incomplete", problem=partly)
        return finding("unreadable", problem=f"{results.csv} cannot be summarised: {type(error).__name__}: {error}.")
    return finding(
        "incomplete" if partly else summary.verdict.status,
        summary=summary,
        problem=partly,
        setting=tuple(describe_setting(experiment, results.wanted)),
        machines=tuple(dict.fromkeys(map(describe_machine, _environments(results)))),
        dates=tuple(sorted(entry["date"] for entry in results.record["rows"].values())),
        seconds=results.seconds,
        remark=_remark(results),
    )


def _remark(results: Results) -> str:
    """Rows that other code has made than stands here now, or a tree that no commit holds."""
    stale, total = len(results.stale), len(results.wanted)
    changed = [e for e in _environments(results) if (e.get("git") or {}).get("changed")]
    texts = [f"{stale} of {total} points were measured by other code than stands here now."] if stale else []
    if vouched := len(results.vouched):
        whose = "whose numbers today's code gives again to the digit, for another seed or the first updates"
        texts.append(f"{vouched} of {total} points were measured by other code, {whose}.")
    texts += ["Measured in a tree with changes that no commit holds."] if changed else []
    return " ".join(texts)


def _edits(results: Results) -> str:
    rows = ", ".join(repr(key) for key in results.edited[:3]) + (", ..." if len(results.edited) > 3 else "")
    why = f"{results.csv} was changed by hand (checksums differ) at {rows}"
    return f"{why}: none of it is shown until it is measured again."


def _environments(results: Results) -> list[Mapping[str, Any]]:
    """Those that the rows of the file were measured in."""
    used = {entry["environment"] for key, entry in results.record["rows"].items() if key in results.rows}
    return [results.record["environments"][index] for index in sorted(used)]


def describe_machine(environment: Mapping[str, Any]) -> str:
    """An environment of a record in one line: processor, system, versions, commit."""
    git = environment.get("git") or {}
    commit = f" at commit {git['commit'][:10]}" + (" with changes" if git.get("changed") else "") if git else ""
    parts = [
        f"{environment.get('cpu')}, {environment.get('cores')} cores",
        environment.get("gpu") or "no GPU",
        environment.get("platform"),
        f"Python {environment.get('python')}",
        f"torch {environment.get('packages', {}).get('torch')}",
        f"halfwave {environment.get('halfwave')}{commit}",
    ]
    return "; ".join(str(part) for part in parts)


def describe_setting(experiment: Experiment, wanted: Mapping[str, Any]) -> list[str]:
    """What an experiment measures: its points, and the trainings behind them, one line for each problem."""
    configurations = list(wanted.values())
    points = _varied([scalars(configuration) for configuration in configurations])
    lines = [f"{len(configurations)} measured points: {points}"]
    problems: dict[str, list[Training]] = {}
    for configuration in configurations:
        for training in experiment.trainings(configuration):
            problems.setdefault(_data(training), []).append(training)
    return lines + [f"{data}; {_trainings(trainings)}" for data, trainings in problems.items()]


def _data(training: Training) -> str:
    recipe = training.recipe
    parameters = ", ".join(f"{name}={value}" for name, value in recipe.parameters.items())
    live = ", new train samples in each epoch" if recipe.live else ""
    return f"{recipe.generator}({parameters}), {recipe.n_train} train and {recipe.n_test} test samples{live}"


def _trainings(trainings: Sequence[Training]) -> str:
    """Model, settings, precisions and seeds; what differs between the trainings as a list of its values."""
    settings = [{**t.recipe.training, **t.changes} for t in trainings]
    arguments = [{**t.recipe.arguments, **s.pop("arguments", {})} for t, s in zip(trainings, settings, strict=True)]
    models = " or ".join(dict.fromkeys(training.recipe.model for training in trainings))
    runs = [{"precision": training.precision, "seed": training.seed} for training in trainings]
    return f"{models}({_varied(arguments)}); {_varied(settings)}; {_varied(runs)}"


def _varied(mappings: Sequence[Mapping[str, Any]]) -> str:
    """``{"a": 1, "b": 2}`` and ``{"a": 1, "b": 3}`` as "a=1, b=2|3"."""
    values: dict[str, dict[str, None]] = {}
    for mapping in mappings:
        for name, value in mapping.items():
            values.setdefault(name, {})[str(value)] = None
    return ", ".join(f"{name}={_shortened(list(found))}" for name, found in values.items())


def _shortened(values: list[str]) -> str:
    return "|".join(values if len(values) <= _MOST_VALUES else [*values[: _MOST_VALUES - 1], "...", values[-1]])
