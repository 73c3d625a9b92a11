"""`halfwave bounds`: theorems in words, measurements on a file, the certificate of a run, and one line for nonsense."""

import json

import h5py
import numpy as np
import pytest

import halfwave as hw
from halfwave.precision import Policy
from halfwave.report.bounds import draw_bounds
from halfwave.theory import bound_discretization, bound_precision, estimate_variation

ASKED = ["bounds", "--grid", 128, "--dim", 2, "--format", "fp16", "--frequency", 1, "--sup", 1, "--lipschitz", 1]


def test_both_bounds_and_which_is_larger(command):
    code, out, _ = command(*ASKED)
    assert code == 0
    assert "discretization error at most 0.008417\n  theorem: T1c" in out
    assert "precision error at most 0.0009764\n  theorem: P1" in out
    assert "assumes: Lipschitz constant 1" in out
    assert "The discretization bound is the larger one, 8.62 times the other." in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("algorithm", "format", "larger"),
    [("inputs", "fp16", "discretization"), ("gemm", "bf16", "precision"), ("fft", "fp16", "precision")],
)
def test_figures_are_those_of_the_library(command, algorithm, format, larger):
    _, out, _ = command(*ASKED, "--algorithm", algorithm, "--format", format, "--json")
    values = json.loads(out)
    assert values["larger"] == larger
    assert values["discretization"]["value"] == bound_discretization((1, 0), 128, sup=1, lipschitz=1).value
    expected = bound_precision(format, (128, 128), sup=1, algorithm=algorithm, scale=values["scale"])
    assert values["precision"]["value"] == expected.value
    assert values["precision"]["guaranteed"]


def test_an_fft_that_would_overflow_is_scaled_and_says_so(command):
    _, out, _ = command(*ASKED, "--grid", 256, "--algorithm", "fft")
    assert "the field is multiplied by 2^-" in out
    assert "inf" not in out


def test_variation_periodic_and_rectangular_grids(command):
    _, out, _ = command("bounds", "--grid", 64, 32, "--frequency", 2, -1, "--sup", 2, "--variation", 3, "--json")
    values = json.loads(out)
    assert values["discretization"]["theorem"].startswith("T2")
    assert values["discretization"]["value"] == bound_discretization((2, -1), (64, 32), sup=2, variation=3).value
    _, out, _ = command(*ASKED, "--periodic", "--json")
    assert json.loads(out)["discretization"]["theorem"].startswith("T3")


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("sup must be a number >= 0, got -1", [*ASKED, "--sup", -1]),
        ("lipschitz must be a number >= 0, got -2", [*ASKED, "--lipschitz", -2]),
        ("sup must be a number >= 0, got nan", [*ASKED, "--sup", "nan"]),
        ("grid must have at least one point along each axis, got (0, 0)", [*ASKED, "--grid", 0]),
        ("unknown format 'fp12': expected one of fp64, fp32", [*ASKED, "--format", "fp12"]),
        ("unknown algorithm 'dct': expected one of inputs, gemm, fft", [*ASKED, "--algorithm", "dct"]),
        ("--frequency has 3 components in 2 dimensions: expected one, or 2", [*ASKED, "--frequency", 1, 2, 3]),
        ("--grid has 3 sides in 2 dimensions", [*ASKED, "--grid", 8, 8, 8]),
        ("--dim must be at least 1, got 0", [*ASKED, "--dim", 0]),
        ("--lipschitz is missing", ["bounds", "--grid", 128, "--sup", 1]),
        ("--sup is missing", ["bounds", "--grid", 128, "--lipschitz", 1]),
        ("--grid is missing", ["bounds", "--sup", 1, "--lipschitz", 1]),
        ("lipschitz has 3 values: expected one number, or 2", [*ASKED, "--lipschitz", 1, 2, 3]),
        ("powers of two, got (100, 100)", [*ASKED, "--grid", 100, "--algorithm", "fft"]),
        ("--plot writes a PNG", [*ASKED, "--plot", "a.pdf"]),
        ("--dtype belongs to --run", [*ASKED, "--dtype", "fp16"]),
        ("--precision belongs to --run", [*ASKED, "--precision", "full"]),
        ("--samples must be at least 1, got 0", ["bounds", "--data", "x.h5", "--samples", 0]),
        ("--sup is for one coefficient", ["bounds", "--run", "r", "--sup", 1]),
        ("--frequency", [*ASKED, "--frequency", "high"]),
    ],
)
def test_nonsense_says_what_is_missing(fails, message, arguments):
    fails(2, message, *arguments)


def test_bad_files_and_runs(fails, trained, dataset, tmp_path):
    fails(1, "nowhere.h5", "bounds", "--data", tmp_path / "nowhere.h5")
    fails(1, "does not exist", "bounds", "--run", tmp_path / "nowhere")
    fails(2, "unknown precision 'quarter'", "bounds", "--run", trained, "--precision", "quarter")
    fails(2, "unknown format 'fp12'", "bounds", "--run", trained, "--dtype", "fp12")
    fails(2, "give --data FILE", "bounds", "--run", trained / "model.safetensors")
    fails(2, "--data has a grid of its own, with 2 axes", "bounds", "--data", dataset, "--grid", 8)
    fails(2, "--sup with --data needs", "bounds", "--data", dataset, "--sup", 3)


def test_errors_of_a_file_by_an_independent_computation(command, dataset):
    code, out, _ = command("bounds", "--data", dataset, "--frequency", 1, 2, "--samples", 3, "--json")
    assert code == 0
    values = json.loads(out)
    fine, coarse = values["rows"]
    with h5py.File(dataset) as file:
        fields = file["test/x"][:, 0].astype(np.float64)
    # The library's coefficients have e^{+2 pi i}: those of numpy at the negative frequency, of equal modulus.
    exact = np.fft.fft2(fields, norm="forward")[:, -1, -2]
    halved = np.fft.fft2(fields[:, ::2, ::2], norm="forward")[:, -1, -2]
    assert coarse["discretization_measured"] == pytest.approx(np.abs(exact - halved).max(), rel=1e-9)
    assert fine["discretization_measured"] is None
    j, k = np.meshgrid(np.arange(16), np.arange(16), indexing="ij")
    angle = 2 * np.pi * ((j + 2 * k) % 16) / 16
    phi = np.cos(angle).round(15).astype(np.float16) + 1j * np.sin(angle).round(15).astype(np.float16)
    rounded = (fields.astype(np.float16).astype(float) * phi.astype(complex)).mean(axis=(1, 2))
    assert fine["precision_measured"] == pytest.approx(np.abs(rounded - exact).max(), rel=1e-6)
    t2 = [bound_discretization((1, 2), 8, sup=12, variation=estimate_variation(field)) for field in fields]
    assert coarse["discretization_bound"] == pytest.approx(max(map(float, t2)), rel=1e-9)
    assert all(not bound.guaranteed and bound.theorem.startswith("T2") for bound in t2)


@pytest.mark.parametrize("algorithm", ["inputs", "gemm", "fft"])
def test_measured_errors_of_a_file_are_below_their_bounds(command, dataset, algorithm):
    _, out, _ = command("bounds", "--data", dataset, "--algorithm", algorithm, "--format", "bf16", "--json")
    rows = json.loads(out)["rows"]
    assert [row["side"] for row in rows] == [16, 8]
    for row in rows:
        assert 0 < row["precision_measured"] <= row["precision_bound"]
    assert 0 < rows[1]["discretization_measured"] <= rows[1]["discretization_bound"]


def test_estimates_are_called_estimates(command, dataset):
    _, out, _ = command("bounds", "--data", dataset)
    assert "B est.: T2 with estimates" in out
    assert "M: measured" in out
    assert "Measured: fp16 costs less than the grid" in out
    assert max(len(line) for line in out.splitlines()[1:]) <= 80
    _, out, _ = command("bounds", "--data", dataset, "--variation", 40)
    assert "B: bound from the constants given" in " ".join(out.split())


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_certificate_of_a_run_is_that_of_python(command, trained, dataset, dtype):
    code, out, _ = command("bounds", "--run", trained, "--dtype", dtype, "--samples", 2, "--json")
    assert code == 0
    values = json.loads(out)
    with h5py.File(dataset) as file:
        x, y = hw.data.open_dataset(dataset).test[:2]
        assert np.array_equal(x.numpy(), file["test/x"][:2])
    expected = hw.certify(hw.load(trained / "model.safetensors"), x, Policy.named("mixed", dtype=dtype), targets=y)
    assert values["measured_error"] == expected.measured_error.tolist()
    assert values["predicted_error"] == expected.predicted_error.tolist()
    assert values["verdict"] == expected.verdict
    assert values["holds"] is True
    assert [c["guaranteed"] for c in values["convolutions"]] == [c.guaranteed.tolist() for c in expected.convolutions]
    assert values["test_errors"]["change"]["samples"] == 2


def test_certificate_in_words_on_25_lines(command, trained):
    code, out, _ = command("bounds", "--run", trained, "--precision", "half", "--alpha", 0.5)
    assert code == 0
    assert "Is half (" in out
    assert "Verdict: half (" in out
    assert "50 of 100 new inputs stay below" in out
    assert "The error against the truth is" in out
    assert "the test error:" in out[out.index("Verdict:") :]
    assert len(out.splitlines()) <= 25
    assert max(len(line) for line in out.splitlines()[1:]) <= 80
    assert (trained / "certificate.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((trained / "certificate.json").read_text())["kind"] == "certificate"


@pytest.mark.parametrize("what", ["theory", "data", "run"])
def test_plot_is_drawn_from_its_numbers(command, trained, dataset, tmp_path, what):
    asked = {"theory": ASKED, "data": ["bounds", "--data", dataset], "run": ["bounds", "--run", trained]}[what]
    code, _, err = command(*asked, "--plot", tmp_path / "deep" / "bounds.png")
    assert code == 0
    assert "bounds.json" in "".join(err.split())
    picture = (tmp_path / "deep" / "bounds.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    numbers = json.loads((tmp_path / "deep" / "bounds.json").read_text())
    sides = [row["side"] for row in numbers["rows"]]
    assert set(sides) == {"theory": {2**k for k in range(3, 13)}, "data": {16, 8}, "run": {16, 8, 4}}[what]
    draw_bounds(tmp_path / "deep" / "bounds.json", tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == picture
