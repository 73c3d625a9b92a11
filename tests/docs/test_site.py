"""The site: built without a warning, links hold, examples and command lines are true, and so are README's figures."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import halfwave as hw
from halfwave import cli

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

import check_links  # noqa: E402
import neuralop_arguments  # noqa: E402
import readme  # noqa: E402
import run_tutorials  # noqa: E402

QUICK_PAGES = ("quick-start.md", "theory.md", "reference/precision.md", "explanation/memory.md")
# Material tells of a future release in red letters, whatever is built.
QUIET = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
TUTORIALS = (
    "01-darcy", "02-is-half-safe", "03-super-resolution", "04-sphere", "05-cars", "06-rollout", "07-physics-informed",
    "08-from-neuraloperator", "09-plan-a-run", "10-export",
)  # fmt: skip


def run(*command, **options):
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built without executing tutorials; what has been executed before is shown."""
    folder = tmp_path_factory.mktemp("site")
    done = run("-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder, cwd=ROOT, env=QUIET)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_link_of_the_built_site_holds_and_nothing_is_fetched(site):
    assert check_links.problems(site) == []
    for name in TUTORIALS:
        assert (site / "tutorials" / f"{name}.html").exists()


def test_every_public_name_is_in_the_reference_with_an_example(site):
    """As a heading of a page, and in code beside it; modules have their rooms."""
    pages = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    examples = "".join(re.findall(r"```python\n(.*?)```", pages, re.DOTALL))
    ids = set().union(*(check_links.read_page(page).ids for page in (site / "reference").glob("*.html")))
    named = {anchor.rpartition(".")[2] for anchor in ids if anchor.startswith("halfwave.")}
    for name in hw.__all__:
        if hasattr(getattr(hw, name), "__path__") and not callable(getattr(hw, name)):
            assert name in ids, f"no room {name}"
        else:
            assert name in named, f"{name} is not in the reference"
            assert f"hw.{name}" in examples, f"no example of {name}"


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "index.html").write_text(
        '<h1 id="here"></h1><a href="#here"></a><a href="#gone"></a><a href="other.html"></a>'
        '<img src="https://example.org/x.png"><a href="https://example.org">fine</a>'
    )
    found = check_links.problems(tmp_path)
    assert len(found) == 3
    assert "fetches https://example.org/x.png" in found[0]
    assert "#gone has no such anchor" in found[1]
    assert "other.html is not there" in found[2]


@pytest.mark.parametrize("page", QUICK_PAGES)
def test_examples_of_the_pages_run(page):
    """`make docs` runs those of all pages."""
    assert doctest.testfile(str(DOCS / page), module_relative=False, encoding="utf-8").failed == 0


def test_the_table_of_neuraloperators_arguments_is_what_both_signatures_say():
    page = neuralop_arguments.PAGE.read_text(encoding="utf-8")
    assert neuralop_arguments.filled(page) == page


@pytest.mark.parametrize("name", ["08-from-neuraloperator"])
def test_a_tutorial_runs_from_beginning_to_end(name, tmp_path, monkeypatch):
    monkeypatch.setattr(run_tutorials, "NOTEBOOKS", tmp_path)
    monkeypatch.chdir(tmp_path)
    run_tutorials.execute(name)
    notebook = run_tutorials.notebook_of(name)
    assert notebook is not None
    printed = "".join(o.text for cell in notebook.cells for o in cell.get("outputs", []) if o.output_type == "stream")
    full = re.search(r"full .*?(\d\.\de-\d+)", printed)
    assert full is not None
    assert float(full[1]) < 1e-5


def test_the_tutorials_are_there():
    assert tuple(run_tutorials.tutorial_names()) == TUTORIALS


def test_figures_of_the_pages_are_those_of_the_result_files():
    for path, places in readme.PLACES.items():
        text = path.read_text(encoding="utf-8")
        assert readme.filled(text, places) == text, f"{path.name}: run python docs/readme.py"
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    place = re.search(r"<!-- results: .*?<!-- end of the results -->", page, re.DOTALL)
    assert place is not None
    digits = [found.start() for found in re.finditer(r"\d", place[0])]
    assert digits
    for at in digits[:: max(1, len(digits) // 20)]:
        other = str((int(place[0][at]) + 1) % 10)
        changed = page.replace(place[0], place[0][:at] + other + place[0][at + 1 :])
        assert readme.filled(changed, readme.PLACES[ROOT / "README.md"]) == page != changed


def test_the_readme_has_at_most_150_lines_and_no_figure_of_its_own():
    """Outside marked places and code no ratio, percentage, size or decimal stands in it: those need a result file."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(page.splitlines()) <= 150
    prose = re.sub(r"<!-- (\w+): .*?<!-- end of the \1 -->|```.*?```|`[^`]*`|\]\([^)]*\)", "", page, flags=re.DOTALL)
    prose = re.sub(r"Python 3\.1\d|3\.11|Apache-2\.0", "", prose)
    assert re.findall(r"\d+\.\d+|\d+ ?(?:%|x\b|times|MB|MiB|GiB|seconds|s\b)", prose) == []


def command_lines():
    """Every line of a code block that begins with `halfwave COMMAND`, by page."""
    for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md")), ROOT / "CONTRIBUTING.md"]:
        for block in re.findall(r"```\w*\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.splitlines():
                if re.match(r"halfwave [a-z]+", line):
                    yield pytest.param(re.sub(r" &(\s|$)", " ", line), id=f"{page.name}: {line[:60]}")


@pytest.mark.parametrize("line", command_lines())
def test_command_lines_of_the_pages_are_understood(line):
    _, *words = shlex.split(line, comments=True)
    assert cli.parse(words) is not None


def test_sentences_follow_from_whatever_the_results_are(tmp_path, monkeypatch):
    folder = tmp_path / "results" / "small"
    folder.mkdir(parents=True)
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    assert "No results are committed" in readme.verdicts()
    assert "`overview` is not among the committed results" in readme.results()
    (folder / "report.csv").write_text(
        "experiment,scale,status,row,figure,paper,ours\n"
        'overview,small,in part,dataset=Darcy flow; method=full,"error, L2",,0.0719 ± 0.003\n'
        'overview,small,in part,dataset=Darcy flow; method=AMP fp16,"error, L2",,0.072\n'
        'overview,small,in part,"dataset=Darcy flow; method=ours (matrix products, fp16)","error, L2",,0.07204\n'
        'overview,small,in part,"dataset=Darcy flow; method=ours (matrix products, fp16)",'
        '"memory less than full, %",25.8,22.90403\n'
        "peer,small,refuted,dataset=Darcy flow; method=theirs,seconds per epoch,,1234.5\n"
    )
    told = readme.results()
    assert "| data | full, test L2 | ours (matrix products, fp16) |" in told
    assert "| Darcy flow | 0.0719 ± 0.003 | 0.072; 22.9 |" in told
    assert "AMP" not in told
    assert "No record of `overview` is committed." in told
    assert readme.verdicts() == "Of 2 experiments that have results at scale small: 1 in part, 1 refuted."
    assert "| Darcy flow | theirs | 1,234 |" in readme.peer()
    (tmp_path / "results" / "medium").mkdir()
    (tmp_path / "results" / "medium" / "report.csv").write_text(
        "experiment,scale,status,row,figure,paper,ours\n"
        'overview,medium,incomplete,dataset=A; method=full,"error, L2",,0.004\n'
    )
    assert "| A | 0.004 |" in readme.results(), "of each experiment the larger scale"
    assert "| Darcy flow | theirs | 1,234 |" in readme.peer()
