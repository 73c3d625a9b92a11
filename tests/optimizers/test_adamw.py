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
from halfwave.spectral import holds_pairs

MODELS = {
    "FNO": lambda: hw.FNO((6, 6), 1, 1, 8, n_layers=2),
    "CP": lambda: hw.TFNO((6, 6), 1, 1, 8, n_layers=2, factorization="cp", rank=0.3),
    "TT": lambda: hw.TFNO((6, 6), 1, 1, 8, n_layers=1, factorization="tt", rank=0.3),
}


def loss(prediction, target):
    return ((prediction - target) ** 2).mean()


def batch(seed=0, size=12):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(4, 1, size, size, generator=generator) for _ in range(2))


def train(model, optimizer, steps, start=0):
    for i in range(start, start + steps):
        training_step(model, loss, optimizer, batch(i % 3))


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


@pytest.mark.parametrize("name", MODELS)
def test_every_way_of_computing_is_the_same_function(name):
    torch.manual_seed(0)
    model = MODELS[name]()
    found = {}
    for way in ({}, {"foreach": True}, {"fused": True}):
        own = copy.deepcopy(model)
        train(own, hw.AdamW(own, lr=1e-2, weight_decay=0.01, **way), 5)
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


@pytest.mark.parametrize(("state", "most"), [("fp32", 0.755), ("bf16", 0.4)])
def test_bytes_of_the_state(state, most):
    model = hw.FNO((16, 16), 1, 1, 32, n_layers=2)
    taken = {}
    for name, build in (("torch", torch.optim.AdamW), ("ours", lambda m: hw.AdamW(m, state=state))):
        own = copy.deepcopy(model)
        optimizer = build(own.parameters() if name == "torch" else own)
        training_step(own, loss, optimizer, batch(size=16))
        taken[name] = measure_step(own, loss, optimizer, batch(size=16)).optimizer_bytes
    assert taken["ours"] <= most * taken["torch"]


def test_marks_survive_copies_and_conversions():
    model = hw.TFNO((4, 4), 1, 1, 4, n_layers=1, factorization="cp", rank=0.5)
    for own in (model, copy.deepcopy(model), copy.deepcopy(model).double(), copy.deepcopy(model).to("meta")):
        marked = [name for name, p in own.named_parameters() if holds_pairs(p)]
        assert marked
        assert all(".conv.weight." in name for name in marked)
        assert len(marked) == len(list(own.blocks[0].conv.weight.parameters()))


@pytest.mark.parametrize("state", ["fp32", "bf16"])
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
    kept = next(iter(again.state.values()))["exp_avg"]
    assert kept.dtype is (torch.bfloat16 if state == "bf16" else torch.float32)


def test_bf16_states_follow_small_changes():
    """v decays by 0.1% a step, under the spacing of bf16: rounded to nearest it would stand still."""
    p = torch.nn.Parameter(torch.zeros(20_000))
    optimizer = hw.AdamW([p], state="bf16")
    p.grad = torch.ones_like(p)
    optimizer.step()
    p.grad = torch.zeros_like(p)
    for _ in range(500):
        optimizer.step()
    v = optimizer.state[p]["exp_avg_sq"].float()
    assert float(v.mean()) == pytest.approx(1e-3 * 0.999**500, rel=0.01)


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
        ({"betas": (0.9, 1.0)}, "betas must be two numbers"),
        ({"foreach": True, "fused": True}, "expected one of them"),
    ],
)
def test_bad_options_say_so(options, message):
    with pytest.raises(ValueError, match=message):
        hw.AdamW([torch.nn.Parameter(torch.zeros(2))], **options)
