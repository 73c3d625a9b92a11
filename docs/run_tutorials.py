"""Executes the tutorials (docs/tutorials/*.py, jupytext's percent format) and keeps each as a notebook with outputs.

    python docs/run_tutorials.py                 # all of them: what has not changed since is not run again
    python docs/run_tutorials.py 01-darcy        # one
    python docs/run_tutorials.py --fresh         # all of them, whatever is there

Notebooks go to build/tutorials/NAME.ipynb, where the site (docs/site_hooks.py) finds them. Each runs in a process of
its own, in an empty directory, cell by cell as Jupyter would: printed text, its figures, and the value of a last
expression are its outputs. A cell that fails ends the run with its traceback.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import jupytext
import nbformat

ROOT = Path(__file__).resolve().parents[1]
SOURCES, NOTEBOOKS = ROOT / "docs" / "tutorials", ROOT / "build" / "tutorials"


def tutorial_names() -> list[str]:
    return sorted(path.stem for path in SOURCES.glob("[0-9]*.py"))


def notebook_of(name: str) -> Any:
    """The notebook as it was executed from this source, or None."""
    path = NOTEBOOKS / f"{name}.ipynb"
    if not path.exists():
        return None
    notebook = nbformat.read(path, as_version=4)
    return notebook if notebook.metadata.get("halfwave", {}).get("source") == source_digest(name) else None


def source_digest(name: str) -> str:
    return hashlib.sha256((SOURCES / f"{name}.py").read_bytes()).hexdigest()


def library_digest() -> str:
    """Of every source file of the library: a tutorial is run again when any has changed."""
    found = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


def is_current(name: str) -> bool:
    notebook = notebook_of(name)
    return notebook is not None and notebook.metadata["halfwave"]["library"] == library_digest()


def execute(name: str) -> float:
    """Run one tutorial in this process and write its notebook; the seconds it took."""
    notebook = jupytext.read(SOURCES / f"{name}.py", fmt="py:percent")
    made_of = {"source": source_digest(name), "library": library_digest()}  # now: files may change while it runs
    for cell in notebook.cells:
        cell.id = hashlib.sha256(cell.source.encode()).hexdigest()[:12]  # the same notebook, the same file
    space: dict[str, Any] = {"__name__": "__main__"}
    begin = time.perf_counter(), time.process_time()
    for number, cell in enumerate(c for c in notebook.cells if c.cell_type == "code"):
        cell.execution_count, before = number + 1, time.process_time()
        cell.outputs = run_cell(cell.source, space, f"{name}.py, cell {number + 1}")
        cell.metadata["cpu_seconds"] = round(time.process_time() - before, 1)
    seconds, processor = time.perf_counter() - begin[0], time.process_time() - begin[1]
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    took = {"seconds": round(seconds, 1), "cpu_seconds": round(processor, 1)}
    notebook.metadata["halfwave"] = {**made_of, **took}
    NOTEBOOKS.mkdir(parents=True, exist_ok=True)
    aside = NOTEBOOKS / f"{name}.ipynb.part"
    nbformat.write(notebook, aside)
    os.replace(aside, NOTEBOOKS / f"{name}.ipynb")
    return seconds


def run_cell(source: str, space: dict[str, Any], where: str) -> list[Any]:
    """The outputs of one cell: what it printed, the value of its last expression, its figures."""
    tree = ast.parse(source, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, where, "exec"), space)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), where, "eval"), space)
    drawn = figures()
    outputs = []
    if printed.getvalue():
        outputs.append(nbformat.v4.new_output("stream", name="stdout", text=printed.getvalue()))
    if value is not None and not drawn:  # what a call of matplotlib returns is its picture
        outputs.append(nbformat.v4.new_output("display_data", data={"text/plain": repr(value)}))
    return outputs + drawn


def figures() -> list[Any]:
    """Every open figure as a picture; then they are closed."""
    import matplotlib.pyplot as plt

    outputs = []
    for number in plt.get_fignums():
        picture = io.BytesIO()
        plt.figure(number).savefig(picture, format="png", dpi=110, bbox_inches="tight", metadata={"Software": None})
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        outputs.append(nbformat.v4.new_output("display_data", data=data))
    plt.close("all")
    return outputs


def run_apart(name: str) -> float:
    """In a process of its own and in an empty directory, so that nothing is left over and nothing is found."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ, "MPLBACKEND": "agg", "COLUMNS": "100", "TERM": "dumb",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        }  # fmt: skip
        command = [sys.executable, __file__, "--here", name]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stdout}{done.stderr}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--here"]:
        print(json.dumps(execute(arguments[1])))
        return
    named = [a for a in arguments if not a.startswith("-")]
    unknown = sorted(set(named) - set(tutorial_names()))
    if unknown:
        raise SystemExit(f"no tutorial {unknown[0]!r}: expected one of {', '.join(tutorial_names())}")
    for name in named or tutorial_names():
        if "--fresh" not in arguments and is_current(name):
            print(f"{name}: as it was")
        else:
            print(f"{name}: {run_apart(name):.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
