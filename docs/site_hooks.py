"""What mkdocs is told beside mkdocs.yml: pages that are made from other files of the repository.

- tutorials: docs/tutorials/NAME.py as a page, with its outputs where docs/run_tutorials.py has executed it;
- results/SCALE/report.md with its plots, the README of the examples, CHANGELOG, CONTRIBUTING and SECURITY: the files
  stay where they are read by others, and the site has them too;
- the commands: what `halfwave COMMAND --help` prints;
- pages of docs/ that the navigation does not name are added to it, so that a new page needs no second edit.
"""

from __future__ import annotations

import base64
import html
import inspect
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import jupytext
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "src")]

import run_tutorials  # noqa: E402

REPORT = "evidence/report.md"
"""The list of the pages of tables and figures, one for each scale that has results."""
OUTSIDE = {
    "evidence/examples.md": ROOT / "examples" / "README.md",
    **{f"evidence/{card.parent.name}.md": card for card in sorted((ROOT / "examples" / "models").glob("*/README.md"))},
    "project/changelog.md": ROOT / "CHANGELOG.md",
    "project/contributing.md": ROOT / "CONTRIBUTING.md",
    "project/security.md": ROOT / "SECURITY.md",
}
"""Page of the site -> the file that it is."""
ROOMS = (
    "models", "spectral", "precision", "numerics", "domains", "data", "recipes", "training", "optimizers", "parallel",
    "certificates", "theory", "planner", "measure", "interop", "export",
)  # fmt: skip
CARD = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)  # what a hub reads at the head of a model's card
FOR_TOOLS = re.compile(r"  # (noqa|fmt|type): .*")
"""Comments of a tutorial's source that readers need not see."""
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Unnamed pages of docs/ come to the end of the explanations."""
    named = set(_paths(config.nav))
    for section in config.nav or []:
        if isinstance(section, dict) and "Explanation" in section:
            pages = sorted(p.name for p in (ROOT / "docs").glob("*.md"))
            section["Explanation"] += [page for page in pages if page not in named]
    return config


def _paths(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif nav is not None:
        for entry in nav.values() if isinstance(nav, dict) else nav:
            yield from _paths(entry)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    made = [*_tutorials(), *_report(), *_outside(), ("reference/commands.md", commands_page())]
    made.append(("reference/rooms.md", rooms_page()))
    for uri, content in made:
        files.append(File.generated(config, uri, content=content))
    return files


def _tutorials() -> Iterator[tuple[str, str | bytes]]:
    for name in run_tutorials.tutorial_names():
        executed = run_tutorials.notebook_of(name)
        notebook = executed or jupytext.read(run_tutorials.SOURCES / f"{name}.py", fmt="py:percent")
        text, pictures = tutorial_page(name, notebook, executed is not None)
        yield f"tutorials/{name}.md", text
        yield f"tutorials/{name}.ipynb", jupytext.writes(notebook, fmt="ipynb")
        yield from ((f"tutorials/{uri}", picture) for uri, picture in pictures.items())


def tutorial_page(name: str, notebook: Any, executed: bool) -> tuple[str, dict[str, bytes]]:
    """The notebook as Markdown, and its pictures by name."""
    pictures: dict[str, bytes] = {}
    blocks = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            blocks.append(cell.source)
            continue
        blocks.append(f"```python\n{FOR_TOOLS.sub('', cell.source)}\n```")
        for output in cell.get("outputs", []):
            blocks.append(_output(output, name, pictures))
    title, rest = blocks[0].split("\n", 1) if "\n" in blocks[0] else (blocks[0], "")
    how = "not executed in this build, so without outputs"
    if executed:
        how = f"executed when the site was built, in {notebook.metadata['halfwave']['cpu_seconds']:.0f} s of one core"
    note = f"[This page as a notebook]({name}.ipynb), {how}."
    return "\n\n".join([title, note, rest.strip(), *blocks[1:]]) + "\n", pictures


def _output(output: Any, name: str, pictures: dict[str, bytes]) -> str:
    if output.output_type == "stream":
        return f"```text {{ .output }}\n{output.text.rstrip()}\n```"
    if "image/png" in output.data:
        uri = f"{name}-{len(pictures) + 1}.png"
        pictures[uri] = base64.b64decode(output.data["image/png"])
        return f"![picture {len(pictures)} of this tutorial]({uri})"
    return f"```text {{ .output }}\n{output.data['text/plain'].rstrip()}\n```"


def _report() -> Iterator[tuple[str, str | bytes]]:
    """A page for each scale that is committed, with its plots, and the list of them."""
    folders = [ROOT / "results" / scale for scale in ("paper", "medium", "small")]
    found = [folder for folder in folders if (folder / "report.md").exists()]
    lines = [f"- [scale {folder.name}](report-{folder.name}.md)" for folder in found]
    listed = "\n".join(lines) or "No results are committed."
    yield REPORT, f"# The paper's tables and figures, measured again\n\n{listed}\n"
    for folder in found:
        text = (folder / "report.md").read_text(encoding="utf-8")
        yield f"evidence/report-{folder.name}.md", text.replace("](plots/", f"](plots-{folder.name}/")
        for plot in sorted((folder / "plots").glob("*.png")):
            yield f"evidence/plots-{folder.name}/{plot.name}", plot.read_bytes()


def _outside() -> Iterator[tuple[str, str]]:
    for uri, path in OUTSIDE.items():
        yield (
            uri,
            LINK.sub(
                lambda m, path=path, uri=uri: _relinked(m, path, uri), CARD.sub("", path.read_text(encoding="utf-8"))
            ),
        )


def _relinked(match: re.Match[str], path: Path, uri: str) -> str:
    """A link of a file outside docs/ as the page has it: to the page of its target, or plain text without one."""
    target = match[2]
    if "://" in target:
        return match[0]
    found = (path.parent / target).resolve()
    pages = {p.resolve(): page for page, p in OUTSIDE.items()}
    inside = pages.get(found)
    if inside is None and found.is_relative_to(ROOT / "docs"):
        inside = found.relative_to(ROOT / "docs").as_posix()
    if inside is None:
        raise PluginError(f"{path.relative_to(ROOT)} links to {target}, which is no page of the site")
    return f"]({'../' * uri.count('/')}{inside}{match[3] or ''})"


def commands_page() -> str:
    """Every command with its help, as it is printed."""
    from halfwave.commands import COMMANDS

    os.environ.setdefault("COLUMNS", "80")
    os.environ["TERM"] = "dumb"
    parts = ["# Commands", "What `halfwave COMMAND --help` prints.", _help([])]
    parts += [
        f"## halfwave {name}\n\n{text[:1].upper()}{text[1:]}.\n\n{_help([name])}" for name, text in COMMANDS.items()
    ]
    return "\n\n".join(parts) + "\n"


def _help(command: list[str]) -> str:
    from halfwave import cli

    printed = io.StringIO()
    with redirect_stdout(printed):
        cli.run([*command, "--help"])
    return f"```text\n{printed.getvalue().rstrip()}\n```"


def rooms_page() -> str:
    """Every name of every package's door: what it is, and the first line of what it says of itself."""
    parts = [
        "# Rooms",
        "Every name that a package of `halfwave` gives away, with the first sentence of its documentation; "
        "`help(halfwave.ROOM.NAME)` has the rest. The map of the rooms: [architecture](../architecture.md).",
    ]
    for name in ROOMS:
        room = import_module(f"halfwave.{name}")
        members = [(member, getattr(room, member)) for member in room.__all__]
        rows = [f"| `{member}` | {_kind(value)} | {_first_sentence(value)} |" for member, value in members]
        table = "\n".join(["| name | is | says |", "| --- | --- | --- |", *rows])
        parts.append(f"## {name}\n\n{_first_sentence(room)}\n\n{table}")
    return "\n\n".join(parts) + "\n"


def _kind(value: Any) -> str:
    if isinstance(value, type):
        return "class"
    return "function" if inspect.isfunction(value) else "value"


def _first_sentence(value: Any) -> str:
    """Of the documentation of a function, class or module, on one line of a table; a value shows its type."""
    if not (inspect.isfunction(value) or isinstance(value, type) or inspect.ismodule(value)):
        return f"`{type(value).__name__}`"
    text = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|").replace("``", "`")
    return html.escape(text, quote=False)
