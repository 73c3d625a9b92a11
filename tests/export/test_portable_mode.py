"""The portable mode is the same function: eagerly, for every form, in every format, on free grids as on fixed ones."""

import pytest
import torch
from exported_models import FORMS, MIXED, build, relative

import halfwave as hw
from halfwave.models.nonlinearity import NONLINEARITIES
from halfwave.numerics import Portable, arithmetic_of, cpu_multiplies, portably
from halfwave.spectral import matrices

LIMITS = {"full": 2e-6, "fp16": 2e-3, "bf16": 2e-2}


def _ask(model, x, mode=None):
    with torch.no_grad():
        if mode is None:
            return model(x)
        with portably(mode):
            return model(x)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("precision", LIMITS)
def test_a_portable_model_is_the_same_function(form, precision, hardware):
    model, grid = build(form, precision=MIXED.get(precision, precision))
    x = torch.randn(3, 1, *grid)
    expected = _ask(model, x)
    for interpreted in (False, True):
        assert relative(_ask(model, x, Portable(False, interpreted)), expected) <= LIMITS[precision]
        if form != "sphere":
            assert relative(_ask(model, x, Portable(True, interpreted)), expected) <= LIMITS[precision]
    assert torch.equal(_ask(model, x), expected)


def test_portable_answers_do_not_depend_on_what_the_cpu_multiplies():
    model, grid = build("2-D, two blocks", precision=MIXED["bf16"])
    x = torch.randn(2, 1, *grid)
    answers = []
    for formats in ((), ("bf16",)):
        with cpu_multiplies(*formats):
            answers.append(_ask(model, x, Portable()))
    assert torch.equal(*answers)
    assert not torch.equal(answers[0], _ask(build("2-D, two blocks", precision="full")[0], x))  # it does round


def test_free_grids_make_the_matrices_that_fixed_ones_have():
    for size in (8, 9, 30):
        for last in (False, True):
            for weighting in ("mean", "hermitian"):
                count = 5 if last else 8
                axis = matrices.AxisModes(size, 0 if last else -4, count, 0)
                found = []
                for free in (False, True):
                    with portably(Portable(free_grid=free)):
                        arith = arithmetic_of("fp32", "cpu")
                        device = torch.device("cpu")
                        found.append(matrices.transform_matrix(axis, last, weighting, arith, device))
                torch.testing.assert_close(found[1], found[0], rtol=2e-7, atol=1e-9)


def test_the_mode_leaves_nothing_in_the_caches():
    before = matrices._CACHE.held
    model, _ = build("2-D, two blocks")
    _ask(model, torch.randn(1, 1, 47, 43), Portable())
    assert matrices._CACHE.held == before


def test_a_sealed_mode_makes_no_constants():
    model, grid = build("2-D, two blocks")
    mode = Portable()
    _ask(model, torch.randn(1, 1, *grid), mode)
    mode.sealed = True
    _ask(model, torch.randn(1, 1, *grid), mode)
    with pytest.raises(RuntimeError, match="was not made before"):
        _ask(model, torch.randn(1, 1, 30, 30), mode)


@pytest.mark.parametrize("name", NONLINEARITIES)
def test_every_nonlinearity(name):
    torch.manual_seed(0)
    model = hw.FNO((6,), 1, 1, 8, n_layers=2, non_linearity=name).eval()
    x = torch.randn(2, 1, 16)
    for mode in (Portable(), Portable(interpreted=True)):
        assert relative(_ask(model, x, mode), _ask(model, x)) <= 2e-6


def test_adaptive_norms_and_other_forms():
    for options in (
        {"norm": "ada_in", "ada_in_features": 3},
        {"factorization": "cp", "separable": True},
        {"factorization": "tucker", "rank": 0.5, "complex_mode": "A"},
        {"factorization": "cp", "rank": 0.5, "implementation": "reconstructed"},
        {"resolution_scaling_factor": 2.0, "domain_padding": 0.25},
        {"layout": "neuralop", "backend": "fft"},
    ):
        model, grid = build("2-D, two blocks", **options)
        if "norm" in options:
            model.set_ada_in_embeddings(torch.randn(3))
        x = torch.randn(2, 1, *grid)
        for mode in (Portable(), Portable(interpreted=True)):
            assert relative(_ask(model, x, mode), _ask(model, x)) <= 2e-6
