"""hw.compress: small files, the error that was allowed, and models that remain ordinary ones."""

import copy
import os

import numpy as np
import pytest
import torch

import halfwave as hw
from halfwave.certificates.observing import run_as
from halfwave.certificates.weight_shells import mean_squares, predict_change, rows_of
from halfwave.data import Normalizer
from halfwave.errors import InputError
from halfwave.training import Operator


def _errors(one, other, x):
    with torch.no_grad():
        truth = other(x).double()
        return ((one(x).double() - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).numpy()


def _fields(count, side=24, seed=0):
    """Smooth periodic fields."""
    generator = torch.Generator().manual_seed(seed)
    k = torch.fft.fftfreq(side, 1 / side)
    r = torch.hypot(*torch.meshgrid(k, k, indexing="ij"))
    noise = torch.fft.fft2(torch.randn(count, 1, side, side, generator=generator))
    fields = torch.fft.ifft2(noise * (4 + r**2) ** -1.0).real
    return fields / fields.std()


@pytest.fixture(scope="module")
def trained():
    """Learns u -> tanh(Laplacian^-1 u) for a moment: weights that differ from shell to shell."""
    torch.manual_seed(0)
    model, x = hw.FNO((12, 12), 1, 1, 24, n_layers=3), _fields(16)
    y = torch.tanh(_smoothed(x))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean() / y.square().mean()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05
    return model.eval()


def _smoothed(x):
    k = torch.fft.fftfreq(x.shape[-1], 1 / x.shape[-1])
    r = torch.hypot(*torch.meshgrid(k, k, indexing="ij"))
    return torch.fft.ifft2(torch.fft.fft2(x) / (1 + r)).real


@pytest.mark.parametrize(("max_error", "share"), [(0.02, 0.2), (1e-3, 0.35)])
def test_a_small_file_within_its_error(trained, tmp_path, max_error, share):
    x = _fields(28, seed=1)
    small = hw.compress(trained, x, max_error=max_error)
    hw.save(trained, tmp_path / "full.safetensors")
    hw.save(small, tmp_path / "small.safetensors")
    sizes = [os.path.getsize(tmp_path / f"{name}.safetensors") for name in ("small", "full")]
    assert sizes[0] <= share * sizes[1]
    loaded = hw.load(tmp_path / "small.safetensors")
    assert _errors(loaded, trained, x).max() <= max_error
    assert _errors(loaded, small, x).max() == 0
    record = small.compression.record
    assert np.allclose(_errors(loaded, trained, x[:8]), record["measured_error"], rtol=1e-2)
    assert np.allclose(_errors(loaded, trained, x[8:]), record["held_out_error"], rtol=1e-2)
    assert 0.5 < np.mean(record["predicted_error"]) / np.mean(record["measured_error"]) < 2
    assert record["conformal"] <= max(record["held_out_error"])
    text = str(small.compression)
    assert f"{max_error:.1e} allowed" in text
    assert "of 100 new inputs stay below" in text
    assert str(loaded.compression) == text
    assert max(map(len, text.splitlines())) <= 80


def test_high_frequencies_get_fewer_bits_and_every_shell_has_its_bound(trained):
    small = hw.compress(trained, _fields(8, seed=1), max_error=1e-3)
    name = "blocks.1.conv.weight.weight"
    shells = [shell for shell in small.compression.record["shells"] if shell["parameter"] == name]
    assert [shell["frequency"] for shell in shells] == list(range(7))
    assert shells[0]["bits"] > shells[-1]["bits"]
    weights = [dict(m.named_parameters())[name].detach().double().numpy() for m in (trained, small)]
    pairs = [w[..., 0, :] + 1j * w[..., 1, :] for w in weights]  # (K1, K2, C, O)
    largest = np.linalg.norm(pairs[0], 2, axis=(-2, -1)).max()
    changes = np.linalg.norm(pairs[1] - pairs[0], 2, axis=(-2, -1))
    rows, columns = np.meshgrid(abs(np.arange(12) - 6), np.arange(7), indexing="ij")
    for shell in shells:
        inside = np.maximum(rows, columns) == shell["frequency"]
        assert shell["bound"] == pytest.approx(changes[inside].max() / largest, rel=1e-6)
        assert shell["numbers"] == inside.sum() * 2 * 24 * 24


def test_the_sensitivities_are_those_of_finite_differences():
    """E(g²) over sign probes is the squared norm of a column of the Jacobian, here of a few single weights."""
    torch.manual_seed(0)
    model, x = run_as(hw.FNO((12, 12), 1, 1, 4, n_layers=1), hw.Policy.uniform("fp64")), _fields(1, side=12, seed=3)
    squares = mean_squares(model, x, probes=60)
    name, step = "blocks.0.conv.weight.weight", 1e-2
    size = model(x).norm()
    for index in [(6, 0, 1, 0, 2), (7, 2, 3, 1, 0)]:
        changed = copy.deepcopy(model)
        with torch.no_grad():
            dict(changed.named_parameters())[name][index] += step
            change = float((changed(x) - model(x)).norm() / size)
        assert float(squares[name][index]) ** 0.5 == pytest.approx(change / step, rel=0.35)
        changes = {n: torch.zeros(p.shape, dtype=torch.float64) for n, p in model.named_parameters()}
        changes[name][index] = step
        assert float(predict_change(model, x, changes, probes=60)) == pytest.approx(change, rel=0.35)


def test_rows_know_the_frequencies_of_every_transform():
    rows = rows_of(hw.FNO((4, 6), 1, 1, 4, n_layers=1))
    shells = rows["blocks.0.conv.weight.weight"].shells.reshape(4, 4)
    assert shells.tolist() == [[2, 2, 2, 3], [1, 1, 2, 3], [0, 1, 2, 3], [1, 1, 2, 3]]
    sphere = rows_of(hw.SFNO((5, 8), 1, 1, 4, n_layers=1))["blocks.0.conv.weight.weight"]
    assert sphere.shells.tolist() == [0, 1, 2, 3, 4]
    assert not rows["lifting.fcs.0.weight"].by_mode


@pytest.mark.parametrize(
    "build",
    [
        lambda: hw.TFNO((6, 6), 1, 1, 8, n_layers=2, rank=0.5),
        lambda: hw.FNO((6, 6), 1, 1, 8, n_layers=2, separable=True),
        lambda: hw.SFNO((6, 12), 1, 1, 8, n_layers=2),
        lambda: hw.UNet(1, 1, 8),
    ],
)
def test_every_model_on_random_fields(build, tmp_path):
    torch.manual_seed(1)
    model = build().eval()
    small = hw.compress(model, max_error=0.01)
    hw.save(small, tmp_path / "small.safetensors")
    loaded = hw.load(tmp_path / "small.safetensors")
    assert max(small.compression.record["measured_error"]) <= 0.01
    assert small.compression.record["on"] == "random fields"
    assert small.compression.nbytes < 0.4 * 4 * sum(p.numel() for p in model.parameters())
    x = torch.randn(2, 1, 32, 32)
    assert _errors(loaded, small, x).max() == 0
    assert 0 < _errors(small, model, x).max() < 0.05


def test_a_wrapper_keeps_its_normalizers_and_the_original_its_weights(trained, tmp_path):
    before = copy.deepcopy(trained.state_dict())
    operator = Operator(trained, Normalizer(torch.tensor([2.0]), torch.tensor([3.0])), None)
    x = _fields(4, seed=2) * 3 + 2
    small = hw.compress(operator, x, max_error=5e-3)
    hw.save(small, tmp_path / "operator.safetensors")
    loaded = hw.load(tmp_path / "operator.safetensors")
    assert isinstance(loaded, Operator)
    assert _errors(loaded, small, x).max() == 0
    assert _errors(loaded, operator, x).max() <= 5e-3
    assert all(torch.equal(value, before[name]) for name, value in trained.state_dict().items())
    assert not hasattr(trained, "compression")


def test_a_model_that_was_trained_on_is_saved_as_it_is(trained, tmp_path):
    small = hw.compress(trained, _fields(4), max_error=0.02)
    with torch.no_grad():
        small.projection.fcs[1].bias += 0.5
    hw.save(small, tmp_path / "changed.safetensors")
    loaded = hw.load(tmp_path / "changed.safetensors")
    assert torch.equal(loaded.projection.fcs[1].bias, small.projection.fcs[1].bias)
    assert not hasattr(loaded, "compression")


def test_it_exports_like_any_other(trained, tmp_path):
    hw.save(hw.compress(trained, _fields(4), max_error=0.02), tmp_path / "small.safetensors")
    loaded, x = hw.load(tmp_path / "small.safetensors"), _fields(2, seed=4)
    program = torch.export.export(loaded, (x,))
    assert torch.allclose(program.module()(x), loaded(x), atol=1e-5)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: hw.compress(m, max_error=0), "max_error must be a positive number, got 0"),
        (lambda m: hw.compress(copy.deepcopy(m).half(), max_error=0.1), "float16: compress needs fp32 weights"),
        (lambda m: hw.compress(torch.nn.Linear(1, 1), torch.ones(1, 1), max_error=0.1), "Linear is no model"),
        (lambda m: hw.compress(hw.GINO(1, 1, fno_n_modes=(4, 4, 4)), max_error=0.1), "a GINO needs samples"),
        (lambda m: hw.compress(m, torch.full((1, 1, 24, 24), torch.nan), max_error=0.1), "inf or nan"),
    ],
)
def test_nonsense_is_refused_in_one_line(trained, ask, message):
    with pytest.raises(InputError, match=message):
        ask(trained)
