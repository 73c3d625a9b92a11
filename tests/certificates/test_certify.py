"""Certificates: measured errors below their bounds, and every figure reproduced by independent code."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import halfwave as hw
from halfwave.certificates import Certificate
from halfwave.certificates.conv_bound import pipeline_of
from halfwave.certificates.network_bound import GELU_ULPS
from halfwave.data import Darcy, Normalizer
from halfwave.errors import InputError
from halfwave.models import set_precision
from halfwave.numerics import FORMATS, arithmetic_of, cpu_multiplies, multiplies_natively
from halfwave.precision import Policy
from halfwave.theory import Pipeline, bound_block
from halfwave.training import Operator

pytestmark = pytest.mark.hardware

GRID, MODES, WIDTH = (24, 24), (8, 8), 8


def _darcy(count):
    generator = Darcy(resolution=GRID[0])
    pairs = [generator.sample(0, "train", index) for index in range(count)]
    x, y = (torch.from_numpy(np.stack(fields)) for fields in zip(*pairs, strict=True))
    return (x - x.mean()) / x.std(), (y - y.mean()) / y.std()


@pytest.fixture(scope="module")
def data():
    return _darcy(4)


@pytest.fixture(scope="module")
def trained(data):
    torch.manual_seed(0)
    model = hw.FNO(MODES, 1, 1, WIDTH, n_layers=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    first = last = None
    for _ in range(60):
        optimizer.zero_grad()
        loss = (model(data[0]) - data[1]).square().mean()
        loss.backward()
        optimizer.step()
        last = loss.item()
        first = first or last
    assert last < first / 3
    return model


@pytest.fixture
def native():
    """Products in the half formats themselves, as on a CPU that has the instructions (torch computes them anywhere)."""
    with cpu_multiplies("bf16", "fp16"):
        yield


def _check(certificate):
    """Each measured error below its bound, and no bound empty."""
    assert certificate.holds
    for block in certificate.blocks:
        assert 0 < block.conv_error <= block.conv_bound.value < 300 * block.conv_error
        assert block.conv_bound.guaranteed == block.pipeline.startswith("gemm")
        assert 0 < block.output_error <= block.output_bound
    assert 0 < certificate.precision_error <= certificate.output_bound


@pytest.mark.usefixtures("hardware")
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_trained_darcy_model_stays_below_its_bounds(trained, data, dtype):
    certificate = hw.certify(trained, data[0][:3], Policy.named("mixed", dtype=dtype))
    _check(certificate)
    assert [block.name for block in certificate.blocks] == ["blocks.0", "blocks.1", "blocks.2"]
    assert certificate.below_discretization
    assert certificate.concerns == ()
    assert certificate.fp32_error < certificate.precision_error / 100


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.usefixtures("native")
def test_native_products_round_more_often_and_stay_below(trained, data, dtype):
    certificate = hw.certify(trained, data[0][:2], Policy.named("mixed", dtype=dtype))
    assert "cast at every step" in certificate.blocks[0].pipeline
    _check(certificate)


@pytest.mark.parametrize("policy", ["amp", "half", "full", "HFF", "FHH", "fp8_e5m2", "tf32"])
def test_every_kind_of_policy(trained, data, policy):
    if policy in ("amp", "half", "full"):
        chosen = Policy.named(policy, dtype="fp16")
    else:
        chosen = Policy.block(policy, dtype="bf16") if policy[0] in "FH" else Policy.uniform(policy)
    certificate = hw.certify(trained, data[0][:2], chosen)
    assert certificate.holds
    assert all(block.conv_bound is not None and block.output_bound is not None for block in certificate.blocks)


@pytest.mark.parametrize(
    ("modes", "grid", "options"),
    [
        ((4,), (13,), {"domain_padding": 0.2}),
        ((4, 6), (9, 12), {"layout": "neuralop", "fno_skip": "identity"}),
        ((4, 6), (8, 16), {"backend": "fft", "channel_mlp_expansion": None}),
        ((4, 6), (16, 8), {"domain_padding": 0.25, "channel_mlp_skip": "linear", "fno_skip": None}),
        ((2, 4, 4), (4, 8, 6), {"positional_embedding": None}),
    ],
)
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_other_architectures_grids_and_dimensions(modes, grid, options, dtype):
    torch.manual_seed(1)
    model = hw.FNO(modes, 2, 1, 6, n_layers=2, **options)
    certificate = hw.certify(model, torch.randn(2, 2, *grid), Policy.named("mixed", dtype=dtype, stabilizer="none"))
    assert certificate.holds
    assert certificate.output_bound is not None
    assert certificate.grid == grid


def _random_case(rng):
    """A model, an input and a policy: any architecture, formats, scale, backend."""
    dim = int(rng.integers(1, 4))
    skips = ["linear", "identity", "soft-gating", None]
    model = hw.FNO(
        tuple(map(int, rng.integers(1, 8, dim))), 1, 1, int(rng.integers(2, 7)), n_layers=int(rng.integers(1, 4)),
        backend=str(rng.choice(["auto", "gemm", "fft"])), layout=str(rng.choice(["exact", "neuralop"])),
        fno_skip=skips[rng.integers(4)], channel_mlp_skip=skips[rng.integers(4)],
        channel_mlp_expansion=[None, 0.5, 1.0][rng.integers(3)], domain_padding=[None, 0.2][rng.integers(2)],
        positional_embedding=[None, "grid"][rng.integers(2)],
    )  # fmt: skip
    with torch.no_grad():
        for parameter in model.lifting.fcs[1].parameters():
            parameter *= 10 ** rng.uniform(-4, 1)
    x = torch.randn(2, 1, *map(int, rng.integers(4, 13, dim))) * 10 ** rng.uniform(-3, 1)
    formats = map(str, rng.choice(["fp16", "bf16", "fp32", "tf32", "fp8_e5m2"], 5))
    return model, x, Policy(*formats, str(rng.choice(["none", "tanh", "hard-clip", "divide-10"])))


def test_no_random_model_exceeds_its_bounds():
    """Half of them with native products. 840 such models, in 100 s: at most 0.44 of a convolution's bound."""
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    compared, worst = 0, 0.0
    for case in range(40):
        with cpu_multiplies(*(("bf16", "fp16") if case % 2 else ())):
            certificate = hw.certify(*_random_case(rng))
        blocks = [block for block in certificate.blocks if block.finite]
        assert certificate.holds
        compared += len(blocks)
        worst = max([worst, *(block.conv_error / block.conv_bound.value for block in blocks)])
    assert compared >= 60
    assert 0.05 < worst <= 1


# An independent FNO in float64: numpy's FFT and plain loops, from the state dict alone.
def _gelu(x):
    from scipy.special import erf

    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def _mix(weight, x):
    return np.einsum("oc,bcxy->boxy", weight, x)


def _numpy_conv(weights, name, v):
    n, m = v.shape[-2:]
    spectrum = np.fft.rfft2(v, norm="forward")
    pairs = weights[f"{name}.weight.weight"]  # (K1, K2, C, 2, O)
    dense = pairs[..., 0, :] + 1j * pairs[..., 1, :]
    out = np.zeros((len(v), dense.shape[-1], n, m // 2 + 1), dtype=complex)
    kept = min(n, MODES[0])
    for k in range(-(kept // 2), kept - kept // 2):
        for l in range(min(m // 2, MODES[1] // 2) + 1):  # noqa: E741
            out[:, :, k, l] = spectrum[:, :, k, l] @ dense[k + MODES[0] // 2, l]
    return np.fft.irfft2(out, s=(n, m), norm="forward") + weights[f"{name}.bias"][:, None, None]


def _numpy_mlp(weights, name, x):
    hidden = _gelu(_mix(weights[f"{name}.fcs.0.weight"], x) + weights[f"{name}.fcs.0.bias"][:, None, None])
    return _mix(weights[f"{name}.fcs.1.weight"], hidden) + weights[f"{name}.fcs.1.bias"][:, None, None]


def _numpy_fno(model, x):
    weights = {name: value.detach().double().numpy() for name, value in model.state_dict().items()}
    b, _, n, m = x.shape
    rows, columns = np.meshgrid(np.arange(n) / n, np.arange(m) / m, indexing="ij")
    grid = np.broadcast_to(np.stack([rows, columns]), (b, 2, n, m))
    v = _numpy_mlp(weights, "lifting", np.concatenate([x.double().numpy(), grid], axis=1))
    for index in range(3):
        name = f"blocks.{index}"
        h = _numpy_conv(weights, f"{name}.conv", v) + _mix(weights[f"{name}.skip.weight"], v)
        h = _numpy_mlp(weights, f"{name}.mlp", _gelu(h) if index < 2 else h)
        h = h + weights[f"{name}.mlp_skip.weight"][:, None, None] * v
        v = _gelu(h) if index < 2 else h
    return _numpy_mlp(weights, "projection", v)


def _norms(field):
    return np.sqrt((field**2).sum(axis=1).mean(axis=(1, 2)))


@pytest.mark.usefixtures("hardware")
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_figures_of_the_verdict_by_an_independent_computation(trained, data, dtype):
    x = data[0][:3]
    policy = Policy.named("mixed", dtype=dtype)
    certificate = hw.certify(trained, x, policy)
    exact, coarse = _numpy_fno(trained, x), _numpy_fno(trained, x[..., ::2, ::2])
    model = copy.deepcopy(trained)
    set_precision(model, policy)
    seen = {}
    model.blocks[1].conv.register_forward_hook(lambda _, args, out: seen.update(x=args[0], y=out))
    with torch.no_grad():
        computed = model(x).double().numpy()
    precision, grid = _norms(computed - exact), _norms(exact[..., ::2, ::2] - coarse)
    assert certificate.precision_error == pytest.approx(precision.max(), rel=1e-9)
    assert certificate.discretization_error == pytest.approx(grid.max(), rel=1e-9)
    assert certificate.output_norm == pytest.approx(_norms(exact).max(), rel=1e-9)
    assert certificate.samples_below == (precision < grid).sum()
    assert f"precision is {precision.max() / grid.max():.2g} times" in certificate.verdict

    block = certificate.blocks[1]
    weights = {name: value.detach().double().numpy() for name, value in trained.state_dict().items()}
    v, y = seen["x"].double().numpy(), seen["y"].double().numpy()
    assert block.conv_error == pytest.approx(_norms(y - _numpy_conv(weights, "blocks.1.conv", v)).max(), rel=1e-9)
    pairs = weights["blocks.1.conv.weight.weight"]
    matrices = (pairs[..., 0, :] + 1j * pairs[..., 1, :]).swapaxes(-1, -2)
    r2, ra = (max(np.linalg.norm(m, 2) for m in ms.reshape(-1, WIDTH, WIDTH)) for ms in (matrices, np.abs(matrices)))
    bound = bound_block(
        Pipeline(dtype, dtype, dtype, dtype, "gemm", cast_every_step=multiplies_natively(FORMATS[dtype], "cpu")),
        grid=GRID, modes=MODES, in_channels=WIDTH, out_channels=WIDTH, r2=r2, ra=ra,
        norm=_norms(v).max(), bias=float(np.linalg.norm(weights["blocks.1.conv.bias"])),
    )  # fmt: skip
    assert block.conv_bound.value == pytest.approx(float(bound), rel=1e-6)


def test_smooth_fields_are_limited_by_rounding():
    """Without jumps and coordinates the grid is exact to many digits, and bf16 is what limits the answer."""
    torch.manual_seed(2)
    model = hw.FNO((6, 6), 1, 1, 6, n_layers=1, positional_embedding=None)
    t = torch.arange(48) * (2 * torch.pi / 48)
    x = (0.3 * torch.sin(t)[:, None] * torch.cos(t)).expand(2, 1, -1, -1)
    certificate = hw.certify(model, x, Policy.named("mixed", dtype="bf16"))
    assert certificate.holds
    assert not certificate.below_discretization
    assert "not below it (0 of 2 samples)" in certificate.verdict


@pytest.mark.parametrize(("stabilizer", "composes"), [("tanh", True), ("divide-10", True), ("normalise", False)])
def test_a_stabilizer_is_in_the_reference_too(trained, data, stabilizer, composes):
    policy = Policy.named("mixed", dtype="fp16", stabilizer=stabilizer)
    certificate = hw.certify(trained, data[0][:2], policy)
    assert certificate.holds
    assert all(block.stabilizer == stabilizer for block in certificate.blocks)
    assert all((block.output_bound is not None) == composes for block in certificate.blocks)
    assert certificate.stabilizer_change > 10 * certificate.precision_error
    assert f"the stabilizer {stabilizer} changes the function" in " ".join(str(certificate).split())


def test_the_fft_backend_gets_its_own_pipeline_and_tanh(data):
    torch.manual_seed(3)
    model = hw.FNO(MODES, 1, 1, 6, n_layers=2, backend="fft")
    certificate = hw.certify(model, data[0][:2], Policy.named("mixed", dtype="fp16"))
    assert certificate.blocks[0].pipeline.startswith("cast")
    assert {block.stabilizer for block in certificate.blocks} == {"tanh"}
    _check(certificate)


def test_overflow_is_a_verdict_not_a_crash(data):
    torch.manual_seed(3)
    model = hw.FNO(MODES, 1, 1, 6, n_layers=2, backend="fft")
    with torch.no_grad():
        model.lifting.fcs[1].bias += 500.0
    certificate = hw.certify(model, data[0][:2], Policy.named("mixed", dtype="fp16", stabilizer="none"))
    assert "the answer is not finite" in certificate.verdict
    assert any("inf or nan appeared" in text for text in certificate.concerns)
    assert any("an unnormalised FFT of 576 values" in text for text in certificate.concerns)
    assert json.loads(json.dumps(certificate.to_dict(), allow_nan=False))["precision_error"] is None
    gemm = hw.FNO(MODES, 1, 1, 6, n_layers=2, backend="gemm")
    gemm.load_state_dict(model.state_dict())
    assert hw.certify(gemm, data[0][:2], Policy.named("mixed", dtype="fp16", stabilizer="none")).holds


def test_underflow_is_a_concern_and_in_the_bound(data):
    torch.manual_seed(3)
    model = hw.FNO(MODES, 1, 1, 6, n_layers=2)
    with torch.no_grad():
        for parameter in model.lifting.fcs[1].parameters():
            parameter *= 1e-4
    fp16, bf16 = (hw.certify(model, data[0][:2], Policy.named("mixed", dtype=d)) for d in ("fp16", "bf16"))
    assert fp16.blocks[0].underflow > 1
    assert any("underflow can take" in text for text in fp16.concerns)
    assert fp16.holds
    assert bf16.blocks[0].underflow == 0


def test_a_violated_bound_would_be_said(trained, data):
    certificate = hw.certify(trained, data[0][:1], "mixed")
    block = certificate.blocks[0]
    small = replace(block.conv_bound, value=block.conv_error / 2)
    broken = replace(certificate, blocks=(replace(block, conv_bound=small),))
    assert not broken.holds
    assert "A measured error exceeds its bound" in broken.verdict


def test_prints_in_words_at_80_columns(trained, data):
    for policy in ("mixed", Policy.named("mixed", dtype="fp16", stabilizer="2-sigma-clip")):
        text = str(hw.certify(trained, data[0][:2], policy))
        assert max(map(len, text.splitlines())) <= 80
        assert "M: measured on these inputs, B: bound, a guarantee" in text
        assert "verdict: Measured: precision costs" in text


def test_dictionary_holds_every_figure(trained, data):
    certificate = hw.certify(trained, data[0][:2], "mixed")
    values = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert values["precision_error"] == certificate.precision_error
    assert values["blocks"][0]["conv_bound"] == certificate.blocks[0].conv_bound.value
    assert values["blocks"][0]["conv_theorem"].startswith("B1")
    assert values["verdict"] == certificate.verdict


def test_a_wrapped_model_is_certified_inside_and_left_alone(trained, data):
    x = data[0][:2] * 4.5 + 7.5
    wrapped = Operator(trained, Normalizer(torch.tensor([7.5]), torch.tensor([4.5])), None)
    before = {name: value.clone() for name, value in wrapped.state_dict().items()}
    policy = trained.policy
    inside = hw.certify(wrapped, x, "mixed")
    direct = hw.certify(trained, wrapped.x_normalizer.encode(x), "mixed")
    assert isinstance(inside, Certificate)
    assert inside.to_dict() == direct.to_dict()
    assert trained.policy is policy
    assert all(torch.equal(value, before[name]) for name, value in wrapped.state_dict().items())


def test_backends_of_the_two_transforms_may_differ():
    conv = hw.SpectralConv(2, 2, (4, 4), backend="auto", precision=Policy("fp32", "fp16", "fp16", weights="fp16"))
    found = pipeline_of(conv, (512, 512), torch.device("cpu"))
    assert found.inverse_transform == "gemm"
    plan = conv.transform.plan((512, 512), arithmetic_of("fp32", "cpu"), torch.device("cpu"))
    assert found.transform == {"gemm": "gemm", "fft": "cast"}[plan.backend]


def test_gelu_is_as_accurate_as_assumed():
    x = torch.cat([torch.linspace(-14, 14, 400_001), torch.logspace(-30, 3, 100_000)])
    error = (torch.nn.functional.gelu(x).double() - torch.nn.functional.gelu(x.double())).abs()
    assert bool((error <= GELU_ULPS * 2.0**-24 * x.double().abs()).all())


@pytest.mark.parametrize(
    ("model", "x", "message"),
    [
        (torch.nn.Linear(1, 1), torch.ones(1, 1, 8, 8), "Linear has no FNO block"),
        (None, torch.ones(1, 1, 8, 3), "4 points a side or more"),
        (None, torch.full((1, 1, 8, 8), torch.nan), "inf or nan"),
        (None, torch.ones(0, 1, 8, 8), "shape"),
    ],
)
def test_nonsense_is_refused(trained, model, x, message):
    with pytest.raises(InputError, match=message):
        hw.certify(model or trained, x, "mixed")


def test_a_gino_is_refused_in_one_line():
    model = hw.GINO(1, 1, fno_n_modes=(4, 4, 4), fno_hidden_channels=4, fno_n_layers=1)
    for given in (model, torch.nn.Sequential(model)):
        with pytest.raises(InputError, match=r"^a GINO takes point clouds: certify needs a model of fields on a grid$"):
            hw.certify(given, torch.ones(1, 1, 8, 8, 8), "mixed")


@pytest.mark.parametrize("factorization", [None, "cp"])
def test_separable_weights_are_diagonal_matrices(factorization):
    torch.manual_seed(4)
    model = hw.FNO((4, 6), 1, 1, 6, n_layers=2, separable=True, factorization=factorization)
    x = torch.randn(2, 1, 12, 10)
    certificate = hw.certify(model, x, Policy.named("mixed", dtype="bf16"))
    block, conv = certificate.blocks[1], copy.deepcopy(model.blocks[1].conv).double()
    # As dense matrices diag(w_k), by numpy; all modes are on this grid.
    w = np.moveaxis(conv.weight.dense().detach().numpy(), 0, -1).reshape(-1, 6)
    assert block.r2 == pytest.approx(max(np.linalg.norm(np.diag(row), 2) for row in w), rel=1e-6)
    assert block.ra == pytest.approx(block.r2)
    assert block.conv_bound is None  # no theorem covers these weights
    assert 0 < block.conv_error < 0.05 * block.conv_norm
    exact, mixed = copy.deepcopy(model).double(), copy.deepcopy(model)
    set_precision(exact, Policy.uniform("fp64"))
    set_precision(mixed, Policy.named("mixed", dtype="bf16"))
    with torch.no_grad():
        error = (mixed(x).double() - exact(x.double())).numpy()
    assert certificate.precision_error == pytest.approx(_norms(error).max(), rel=1e-9)


def test_unknown_policy_is_refused(trained, data):
    with pytest.raises(ValueError, match="unknown precision 'quarter'"):
        hw.certify(trained, data[0][:1], "quarter")
