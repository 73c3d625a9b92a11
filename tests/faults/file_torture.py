"""The long part for files: damage to every kind of file, beside crafted files and full disks. What must not be."""

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from file_mutations import run_mutations
from guarded import Outcome, table
from specimens import SPECIMENS


def run(mutations_per_reader, seed, say=lambda line: None, processes=1, names=None) -> list[Outcome]:
    """Outcomes of damage in the order of the table, of these specimens or all; `say` is told each row."""
    numbers = [i for i, specimen in enumerate(SPECIMENS) if names is None or specimen.name in names]
    outcomes = []
    with ProcessPoolExecutor(processes, get_context("fork")) as pool:
        for outcome in pool.map(partial(_run_one, mutations_per_reader, seed), numbers):
            outcomes.append(outcome)
            say(table(outcomes)[-1])
    return outcomes


def _run_one(mutations, seed, number):
    return run_mutations(SPECIMENS[number], mutations, seed)


def failures(outcomes) -> list[str]:
    """What must not be: in any format a crash, a hang, a raw exception or too much memory; altered numbers where a
    format carries checksums; of crafted files and full disks what was read and should have been refused, or was left
    over or lost: there `refused` is as it should be."""
    unchecked = {specimen.name for specimen in SPECIMENS if not specimen.checked}
    bad = [o for o in outcomes if o.bad or (o.altered and o.name not in unchecked)]
    return [note for o in bad for note in (o.notes or [f"{o.name}: {o.altered} altered"])]
