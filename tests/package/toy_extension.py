"""A toy model, dataset, recipe, format and experiment, added from outside the library; run by `test_extending.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import halfwave as hw
from halfwave.data import Generator, generate, register_generator
from halfwave.data.generator import sample_rng
from halfwave.domains import Domain, Torus
from halfwave.experiments.claims import Part
from halfwave.experiments.experiment import Experiment, Measure
from halfwave.experiments.registry import experiment_names, get_experiment, register_experiment
from halfwave.experiments.runner import run, summarise
from halfwave.models import register_model
from halfwave.numerics import ieee_format, register_format, round_to
from halfwave.recipes import Recipe, get_recipe, register_recipe
from halfwave.report import Comparison, Exhibit, Line, Outcome
from halfwave.training import TrainConfig, train


@register_model
class ToyOperator(hw.models.NeuralOperator):
    """One linear map over channels: a model in one file."""

    def __init__(self, in_channels: int, out_channels: int, precision: str | hw.Policy = "full") -> None:
        super().__init__()
        self.n_dim, self.in_channels = 1, in_channels
        self.layer = hw.models.pointwise.ChannelMLP(in_channels, 4, out_channels)
        self.set_precision(precision)

    def forward(self, x: Tensor) -> Tensor:
        return self.answer(self.layer(self.receive(x, self.in_channels, self.n_dim)))


@register_generator
@dataclass(frozen=True)
class ToyWaves:
    """y = 2 x for a random wave: a dataset in one file."""

    resolution: int = 16

    name: ClassVar[str] = "toy-waves"
    chunk: ClassVar[int] = 4
    channels: ClassVar[tuple[int, int]] = (1, 1)

    @property
    def domain(self) -> Domain:
        return Torus((1.0,))

    def describe(self) -> dict[str, Any]:
        return {"equation": "y = 2 x", "parameters": {}, "solver": "none", "resolution": [self.resolution]}

    def samples(self, seed: int, split: str, indices: Sequence[int]) -> list[dict[str, np.ndarray]]:
        at = np.arange(self.resolution) / self.resolution
        waves = [np.sin(2 * np.pi * (at + sample_rng(seed, split, i).random()))[None] for i in indices]
        return [{"x": x.astype(np.float32), "y": (2 * x).astype(np.float32)} for x in waves]


register_recipe(
    Recipe(
        "toy", "a toy", "ToyOperator", {}, "toy-waves", {"resolution": 16}, 8, 4,
        {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2}, problem="toy", scale="standard",
    )
)  # fmt: skip

TOY_FORMAT = register_format(ieee_format("fp12_toy", 6, 15))


def test_a_model_and_a_dataset_train_save_and_load(tmp_path: Path) -> None:
    recipe = get_recipe("toy")
    generator: Generator = recipe.build_generator()
    data = generate(generator, tmp_path / "waves.h5", n_train=recipe.n_train, n_test=recipe.n_test)
    config = TrainConfig(data=str(data), model=recipe.model, arguments={}, precision="mixed", **recipe.training)
    result = train(config, tmp_path / "run", quiet=True)
    assert result.status == "finished"
    model = hw.load(tmp_path / "run" / "model.safetensors")
    x = torch.randn(1, 1, 16)
    assert model(x).shape == x.shape


def test_a_format_rounds_in_a_whole_model() -> None:
    torch.manual_seed(0)
    model = hw.FNO((4, 4), 1, 1, 4, n_layers=1)
    x = torch.randn(2, 1, 8, 8)
    exact = model(x)
    hw.set_precision(model, hw.Policy.named("mixed", dtype="fp12_toy"))
    y = model(x)
    assert 1e-4 < float((y - exact).norm() / exact.norm()) < 30 * TOY_FORMAT.unit_roundoff
    y.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    value = torch.tensor([1.0 + 2**-5 + 2**-7])
    assert round_to(value, "fp12_toy").item() == 1.0 + 2**-5
    assert float(hw.theory.bound_precision("fp12_toy", 64, sup=1.0)) > TOY_FORMAT.unit_roundoff


@dataclass(frozen=True)
class _Toy:
    side: int


def test_an_experiment_runs_by_its_name(tmp_path: Path) -> None:
    experiment = register_experiment(
        Experiment(
            name="toy-experiment",
            source="nowhere",
            question="Is a square larger than its side?",
            claim="It is.",
            parts=(Part("it is", check=lambda rows: Outcome.of(all(r["area"] > r["side"] for r in rows), "larger")),),
            measures=(Measure("area", "side times side"),),
            configurations=lambda scale: [_Toy(2), _Toy(3)],
            measure=lambda configuration, lab: [{"area": configuration.side**2}],
            exhibit=lambda rows: Exhibit(
                Comparison(("side",), ("area",), tuple(Line((str(r["side"]),), (None,), (r["area"],)) for r in rows)),
            ),
        )
    )
    assert get_experiment("toy-experiment") is experiment
    assert experiment_names()[-1] == "toy-experiment"
    results = run(experiment, "smoke", tmp_path)
    assert [row["area"] for row in results.all_rows] == [4, 9]
    assert summarise(results).verdict.status == "confirmed"


def test_an_option_is_one_field_of_the_config() -> None:
    """Every field of the trainer's config is an option of `halfwave train`, and nothing else has to be touched."""
    from halfwave.commands.train import Train

    options = set(Train.__dataclass_fields__)
    assert set(TrainConfig.model_fields) - {"recipe", "model", "arguments"} <= options | {"data", "policy"}


def test_what_is_taken_is_said() -> None:
    class FNO(hw.models.NeuralOperator):
        def __init__(self) -> None:
            nn.Module.__init__(self)

    with pytest.raises(ValueError, match="a model called 'FNO'"):
        register_model(FNO)
    with pytest.raises(ValueError, match="another format called 'fp12_toy'"):
        register_format(ieee_format("fp12_toy", 7, 15))
    with pytest.raises(ValueError, match="a dataset called 'toy-waves'"):
        register_generator(dataclass(frozen=True)(type("Other", (), {"name": "toy-waves"})))
