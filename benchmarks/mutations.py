"""Would the tests notice? Small faults put into the source one by one, and the tests that have to fail for each.

    python benchmarks/mutations.py [WORD ...]     # those whose name holds a word; all without one

Each fault is a text of a source file replaced by another in a temporary copy of src/, which the tests then import. The
tests are run without it first: a test that fails anyway proves nothing. Exit code 1 where a fault survives. Terms of
the bounds have a script of their own: mutate_bounds.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Mutation:
    """`old` in src/halfwave/`file`, where it stands exactly once, becomes `new`; one of `tests` (pytest's arguments)
    must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


_SETTINGS = "tests/experiments/test_experiment_settings.py"
_MEMORY = "tests/planner/test_paper_memory.py"
_RECIPES = "tests/recipes/test_problems.py"

MUTATIONS = (
    Mutation(
        "weak test: an experiment says nothing", "experiments/contraction.py",
        "Outcome.of(reduction > 0 and reduction >= least, clause)", 'Outcome.of(reduction > 0, "")',
        ("tests/experiments/test_smoke.py", "-k", "contraction"),
    ),
    Mutation(
        "weak test: a configuration trains another seed", "experiments/tanh_ablation.py",
        '"full", seed, CHANGES[name])', '"full", 0, CHANGES[name])', (_SETTINGS, "-k", "tanh"),
    ),
    Mutation(
        "weak test: memory tables of another shape", "planner/paper_memory.py",
        "work = recipe_workload(recipe) if", 'work = recipe_workload(recipe.at("standard")) if',
        (_MEMORY, "-k", "inputs"),
    ),
    Mutation(
        "weak test: a table's name is not told", "planner/paper_memory.py",
        "expected one of {', '.join(TABLES)}", "expected another", (_MEMORY, "-k", "unknown"),
    ),
    Mutation(
        "weak test: a coarser test grid takes other values", "domains/torus.py",
        "fields = interpolate_periodic(fields, dim, size)", "fields = fields.roll(1, dim).narrow(dim, 0, size)",
        ("tests/training/test_trainer.py", "-k", "coarser"),
    ),
    Mutation(
        "weak test: recipes of one name", "recipes/recipe.py",
        "if other.name == recipe.name:", "if False:", (_RECIPES, "-k", "unique"),
    ),
    Mutation(
        "weak test: experiments disagree on a setting", "experiments/block_precision.py",
        'recipe = problem("darcy", scale)', 'recipe = problem("darcy", "small")', (_RECIPES, "-k", "every_experiment"),
    ),
)  # fmt: skip


def mutated(mutation: Mutation, source: Path) -> None:
    """Put the fault into a copy of src/."""
    path = source / "halfwave" / mutation.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        raise SystemExit(
            f"{mutation.name}: {mutation.old!r} stands {text.count(mutation.old)} times in {mutation.file}"
        )
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")


def passes(tests: Sequence[str], source: Path) -> bool:
    """Whether the tests pass with the library in `source`; SystemExit where they could not be run."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if answer.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(tests)}: {(answer.stdout + answer.stderr)[-2000:]}")
    return answer.returncode == 0


def is_killed(mutation: Mutation) -> bool:
    """Whether the tests fail with the fault."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        mutated(mutation, source)
        return not passes(mutation.tests, source)


def main(words: Sequence[str]) -> int:
    chosen = [m for m in MUTATIONS if not words or any(word in m.name for word in words)]
    for tests in dict.fromkeys(m.tests for m in chosen):
        if not passes(tests, ROOT / "src"):
            raise SystemExit(f"{' '.join(tests)}: fails without a fault")
    survived = 0
    for mutation in chosen:
        killed = is_killed(mutation)
        survived += not killed
        print(f"{'killed  ' if killed else 'SURVIVED'}  {mutation.name}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} killed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
