"""The long part for files: damage to every kind of file, crafted files, full disks. `run` gives the table's rows."""

import tempfile
from pathlib import Path

from crafted_files import run_crafted
from file_mutations import run_mutations
from full_disks import run_full_disks
from guarded import Outcome, table
from specimens import SPECIMENS


def run(mutations_per_reader, seed, say=lambda line: None) -> list[Outcome]:
    """Outcomes in the order of the table; `say` is told each row as it is known.

    Of crafted files and full disks `refused` is as it should be, and `altered` counts what was read although it should
    have been refused, or what was left over or lost.
    """
    outcomes = []
    for specimen in SPECIMENS:
        outcomes.append(run_mutations(specimen, mutations_per_reader, seed))
        say(table(outcomes)[-1])
    with tempfile.TemporaryDirectory(prefix="halfwave-crafted-") as folder:
        outcomes.append(run_crafted(Path(folder)))
    say(table(outcomes)[-1])
    outcomes.append(run_full_disks())
    say(table(outcomes)[-1])
    return outcomes


def failures(outcomes) -> list[str]:
    """What must not be: in any format a crash, a hang, a raw exception or too much memory; altered numbers where a
    format carries checksums, and in what was crafted."""
    unchecked = {specimen.name for specimen in SPECIMENS if not specimen.checked}
    bad = [o for o in outcomes if o.bad or (o.altered and o.name not in unchecked)]
    return [note for o in bad for note in (o.notes or [f"{o.name}: {o.altered} altered"])]


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    found = run(given.mutations, given.seed, lambda line: print(line, flush=True))
    print("\n".join(["", *table(found), *failures(found)]))
    raise SystemExit(bool(failures(found)))
