"""`halfwave demo`: the main job, small. Darcy data, an FNO trained in full and in mixed precision, side by side."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from halfwave.commands.common import log_console, results_console
from halfwave.commands.data import make_dataset
from halfwave.data import Dataset, build_generator, open_dataset, written_h5
from halfwave.errors import InputError
from halfwave.export import export
from halfwave.files import make_directory, write_json
from halfwave.measure import keep_freed_blocks
from halfwave.numerics import core_count, describe_cpu
from halfwave.recipes import Recipe, get_recipe
from halfwave.report import write_fields_figure, write_page
from halfwave.tables import build_table
from halfwave.training import RunResult, TrainConfig, compare_steps, load, train

POLICIES = ("full", "mixed")


@dataclass
class Demo:
    """Makes Darcy data, trains full and mixed, compares them, writes a report."""

    out: Path = Path("runs/demo")
    """Where runs, summary.json, report.html, fields.png and operator.html go."""
    seed: int = 0
    """Both runs start from the same weights and see the same batches."""
    workers: int = core_count()
    """Processes that make the data."""

    def run(self) -> None:
        keep_freed_blocks()
        recipe = get_recipe("demo")
        make_directory(self.out)
        dataset = open_dataset(self._data(recipe))
        configs = {name: TrainConfig.of(recipe, dataset.path, precision=name, seed=self.seed) for name in POLICIES}
        results = {name: self._train(config, name) for name, config in configs.items()}
        log_console().print("measuring memory and throughput, steps of full and mixed in turn")
        measured = compare_steps(configs, dataset)
        summary = {name: {"l2": results[name].l2, "h1": results[name].h1, **measured[name]} for name in POLICIES}
        summary_path = self.out / "summary.json"
        write_json(summary_path, summary)
        write_json(self.out / "setting.json", _setting(recipe, self.seed))
        self._write_fields(dataset)
        write_fields_figure(self.out / "fields.h5", self.out / "fields.png")
        write_page(self.out)
        self._write_operator()
        results_console().print(summary_table(summary))
        results_console().print(
            f"report: {self.out / 'report.html'}, figure: {self.out / 'fields.png'}", soft_wrap=True
        )

    def _data(self, recipe: Recipe) -> Path:
        generator = build_generator(recipe.generator, **recipe.parameters)
        path = Path("data") / f"demo-{generator.name}.h5"
        return make_dataset(generator, path, recipe.n_train, recipe.n_test, 0, self.workers)

    def _train(self, config: TrainConfig, name: str) -> RunResult:
        log_console().print(f"training in {name} precision")
        result = train(config, self.out / name)
        if result.status == "interrupted":  # it has saved; the next training is not what was asked for
            raise KeyboardInterrupt
        return result

    def _write_operator(self) -> None:
        """The trained operator as a page to draw on: in fp32, as browsers have no other products."""
        log_console().print("writing the operator as a page that runs in a browser")
        try:
            export(self.out / "mixed", self.out / "operator.html", weights="fp16", policy="full")
        except InputError as error:  # without npm or a network there is no runtime to put into it
            log_console().print(f"no page of the operator: {error}", soft_wrap=True)

    def _write_fields(self, dataset: Dataset) -> None:
        """Input, truth and both predictions of one test sample: what the figure reads."""
        x, y = dataset.test[:1]
        with written_h5(self.out / "fields.h5") as writer:
            writer.put("input", x[0, 0].numpy())
            writer.put("truth", y[0, 0].numpy())
            for name in POLICIES:
                with torch.no_grad():
                    prediction = load(self.out / name / "model.safetensors")(x)
                writer.put(f"prediction/{name}", prediction[0, 0].numpy())


def _setting(recipe: Recipe, seed: int) -> dict[str, Any]:
    """What was run, and on what: for the report."""
    return {"recipe": asdict(recipe), "seed": seed, "machine": describe_cpu(), "torch": torch.__version__}


def summary_table(summary: dict[str, dict[str, Any]]) -> Table:
    """One table: error, memory, throughput, and mixed over full."""
    rows = [
        (
            name,
            f"{row['l2']:.4f}",
            f"{row['h1']:.4f}",
            f"{row['peak_memory_bytes'] / 1e6:.0f} MB",
            f"{row['activation_bytes'] / 1e6:.0f} MB",
            f"{row['samples_per_second']:.1f}",
        )
        for name, row in summary.items()
    ]
    full, mixed = summary["full"], summary["mixed"]
    ratios = ("mixed / full", *(f"{mixed[key] / full[key]:.2f}x" for key in full))
    figures = ["test L2", "test H1", "peak memory", "activations", "samples/s"]
    return build_table("Darcy flow", [""], figures, [*rows, ratios], total=1)
