"""`halfwave view RUN`: a run as one page: curves, fields, spectra, errors, certificate, plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn
from tyro.conf import Positional

from halfwave.certificates import certify
from halfwave.commands.common import figure_text, log_console, results_console
from halfwave.commands.plan import PLAN_COLUMNS, Plan, plan_rows
from halfwave.commands.recipe_defaults import batch_of
from halfwave.commands.runs import duration_text
from halfwave.commands.view_samples import gather_answers
from halfwave.errors import InputError, UsageError
from halfwave.planner import Roofline, format_bytes, get_device, judge
from halfwave.precision import Policy
from halfwave.report import Curve, LineChart, RunPage, write_run_page
from halfwave.training import (
    AnyDataset,
    CloudSamples,
    Operator,
    RunListing,
    TrainConfig,
    find_model_file,
    is_run,
    load,
    open_data,
    read_config,
    read_metrics,
    recipe_of_run,
)

_CERTIFIED = 4
"""Test samples that the certificate on a page is of."""


@dataclass
class View:
    """Writes a run as one HTML page that needs nothing else.

    Curves, fields with sliders over samples and time, spectra, errors, certificate and plan, as far as the run has
    them: of one that is still training the curves so far.
    """

    run_path: Positional[Path]
    """Run directory."""
    out: Path | None = None
    """The page; by default RUN/view.html."""
    samples: int = 6
    """Test samples, bodies or trajectories to leaf through."""
    quick: bool = False
    """Leave out the certificate and the plan, which take the longest."""

    @classmethod
    def known(cls, call: View | None) -> dict[str, Any]:
        """Where the page goes."""
        return {} if call is None else {"out": call.run_path / "view.html"}

    def run(self) -> None:
        if self.samples < 1:
            raise UsageError(f"--samples must be at least 1, got {self.samples}")
        if not is_run(self.run_path):
            raise InputError(f"{self.run_path} is not a run: it has no config.json")
        out = self.out or self.run_path / "view.html"
        if out.suffix not in (".html", ".htm"):
            raise UsageError(f"--out is {out}: expected a name that ends in .html")
        gathered = _Gathering(self.run_path, self.samples, self.quick)
        write_run_page(gathered.page(), out)
        for heading, reason in gathered.missing.items():
            log_console().print(f"{heading}: {reason}", soft_wrap=True, markup=False)
        results_console().print(f"{out}: {out.stat().st_size / 1e6:.2g} MB, open it in a browser", soft_wrap=True)


@dataclass
class _Gathering:
    """The parts of a page, and why some are not there."""

    run: Path
    samples: int
    quick: bool
    missing: dict[str, str] = field(default_factory=dict)

    def page(self) -> RunPage:
        config, listing = read_config(self.run / "config.json"), RunListing.of(self.run)
        parts: dict[str, Any] = {}
        charts = {"Training": self._training()}
        model: nn.Module | None = None
        dataset: AnyDataset | None = None
        with self._part("Fields", "Errors", "Spectra", "Certificate"):
            model, dataset = load(find_model_file(self.run)), open_data(config)
        if model is not None and dataset is not None:
            with self._part("Fields", "Errors", "Spectra"):
                answers = gather_answers(model, dataset, config, self.samples)
                parts["gallery"] = answers.gallery
                charts |= {"Errors": answers.errors, "Spectra": answers.spectra}
                self.missing |= {"Spectra": answers.no_spectra} if answers.no_spectra else {}
            self._slow("Certificate", lambda: parts.update(certificate=_certificate(model, dataset)))
        self._slow("Plan", lambda: parts.update(_plan(self.run)))
        return RunPage(
            title=f"{config.recipe or config.model}: {self.run.resolve().name}",
            facts=_facts(config, listing, model),
            charts=charts,
            settings={name: _text(value) for name, value in config.to_dict().items()},
            missing=self.missing,
            **parts,
        )

    def _training(self) -> list[LineChart]:
        with self._part("Training"):
            rows = read_metrics(self.run)
            epochs = [float(row["epoch"]) for row in rows]
            names = {
                "train_loss": "train loss",
                "test_l2": "test L2",
                "test_h1": "test H1",
                "test_l2_full": "L2 in full",
            }
            curves = [Curve.of(words, epochs, [row.get(name) for row in rows]) for name, words in names.items()]
            kept = [curve for curve in curves if curve.points]
            rates = [Curve.of("learning rate", epochs, [row.get("learning_rate") for row in rows])]
            return [
                chart
                for chart in (
                    LineChart("Loss and test errors", "epoch", "relative error", tuple(kept[:4])),
                    LineChart("Learning rate", "epoch", "of an update", tuple(rates)),
                )
                if not chart.is_empty
            ]
        return []

    def _slow(self, heading: str, work: Callable[[], None]) -> None:
        if self.quick:
            self.missing.setdefault(heading, "left out by --quick")
            return
        log_console().print(f"{heading.lower()} ...", soft_wrap=True)
        with self._part(heading):
            work()

    @contextmanager
    def _part(self, *headings: str) -> Iterator[None]:
        """A part that cannot be made is said to be missing, and the others are made."""
        try:
            yield
        except (ValueError, OSError) as error:
            for heading in headings:
                self.missing.setdefault(heading, " ".join(str(error).split()))


def _facts(config: TrainConfig, listing: RunListing, model: nn.Module | None) -> dict[str, str]:
    weights = 0 if model is None else sum(p.numel() for p in model.parameters())
    done = f"{listing.epochs}" if listing.epochs == config.epochs else f"{listing.epochs} of {config.epochs}"
    return {
        "model": config.model,
        **({"parameters": f"{weights:,}"} if weights else {}),
        "precision": config.precision,
        "epochs": done,
        "test L2": figure_text(listing.l2),
        "test H1": figure_text(listing.h1),
        "time": duration_text(listing.seconds),
        "status": listing.status,
    }


def _certificate(model: nn.Module, dataset: AnyDataset) -> str:
    """Of mixed precision, on the first test samples."""
    encoder = model.encoder if isinstance(model, Operator) else None
    split: Any = dataset.test if encoder is None else CloudSamples(dataset.test, encoder)  # type: ignore[arg-type]
    x, targets = split[: min(_CERTIFIED, len(split))]
    return str(certify(model, x, Policy.named("mixed"), targets=targets))


def _plan(run: Path) -> dict[str, Any]:
    """Each policy on the device that `halfwave plan` assumes."""
    recipe, _ = recipe_of_run(run)
    device, batch = get_device(Plan.device), batch_of(recipe)
    found = list(judge(recipe, batch, None, device.memory, device.kind, Roofline(device)))
    note = (
        f"A training step of batch {batch}, for a device that is assumed: {device.name} with "
        f"{format_bytes(device.memory)}. halfwave plan {run.name} --device NAME plans for another."
    )
    return {"plan": (PLAN_COLUMNS, plan_rows(found)), "plan_note": note}


def _text(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)
