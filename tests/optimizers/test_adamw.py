"""hw.AdamW: neuraloperator's trajectory, less state, one way of computing like another, and a resume to the bit."""

import copy
import math

import pytest
import torch
from neuralop.models import FNO as PeerFNO
from neuralop.training import AdamW as PeerAdamW

import halfwave as hw
from halfwave.measure import measure_step, training_step
from halfwave.numerics import round_stochastically
from halfwave.optimizers import OPTIMIZERS, build_optimizer
from halfwave.optimizers.adamw import _operands
from halfwave.optimizers.log_code import POSITIVE, SIGNED
from halfwave.optimizers.moments import moment_of, new_moments
from halfwave.spectral import holds_pairs
from halfwave.spectral.weights import pair_parameter

MODELS = {
    "FNO": lambda: hw.FNO((6, 6), 1, 1, 8, n_layers=2),
    "CP": lambda: hw.TFNO((6, 6), 1, 1, 8, n_layers=2, factorization="cp", rank=0.3),
    "TT": lambda: hw.TFNO((6, 6), 1, 1, 8, n_layers=1, factorization="tt", rank=0.3),
}
DTYPES = {
    "fp32": (torch.float32, torch.float32),
    "bf16": (torch.bfloat16, torch.bfloat16),
    "8bit": (torch.int8, torch.uint8),
}


def loss(prediction, target):
    return ((prediction - target) ** 2).mean()


def batch(seed=0, size=12):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(4, 1, size, size, generator=generator) for _ in range(2))


def train(model, optimizer, steps, start=0):
    for i in range(start, start + steps):
        training_step(model, loss, optimizer, batch(i % 3))


def smoothing(seed):
    """Something that an FNO can learn."""
    x, _ = batch(seed)
    return x, x.roll(1, -1) + x.roll(1, -2) - x.roll((2, 1), (-1, -2))


def step_loss(model, optimizer, given):
    losses = []
    training_step(model, lambda *pair: losses.append(loss(*pair)) or losses[0], optimizer, given)
    return float(losses[0].detach())


def weights(model):
    return torch.cat([p.detach().double().flatten() for p in model.parameters()])


def distance(a, b):
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_fifty_steps_follow_neuraloperator(decay):
    torch.manual_seed(0)
    peer = PeerFNO((6, 6), in_channels=1, out_channels=1, hidden_channels=8, n_layers=2)
    ours = hw.interop.from_neuralop(peer)
    start = weights(ours)
    other = copy.deepcopy(ours)
    train(peer, PeerAdamW(peer.parameters(), lr=1e-3, weight_decay=decay), 50)
    train(ours, hw.AdamW(ours.parameters(), lr=1e-3, weight_decay=decay), 50)
    train(other, torch.optim.AdamW(other.parameters(), lr=1e-3, weight_decay=decay, eps=1e-6), 50)
    expected = weights(hw.interop.from_neuralop(peer))
    assert distance(weights(ours), expected) < 1e-5
    # The bound says something: the weights have moved, and torch's AdamW takes them elsewhere.
    assert distance(start, expected) > 1e-2
    assert distance(weights(other), expected) > 1e-3


@pytest.mark.parametrize("state", ["fp32", "8bit"])
@pytest.mark.parametrize("name", MODELS)
def test_every_way_of_computing_is_the_same_function(name, state):
    """Small enough for one slice, so that the random bits of 8-bit states are drawn in one order."""
    torch.manual_seed(0)
    model = MODELS[name]()
    found = {}
    for way in ({}, {"foreach": True}, {"fused": True}):
        own = copy.deepcopy(model)
        train(own, hw.AdamW(own, lr=1e-2, weight_decay=0.01, state=state, **way), 5)
        found[str(way)] = weights(own)
    first, *others = found.values()
    assert all(distance(other, first) < 1e-5 for other in others)


def test_a_step_is_the_equation():
    """By hand in float64, also where a parameter is a transposed view: one pair has one second moment."""
    torch.manual_seed(0)
    model = hw.SpectralConv(3, 2, (4, 4)).double()
    model.bias = torch.nn.Parameter(torch.randn(4, 2).double().t())
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    gradients = [{name: torch.randn_like(p) for name, p in model.named_parameters()} for _ in range(2)]
    optimizer = hw.AdamW(model, lr=0.1, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.5)
    for step in gradients:
        for name, p in model.named_parameters():
            p.grad = step[name]
        optimizer.step()
    for name, p in model.named_parameters():
        expected, m, v = before[name], 0.0, 0.0
        for t, step in enumerate(gradients, 1):
            g = step[name]
            square = (g**2).sum(-2, keepdim=True) if name.startswith("weight") else g**2
            m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * square
            rate = 0.1 * math.sqrt(1 - 0.9**t) / (1 - 0.8**t)
            expected = (expected - rate * m / (v.sqrt() + 1e-3)) * (1 - 0.05)
        torch.testing.assert_close(p.detach(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("state", "most"), [("fp32", 0.755), ("bf16", 0.4), ("8bit", 0.2)])
def test_bytes_of_the_state(state, most):
    model = hw.FNO((16, 16), 1, 1, 32, n_layers=2)
    taken = {}
    for name, build in (("torch", torch.optim.AdamW), ("ours", lambda m: hw.AdamW(m, state=state))):
        own = copy.deepcopy(model)
        optimizer = build(own.parameters() if name == "torch" else own)
        training_step(own, loss, optimizer, batch(size=16))
        taken[name] = measure_step(own, loss, optimizer, batch(size=16)).optimizer_bytes
    assert taken["ours"] <= most * taken["torch"]


@pytest.mark.parametrize("way", [{}, {"foreach": True}])
def test_a_scale_lengthens_the_steps_of_complex_numbers_alone(way):
    """And neither their decay nor their moments: with scale s and the same gradient the step is s times as long."""
    torch.manual_seed(0)
    model = MODELS["FNO"]().double()
    (x, y), moved = batch(), {}
    loss(model(x.double()), y.double()).backward()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for scale in (1.0, 2.0):
        own = copy.deepcopy(model)
        for p, given in zip(own.parameters(), model.parameters(), strict=True):
            p.grad = given.grad
        hw.AdamW(own, weight_decay=0.5, pair_scale=scale, **way).step()
        moved[scale] = {name: p.detach() / (1 - 5e-4) - before[name] for name, p in own.named_parameters()}
    for name, p in model.named_parameters():
        expected = (2 if holds_pairs(p) else 1) * moved[1.0][name]
        torch.testing.assert_close(moved[2.0][name], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_rate_means_steps_of_one_length_under_every_name(name):
    """The first step: real numbers move by the rate, both parts of a complex one together by sqrt(2) times it.

    Gradients are multiplied so that no ε matters; a part without a gradient, as that of a mean, does not move.
    """
    torch.manual_seed(0)
    model = MODELS["FNO"]()
    before = {key: p.detach().clone() for key, p in model.named_parameters()}
    x, y = batch()
    (1e6 * loss(model(x), y)).backward()
    build_optimizer(name, model, lr=0.25, weight_decay=0.0).step()
    for key, p in model.named_parameters():
        step = p.detach() - before[key]
        length, expected = (step.norm(dim=-2), 0.25 * 2**0.5) if holds_pairs(p) else (step.abs(), 0.25)
        assert float(length.median()) == pytest.approx(expected, rel=1e-3)


def test_a_state_from_before_the_scale_goes_on_as_it_was():
    torch.manual_seed(0)
    model = MODELS["FNO"]()
    optimizer = hw.AdamW(model)
    train(model, optimizer, 2)
    old = copy.deepcopy(optimizer.state_dict())
    for group in old["param_groups"]:
        del group["pair_scale"]
    copied = copy.deepcopy(model)
    again = hw.AdamW(copied, pair_scale=2.0)
    again.load_state_dict(old)
    for own, one in ((model, optimizer), (copied, again)):
        train(own, one, 2, start=2)
    assert torch.equal(weights(model), weights(copied))


def test_marks_survive_copies_and_conversions():
    model = hw.TFNO((4, 4), 1, 1, 4, n_layers=1, factorization="cp", rank=0.5)
    for own in (model, copy.deepcopy(model), copy.deepcopy(model).double(), copy.deepcopy(model).to("meta")):
        marked = [name for name, p in own.named_parameters() if holds_pairs(p)]
        assert marked
        assert all(".conv.weight." in name for name in marked)
        assert len(marked) == len(list(own.blocks[0].conv.weight.parameters()))


@pytest.mark.parametrize("state", DTYPES)
def test_a_resume_is_exact(state):
    torch.manual_seed(0)
    model = MODELS["FNO"]()
    optimizer = hw.AdamW(model, state=state)
    train(model, optimizer, 3)
    copied = copy.deepcopy(model)
    again = hw.AdamW(copied, state=state)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    torch.rand(5)  # global random numbers do not matter
    for own, one in ((model, optimizer), (copied, again)):
        train(own, one, 3, start=3)
    assert torch.equal(weights(model), weights(copied))
    kept = again.state[copied.blocks[0].conv.weight.weight]
    assert (kept["exp_avg"].dtype, kept["exp_avg_sq"].dtype) == DTYPES[state]


@pytest.mark.parametrize(("state", "shape"), [("bf16", (20_000,)), ("8bit", (200, 100))])
def test_narrow_states_follow_small_changes(state, shape):
    """v decays by 0.1% a step, under the spacing of these numbers: rounded to nearest it would stand still."""
    p = torch.nn.Parameter(torch.zeros(shape))
    optimizer = hw.AdamW([p], state=state)
    p.grad = torch.ones_like(p)
    optimizer.step()
    p.grad = torch.zeros_like(p)
    for _ in range(500):
        optimizer.step()
    v = moment_of(optimizer.state[p], "exp_avg_sq", (1,), torch.float32).load(torch.float32)
    assert float(v.mean()) == pytest.approx(1e-3 * 0.999**500, rel=0.01)


def test_training_with_8_bit_states_follows_that_with_fp32_ones():
    """The same weights and batches: losses over 60 steps stay together, and fall by half."""
    torch.manual_seed(0)
    model = hw.FNO((6, 6), 1, 1, 16, n_layers=2)
    curves = {}
    for state in DTYPES:
        own = copy.deepcopy(model)
        optimizer = hw.AdamW(own, lr=1e-2, state=state)
        curves[state] = torch.tensor([step_loss(own, optimizer, smoothing(i % 3)) for i in range(60)])
    assert curves["fp32"][-3:].mean() < 0.6 * curves["fp32"][:3].mean()
    for state in ("bf16", "8bit"):
        assert ((curves[state] - curves["fp32"]).abs() < 0.02 * curves["fp32"]).all(), state


def test_blocks_are_parts_of_rows_and_slices_cut_none():
    """So the rows of a process have the codes of one process, and a step in slices reads what one in one piece does."""
    torch.manual_seed(0)
    p = pair_parameter(torch.randn(6, 50, 30, 2, 28))
    p.grad = torch.zeros_like(p)
    state = new_moments(p, "8bit")
    assert (state["exp_avg_scale"].shape, state["exp_avg_sq_scale"].shape) == ((6, 336), (6, 168))
    whole = _operands(0, p, state)
    assert whole.m.together > 1
    generator = torch.Generator()
    m, v = torch.randn(9000, 2, 28), torch.rand(9000, 28)
    whole.m.store(m, generator.manual_seed(0))
    whole.v.store(v, generator)
    parts = list(whole.parts())
    assert len(parts) > 1
    for name in "mv":
        pieces = torch.cat([getattr(part, name).load(torch.float32) for part in parts])
        torch.testing.assert_close(pieces, getattr(whole, name).load(torch.float32), rtol=1e-6, atol=0)
    torch.testing.assert_close(whole.m.load(torch.float32), m, rtol=0.08, atol=1e-3)
    own = {name: t[2:4] for name, t in state.items()}
    rows = pair_parameter(p.detach()[2:4].clone())
    rows.grad = torch.zeros_like(rows)
    found, expected = _operands(0, rows, own).m.load(torch.float32), whole.m.load(torch.float32)[3000:6000]
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


def test_short_rows_and_biases_keep_their_numbers():
    for shape in ((500,), (4, 60), (3, 251)):
        found = new_moments(torch.nn.Parameter(torch.zeros(shape)), "8bit")
        coded = shape == (3, 251)
        assert ("exp_avg_scale" in found) == coded
        assert (found["exp_avg"].dtype is torch.int8) == coded


def test_8_bit_codes_have_the_right_mean_and_are_kept():
    """Every number is one of its two neighbours on the scale, its mean the number; what was decoded is coded
    as before, but for a level in thousands that its logarithm's last digit moves."""
    torch.manual_seed(0)
    x = torch.randn(40, 256) * torch.logspace(-2, 0, 256)
    for code, values, octaves in ((SIGNED, x, 12.6), (POSITIVE, x.square(), 21)):
        decoded = [code.decode(*code.encode(values, None), torch.float32) for _ in range(300)]
        large = values.abs() > 2 ** (1 - octaves) * values.abs().amax(1, keepdim=True)
        spread = torch.stack(decoded)[:, large] / values[large] - 1
        assert spread.abs().max() < 2 ** (1 / code.per_octave) - 1
        assert spread.mean(0).abs().max() < 0.01
        assert torch.equal(decoded[0][large].sign(), values[large].sign())
        again = code.decode(*code.encode(decoded[0], None), torch.float32)
        assert ((again / decoded[0] - 1)[large].abs() < 1e-5).float().mean() > 0.999
    tiny = torch.tensor([[1.0, 1e-20, 0.0]]).repeat(100, 1)
    assert (SIGNED.decode(*SIGNED.encode(tiny, None), torch.float32)[:, 1:] == 0).all()
    kept = POSITIVE.decode(*POSITIVE.encode(tiny, None), torch.float32)
    assert (kept[:, 1] > 0).all()  # something is divided by it
    assert (kept[:, 2] == 0).all()
    broken = SIGNED.decode(*SIGNED.encode(torch.tensor([[1.0, math.nan]]), None), torch.float32)
    assert not broken.isfinite().any()


def test_stochastic_rounding_has_the_right_mean_and_neighbours():
    x = torch.tensor([1.001, -3.1415, 1e-30, 65504.0]).repeat(40_000, 1)
    rounded = round_stochastically(x, torch.Generator().manual_seed(0)).float()
    assert ((rounded - x).abs() <= 2**-7 * x.abs()).all()
    torch.testing.assert_close(rounded.mean(0), x[0], rtol=1e-4, atol=0)
    special = torch.tensor([math.inf, -math.inf, math.nan, 0.0])
    torch.testing.assert_close(round_stochastically(special).float(), special, equal_nan=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": "fp8"}, "unknown state 'fp8'"),
        ({"lr": -1.0}, "lr must be at least 0"),
        ({"pair_scale": -1.0}, "pair_scale must be at least 0"),
        ({"betas": (0.9, 1.0)}, "betas must be two numbers"),
        ({"foreach": True, "fused": True}, "expected one of them"),
    ],
)
def test_bad_options_say_so(options, message):
    with pytest.raises(ValueError, match=message):
        hw.AdamW([torch.nn.Parameter(torch.zeros(2))], **options)
