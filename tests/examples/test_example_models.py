"""The trained models of the examples: small, loadable, with cards, and as good as the card says."""

from pathlib import Path

import numpy as np
import pytest
import torch

import halfwave as hw
from halfwave.data import Darcy
from halfwave.models import NeuralOperator

FOLDER = Path(__file__).parents[2] / "examples" / "models"
MODELS = {"navier-stokes-tfno": (1, 32, 32), "shallow-water-sfno": (3, 32, 64), "darcy-unet": (1, 32, 32)}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_answers_and_has_a_card(name):
    assert (FOLDER / name / "model.safetensors").stat().st_size <= 3_000_000
    card = (FOLDER / name / "README.md").read_text()
    assert "not recorded" not in card
    operator = NeuralOperator.from_pretrained(FOLDER / name)
    with torch.no_grad():
        answer = operator(torch.randn(2, *MODELS[name]))
    assert answer.shape[2:] == MODELS[name][1:]
    assert answer.isfinite().all()


def test_the_error_of_the_card_holds_on_new_media():
    x, y = (torch.from_numpy(np.stack(part)) for part in zip(*_fresh_media(), strict=True))
    with torch.no_grad():
        answer = hw.UNet.from_pretrained(FOLDER / "darcy-unet")(x)
    errors = (answer - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)
    assert float(errors.mean()) < 2 * 0.0039


def _fresh_media():
    return [Darcy(resolution=32, high=4.5, low=3.0).sample(77, "test", index) for index in range(12)]
