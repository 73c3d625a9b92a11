"""What docs/theory.md shows is what the library prints."""

import doctest
from pathlib import Path

from halfwave.theory import Pipeline, bound_block, bound_precision, crossover

PAGE = Path(__file__).resolve().parents[2] / "docs" / "theory.md"


def test_examples_of_the_page_run():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted >= 3
    assert result.failed == 0


def test_figures_of_the_page_are_those_of_the_library():
    text = PAGE.read_text()
    sizes = {"grid": (128, 128), "modes": (64, 64), "in_channels": 64, "out_channels": 64, "r2": 1, "ra": 1, "norm": 1}
    for transform, every in (("gemm", True), ("gemm", False), ("cast", True), ("fft", True)):
        figures = []
        for name in ("fp16", "bf16"):
            pipeline = Pipeline(name, name, name, name, transform, every)
            figures.append(f"{100 * float(bound_block(pipeline, **sizes)):.2g}%")
        assert f"| {figures[0]} | {figures[1]} |" in text, (transform, every, figures)
    halves = [float(bound_precision(name, (128, 128), sup=1, algorithm="fft")) for name in ("fp16", "bf16", "fp32")]
    assert "| " + " | ".join(f"{value:.2g}" for value in halves) + " |" in text.replace("e-6", "e-06")
    ffts = [str(crossover("fp16", d, 1.0, "fft")) for d in (1, 2, 3)]
    assert f"| fp16, tf32 | {crossover('fp16', 2, 1.0)} | {', '.join(ffts)} |" in text
