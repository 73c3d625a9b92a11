"""The example that trains the page's model on varied media, at its smallest settings."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from halfwave.data.generator import sample_rng
from halfwave.errors import InputError
from halfwave.export.page.web_runtime import web_runtime

SCRIPT = Path(__file__).parents[2] / "examples" / "varied_page.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("varied_page", SCRIPT)
    found = sys.modules["varied_page"] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(found)
    yield found
    del sys.modules["varied_page"]


def test_media_are_varied_and_repeatable(example):
    law = example.VariedDarcy(resolution=16)
    media = [law.medium(sample_rng(0, "train", index)) for index in range(30)]
    shares = [medium.mean() for medium in media]
    assert min(shares) < 0.2
    assert max(shares) > 0.8
    assert np.array_equal(media[7], law.medium(sample_rng(0, "train", 7)))
    (sample,) = law.samples(0, "train", [7])
    assert np.array_equal(sample["x"][0], np.where(media[7], law.high, law.low))
    assert sample["y"].min() >= 0
    assert sample["y"][0, 0].max() == 0  # u = 0 on the boundary


def test_unseen_drawings_have_both_values(example):
    assert all(0.05 < drawing.mean() < 0.95 for drawing in example.unseen(32).values())


def test_the_script_ends_in_a_page(example, tmp_path, capsys):
    try:
        web_runtime()
    except InputError as error:
        pytest.skip(f"PAGE NOT WRITTEN: {error}")
    example.main(["--out", str(tmp_path), "--train", "16", "--epochs", "1"])
    said = capsys.readouterr().out
    assert (tmp_path / "operator.html").stat().st_size <= 12 << 20
    assert all(re.search(rf"^{name}: \d", said, re.MULTILINE) for name in ("a ring", "a chequerboard", "the letter H"))
