"""Runs the examples of the site's pages as doctests: python docs/run_doctests.py [PAGE ...], by default all."""

from __future__ import annotations

import doctest
import sys
import warnings
from pathlib import Path

DOCS = Path(__file__).resolve().parent


def pages() -> list[Path]:
    """Every page that has an example."""
    return [page for page in sorted(DOCS.rglob("*.md")) if ">>> " in page.read_text(encoding="utf-8")]


def main(arguments: list[str]) -> None:
    chosen = [DOCS / name for name in arguments] or pages()
    failed = attempted = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's exporter, about itself
        for page in chosen:
            found = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
            failed, attempted = failed + found.failed, attempted + found.attempted
    print(f"{attempted} examples of {len(chosen)} pages, {failed} failed")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main(sys.argv[1:])
