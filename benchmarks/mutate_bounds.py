"""Is every term of every bound needed, and would a test notice if it were gone? Terms taken out one by one.

    python benchmarks/mutate_bounds.py [--short] [WORD ...]    # those whose name holds a word; all without one
    python benchmarks/mutate_bounds.py --list

Each line of `TERMS` is a term of a bound: where it stands in the source and what the source is without it. One process
imports all that does not change; a fork for each term imports the bounds with the term gone and runs the tests named
for it. Those tests have to pass with the term and fail without it. `--short` takes every fifth term and leaves out the
first half of that: it is for the end of `make test`, where they have just passed. Exit code 1 where a term is not
missed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.abc
import importlib.util
import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Rooms whose source may be changed: imported anew in each fork.
_CHANGING = ("halfwave.theory", "halfwave.certificates", "halfwave.numerics.accumulators")
# Of one room a single module is: what its door hands out is bound anew.
_DOOR, _BEHIND = "halfwave.numerics", "halfwave.numerics.accumulators"


@dataclass(frozen=True)
class Term:
    """`old` stands once in src/halfwave/`file`; `new` is the source without the term; `tests` miss it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def _terms() -> tuple[Term, ...]:
    from bound_terms import TERMS

    return tuple(Term(*row) for row in TERMS)


class _Changed(importlib.abc.SourceLoader):
    """A module from its file, with one text replaced."""

    def __init__(self, name: str, path: str, old: str, new: str) -> None:
        self.name, self.path, self.old, self.new = name, path, old, new

    def get_filename(self, fullname: str) -> str:
        return self.path

    def get_data(self, path: str) -> bytes:
        return Path(path).read_text(encoding="utf-8").replace(self.old, self.new).encode()

    def path_stats(self, path: str) -> dict[str, float]:
        raise OSError("no bytecode: the text is not the file's")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, term: Term) -> None:
        self.term = term
        self.name = "halfwave." + term.file.removesuffix(".py").replace("/", ".")

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        file = str(ROOT / "src" / "halfwave" / self.term.file)
        loader = _Changed(fullname, file, self.term.old, self.term.new)
        return importlib.util.spec_from_file_location(fullname, file, loader=loader)


def _forget() -> None:
    for name in list(sys.modules):
        if name.startswith(_CHANGING):
            del sys.modules[name]


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    yield


def start(tests: Sequence[str], term: Term | None) -> int:
    """A fork that runs the tests without the term (with all of them for None)."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            with _silent():
                code = _run(tests, term)
        finally:
            os._exit(code)
    return child


def passed(child: int, tests: Sequence[str]) -> bool:
    """Whether the tests of a fork pass; SystemExit if they cannot run."""
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1):
        raise SystemExit(f"{' '.join(tests)}: could not be run (pytest's exit code {code})")
    return code == 0


def side_by_side(terms: Sequence[Term], forks: int) -> Iterator[tuple[Term, bool]]:
    """Every term in its order, and whether its tests fail without it; so many forks at once."""
    running: deque[tuple[Term, int]] = deque()
    for term in terms:
        if len(running) == forks:
            first, child = running.popleft()
            yield first, not passed(child, first.tests)
        running.append((term, start(term.tests, term)))
    for first, child in running:
        yield first, not passed(child, first.tests)


def _run(tests: Sequence[str], term: Term | None) -> int:
    import pytest

    _forget()
    if term is not None:
        sys.meta_path.insert(0, _Finder(term))
    door, behind = sys.modules[_DOOR], importlib.import_module(_BEHIND)
    for name in [name for name, value in vars(door).items() if getattr(value, "__module__", None) == _BEHIND]:
        setattr(door, name, getattr(behind, name))
    os.chdir(ROOT)
    return int(pytest.main(["-q", "-x", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))


def _prepare() -> None:
    """Import what every fork needs and no term changes."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "theory")]
    import hypothesis
    import mpmath
    import pytest
    import scipy.optimize
    import scipy.special
    import torch

    torch.set_num_threads(1)
    import halfwave.certificates
    import halfwave.training

    assert all((hypothesis, mpmath, pytest, scipy.optimize, scipy.special, halfwave.certificates, halfwave.training))


def check_source(terms: Sequence[Term]) -> None:
    """Each text stands exactly once where it is said to."""
    for term in terms:
        count = (ROOT / "src" / "halfwave" / term.file).read_text(encoding="utf-8").count(term.old)
        if count != 1:
            raise SystemExit(f"{term.name}: {term.old!r} stands {count} times in {term.file}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="terms whose name holds one of these")
    parser.add_argument("--short", action="store_true", help="every fifth term")
    parser.add_argument("--list", action="store_true", help="print the terms and their tests")
    options = parser.parse_args(arguments)
    terms = [t for t in _terms() if not options.words or any(word in t.name for word in options.words)]
    terms = terms[::5] if options.short else terms
    check_source(terms)
    if options.list:
        print("\n".join(f"{term.name}: {', '.join(term.tests)}" for term in terms))
        return 0
    begun = time.perf_counter()
    _prepare()
    every = tuple(dict.fromkeys(test for term in terms for test in term.tests))
    if not options.short and not passed(start(every, None), every):
        raise SystemExit("a test fails with every term in place: nothing can be concluded")
    survived = 0
    for term, killed in side_by_side(terms, os.cpu_count() or 1):
        survived += not killed
        print(f"{'killed  ' if killed else 'SURVIVED'}  {term.name}", flush=True)
    print(f"{len(terms) - survived} of {len(terms)} terms missed when gone, in {time.perf_counter() - begun:.0f} s")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    sys.exit(main(sys.argv[1:]))
