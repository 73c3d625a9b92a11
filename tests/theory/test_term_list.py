"""The list of terms that `benchmarks/mutate_bounds.py` takes out: each stands in the source, and its tests exist."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from bound_terms import TERMS  # noqa: E402


def test_every_term_stands_once_in_the_source():
    for name, file, with_it, without, _ in TERMS:
        text = (ROOT / "src" / "halfwave" / file).read_text()
        assert text.count(with_it) == 1, name
        compile(text.replace(with_it, without), file, "exec")
    assert len({row[0] for row in TERMS}) == len(TERMS) >= 180


def test_every_test_named_exists():
    for name, _, _, _, tests in TERMS:
        assert tests
        for test in tests:
            file, function = test.split("::")
            assert re.search(rf"^def {function}\(", (ROOT / file).read_text(), re.MULTILINE), (name, test)
