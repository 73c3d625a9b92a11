"""Writing a page: the model, the runtime, samples and what is known of the training data, in one HTML file."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import escape
from torch import Tensor

from halfwave.data import Dataset
from halfwave.errors import InputError
from halfwave.export.check import Run, relative_l2
from halfwave.export.onnx_file import build_onnx, session_run
from halfwave.export.page.familiarity import features
from halfwave.export.page.web_runtime import web_runtime
from halfwave.export.program import Program
from halfwave.export.source import Source

MOST_BYTES = 12 << 20
DARCY = "-div(a grad u) = 1"
"""How the equation begins that the page can solve itself."""
_SAMPLES, _TESTED, _TRAINING = 6, 32, 256


def write_page(program: Program, path: Path, source: Source) -> None:
    """One file that shows the program at work; InputError where the run is not one of scalar fields in 2-D."""
    dataset = _check(program, source)
    values = page_values(program, dataset)
    runtime = web_runtime()
    text = _template().render(
        title=escape(f"A neural operator in this page: {type(program.reference.model).__name__}, {dataset.path.stem}"),
        summary=escape(_summary(program, dataset, values)),
        solved=" (solved in this page)" if values["solver"] else "",
        low=f"{values['low']:g}",
        high=f"{values['high']:g}",
        step=1 if values["two_valued"] else 0.05,
        style=_asset("page.css"),
        data=json.dumps(values).replace("</", "<\\/"),
        runtime_code=_packed(runtime.code),
        runtime_wasm=_packed(runtime.wasm),
        model=_packed(build_onnx(program).SerializeToString()),
        **{name: _asset(f"{name}.js") for name in ("solver", "familiar", "app")},
    )
    if len(text.encode()) > MOST_BYTES:
        raise InputError(f"the page would take {len(text) / 1e6:.1f} MB, over {MOST_BYTES >> 20}: give weights='fp16'")
    path.write_text(text, encoding="utf-8")


def run_page(path: Path) -> Run:
    """The model inside a page, in ONNX Runtime."""
    found = re.search(r'id="model">([^<]*)<', path.read_text(encoding="utf-8"))
    assert found is not None
    return session_run(gzip.decompress(base64.b64decode(found[1])))


def page_values(program: Program, dataset: Dataset) -> dict[str, Any]:
    """What the page knows: samples, the range of the input, the spread of its features in the training data."""
    training = dataset.train[: min(_TRAINING, dataset.n_train)][0][:, 0]
    low, high = float(training.min()), float(training.max())
    spread = features(training, low, high)
    x, y = dataset.test[: min(_TESTED, dataset.n_test)]
    with torch.no_grad():
        answers = program.reference(x)
    errors = [relative_l2(a, b) for a, b in zip(answers, y, strict=True)]
    solver = "darcy" if _is_darcy(dataset) else None
    shown = zip(x[:_SAMPLES, 0], y[:_SAMPLES, 0], strict=True)
    return {
        "grid": list(program.shapes.grid),
        "low": low,
        "high": high,
        "two_valued": bool(((training == low) | (training == high)).all()),
        "solver": solver,
        "samples": [{"x": _floats(a)} | ({} if solver else {"y": _floats(u)}) for a, u in shown],
        "training": {
            "mean": spread.mean(0).tolist(),
            # A feature that never varies must not divide by zero: then any change of it is far outside.
            "std": spread.std(0, correction=0).clamp(min=1e-3).tolist(),
            "count": len(training),
        },
        "test_error": f"{100 * sum(errors) / len(errors):.1f}%",
    }


def _check(program: Program, source: Source) -> Dataset:
    dataset = source.dataset
    if dataset is None:
        raise InputError("a page shows samples of a run's data: give a run directory whose data file is still there")
    if len(program.shapes.grid) != 2 or dataset.in_channels != 1 or dataset.out_channels != 1:
        raise InputError(
            f"a page is for one field in 2-D to one field; {dataset.path} has {dataset.in_channels} to "
            f"{dataset.out_channels} channels in {len(program.shapes.grid)}-D"
        )
    if program.shapes.grid != tuple(dataset.test.grid) or program.shapes.free_grid:
        raise InputError(f"a page is for the grid of its data, {tuple(dataset.test.grid)}: leave the grid out")
    return dataset


def _is_darcy(dataset: Dataset) -> bool:
    rows, columns = dataset.test.grid
    return rows == columns and str(dataset.metadata.get("equation", "")).startswith(DARCY)


def _summary(program: Program, dataset: Dataset, values: dict[str, Any]) -> str:
    grid = " x ".join(map(str, program.shapes.grid))
    equation = dataset.metadata.get("equation", dataset.path.name)
    return f"{equation}. Trained on {dataset.n_train} samples of {grid} points; mean test error {values['test_error']}."


def _floats(field: Tensor) -> str:
    return base64.b64encode(field.contiguous().float().numpy().tobytes()).decode("ascii")


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode("ascii")


def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _template() -> Any:
    # Not escaped here: what is put in is code and base64 of our own; texts are escaped before.
    environment = Environment(loader=PackageLoader("halfwave.export.page", "."), undefined=StrictUndefined)
    return environment.get_template("page.html")
