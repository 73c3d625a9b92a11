"""Every table and figure of the paper as an experiment: one file each, one CSV each.

How to write one (copy `block_precision`, which trains; `synthetic_spectrum`, several rows per configuration;
`greedy_path`, shapes only):

1. The file is named after the experiment, with underscores, and ends with ``EXPERIMENT = Experiment(...)``; the name is
   in `registry.NAMES` already.
2. ``PAPER``: the paper's own figures, as data. A figure that the paper only draws is not guessed: None, and a note.
3. A frozen dataclass for one point that is measured. Its fields that are text or numbers become columns of the CSV
   and the key of its row (so they must tell the points apart); a field that is a `Training` counts for the hash.
4. ``configurations(scale)``: a list of them. The budget is here: epochs, sizes, seeds of each scale.
5. ``measure(configuration, lab)``: a list of rows {measure: value}, mostly one; exactly the names in ``measures``.
   Seeded before each call; whatever differs from run to run is a `Measure` with ``timing=True``.
6. ``exhibit(rows)``: an `Exhibit` from the rows alone: `Comparison` (paper and ours side by side) and `Panel`s.
7. ``parts``: the claim as `Part`s, each with the paper's number, its line in `paper.tex`, and a check of the rows at
   the paper's own threshold that returns an `Outcome` (None where the rows lack what it needs), or the reason why there
   is none. Rows that confirm it and rows that it must refuse go into `tests/experiments/made_up_rows.py`.
8. ``trainings=lambda c: (c.training, ...)`` where it trains, for the plan of time and memory.

What experiments share, so that nothing is made twice:

- `recipes.problem(name, scale)`: the five problems as recipes. Take them as they are wherever possible.
- `methods.train_as(method, recipe, seed)`: a `Training` by one of the named methods (full, amp, paper, ours, ...).
- `Training(recipe, precision, seed, changes)`: precision is full, amp, half, mixed, schedule or a block setting (HHF);
  half means fp16 (`lab.HALF`) unless ``changes={"dtype": ...}``; ``changes`` are fields of `TrainConfig`, with
  ``"arguments"`` merged into the model's. The seed decides data and first weights.
- `lab.train(training)`: `Trained` with ``.result`` (l2, h1, train_loss, memory; None where it diverged, see
  ``.reason``), ``.epochs`` (rows of metrics.csv), ``.operator()``. The same training in two experiments runs once.
- `lab.assess(training)`: errors as trained and in full, rounding of the answer, baselines: what the gate asks for.
- `lab.data(recipe, seed)`, `lab.dataset(recipe, seed)`: the dataset file (None of live data), and the dataset opened.
- `lab.compare({label: training}, steps)`: memory counted and steps timed in turn, without training. One configuration
  should hold all that takes turns, and return one row for each.
- `pairing` (two trainings seed by seed), `gate` (can accuracy be judged at all), `methods.judge_against_full` (both);
  `methods.further_seeds`, the stopping rule; `error_curves` (those of `ahmed` too); `budgets` (equal epochs, equal
  time); `planner.paper_memory.paper_peak`. ``facts`` name what several experiments measure: a test compares them.
- `halfwave.measure`: `LiveBytes`, `measure_step`, `median_seconds`, `take_turns`; `halfwave.training.evaluate`.

Budgets: at `smoke` an experiment takes 5 to 10 seconds and shows that it runs; all of `small` takes 100 minutes on two
cores, all of `medium`, which only what trains has, four hours; `paper` is the paper's setting.
"""

from halfwave.experiments.experiment import SCALES, Experiment, Scale, check_scale
from halfwave.experiments.gathering import command_for, gather, scales_present
from halfwave.experiments.plan import plan_trainings
from halfwave.experiments.registry import experiment_names, get_experiment
from halfwave.experiments.results import Results, read_results
from halfwave.experiments.runner import run, summarise

__all__ = [
    "SCALES",
    "Experiment",
    "Results",
    "Scale",
    "check_scale",
    "command_for",
    "experiment_names",
    "gather",
    "get_experiment",
    "plan_trainings",
    "read_results",
    "run",
    "scales_present",
    "summarise",
]
