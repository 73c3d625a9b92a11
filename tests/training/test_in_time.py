"""Windows of trajectories, and training that unrolls a model over them: against finite differences and by hand."""

import copy

import h5py
import numpy as np
import pytest
import torch
from deaths import Stop, assert_same_run, stop_after
from torch import nn

import halfwave as hw
from halfwave.data import Heat, ReadOptions, Window, generate, open_dataset
from halfwave.errors import InputError
from halfwave.models import Unrolled, Unrolling
from halfwave.training import RelativeL2, load
from halfwave.training.in_time import PerStep

ARGUMENTS = {"n_modes": [6], "hidden_channels": 6, "n_layers": 1}
FEW = {"model": "FNO", "arguments": ARGUMENTS, "epochs": 2, "batch_size": 8, "precision": "full", "quiet": True}


@pytest.fixture(scope="module")
def heat(tmp_path_factory):
    problem = Heat(resolution=16, steps=9, diffusivity=5e-3)
    return generate(problem, tmp_path_factory.mktemp("heat") / "heat.h5", n_train=4, n_test=2)


def labelled(path, trajectories=5, length=7, channels=2, points=8):
    """States that say who they are: 100 i + t, and beside them a static field and a parameter."""
    i, t = np.meshgrid(np.arange(trajectories), np.arange(length), indexing="ij")
    states = np.broadcast_to((100.0 * i + t)[..., None, None], (trajectories, length, channels, points))
    with h5py.File(path, "w") as file:
        for split in ("train", "test"):
            file[f"{split}/trajectory"] = states.astype(np.float32)
            file[f"{split}/static"] = np.full((trajectories, 1, points), 0.5, np.float32)
            file[f"{split}/parameters"] = np.arange(trajectories, dtype=np.float32)[:, None] * 1000
    return path


@pytest.mark.parametrize("in_memory", [False, True])
def test_windows_never_mix_neighbouring_trajectories(tmp_path, in_memory):
    path = labelled(tmp_path / "d.h5")
    dataset = open_dataset(path, ReadOptions(window=Window(history=2, horizon=3, stride=1)))
    split = dataset.train.in_memory() if in_memory else dataset.train
    assert len(split) == 5 * 3
    assert dataset.model_channels == (2 * 2 + 2, 2)
    x, y = split[:]
    for number in range(len(split)):
        i, start = divmod(number, 3)
        assert x[number, :4, 0].tolist() == [100 * i + start] * 2 + [100 * i + start + 1] * 2
        assert y[number, ::2, 0].tolist() == [100 * i + start + step for step in (2, 3, 4)]
        assert x[number, 4:, 3].tolist() == [0.5, 1000 * i]


def test_strides_limits_and_what_cannot_be(tmp_path, heat):
    path = labelled(tmp_path / "d.h5")
    dataset = open_dataset(path, ReadOptions(window=Window(horizon=2, stride=2), n_train=2))
    assert len(dataset.train) == 2 * 3  # trajectories are counted, not windows
    assert dataset.train[3][1][::2, 0].tolist() == [102, 104]
    with pytest.raises(InputError, match="span 11 states; trajectories have 7"):
        open_dataset(path, ReadOptions(window=Window(horizon=10)))
    np.savez(tmp_path / "steady.npz", x=np.ones((4, 9)), y=np.ones((4, 9)))
    with pytest.raises(InputError, match="has no trajectories"):
        open_dataset(tmp_path / "steady.npz", ReadOptions(window=Window()))
    for change in ({"history": 2}, {"noise": 0.1}, {"residual": True}, {"unroll": "last"}):
        with pytest.raises(InputError, match="expected a horizon with it"):
            hw.train(data=heat, run_dir=tmp_path / "run", **{**FEW, **change})


@pytest.mark.parametrize("change", [{"augment": ("translations",)}, {"mesh": "grid=2"}, {"data": "live:darcy"}])
def test_what_does_not_go_with_a_horizon_is_said_before_anything_starts(tmp_path, heat, change):
    with pytest.raises(InputError, match=r"augment does not work|horizon does not work|horizon is for files"):
        hw.train(**{"data": heat, "run_dir": tmp_path / "run", "horizon": 2, **FEW, **change})
    assert not (tmp_path / "run").exists()


def test_every_file_in_time_gives_its_states(tmp_path):
    u = np.random.default_rng(0).standard_normal((5, 4, 12)).astype(np.float32)
    with h5py.File(tmp_path / "pdebench.h5", "w") as file:
        file["tensor"] = u
    with h5py.File(tmp_path / "well.h5", "w") as file:
        file["t0_fields/u"] = u
    np.savez(tmp_path / "d.npz", trajectory=u[:, :, None])
    torch.save({"trajectory": torch.from_numpy(u[:, :, None])}, tmp_path / "d.pt")
    with h5py.File(tmp_path / "li.mat", "w", userblock_size=512) as file:
        file["a"], file["u"] = u[:, 0].T, np.moveaxis(u, 1, -1).T
    for name in ("pdebench.h5", "well.h5", "d.npz", "d.pt", "li.mat"):
        split = open_dataset(tmp_path / name, ReadOptions(window=Window(horizon=2))).train
        np.testing.assert_array_equal(split[3][0], u[1, 1:2], err_msg=name)
        np.testing.assert_array_equal(split[3][1], u[1, 2:4], err_msg=name)


def small(seed=0, channels=1, history=1, beside=0):
    torch.manual_seed(seed)
    return hw.FNO([4], channels * history + beside, channels, 3, n_layers=1).double()


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("recompute", [False, True])
def test_unrolled_gradients_are_those_of_finite_differences(residual, recompute):
    unrolling = Unrolling(1, history=2, horizon=3, residual=residual, increments=(0.3,), recompute=recompute)
    unrolled = Unrolled(small(history=2, beside=1), unrolling)
    x, y = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(2, 3, 8, dtype=torch.float64)
    loss = PerStep(RelativeL2(), 1, unrolled)
    loss(unrolled(x), y).backward()
    for parameter in unrolled.parameters():
        direction = torch.randn_like(parameter)
        slopes = []
        for size in (1e-6, -1e-6):
            with torch.no_grad():
                parameter += size * direction
                slopes.append(float(loss(unrolled(x), y)))
                parameter -= size * direction
        expected = (slopes[0] - slopes[1]) / 2e-6
        assert float((parameter.grad * direction).sum()) == pytest.approx(expected, rel=1e-5, abs=1e-8)


def gradients(unrolled, x, y):
    unrolled.zero_grad()
    PerStep(RelativeL2(), 1, unrolled)(unrolled(x), y).backward()
    return [p.grad.clone() for p in unrolled.parameters()]


def test_pushforward_and_last_are_detached_by_hand():
    model = small()
    x, y = torch.randn(2, 1, 8, dtype=torch.float64), torch.randn(2, 3, 8, dtype=torch.float64)
    pushed = Unrolled(model, Unrolling(1, horizon=3, gradients="pushforward"))
    found = gradients(pushed, x, y)
    model.zero_grad()
    with torch.no_grad():
        u1 = model(x)
        u2 = model(u1)
    RelativeL2()(model(u2), y[:, 2:]).backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(found, model.parameters(), strict=True))
    found = gradients(Unrolled(model, Unrolling(1, horizon=3, gradients="last")), x, y)
    model.zero_grad()
    sum(RelativeL2()(model(u), y[:, i : i + 1]) / 3 for i, u in enumerate((x, u1, u2))).backward()
    for a, p in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(a, p.grad)


def test_recomputed_steps_are_the_same_and_a_shorter_look_is_a_prefix():
    model = small()
    x, y = torch.randn(2, 1, 8, dtype=torch.float64), torch.randn(2, 4, 8, dtype=torch.float64)
    plain, again = (Unrolled(model, Unrolling(1, horizon=4, recompute=r)) for r in (False, True))
    assert all(torch.equal(a, b) for a, b in zip(gradients(plain, x, y), gradients(again, x, y), strict=True))
    plain.set_steps(2)
    assert torch.equal(plain(x), again(x)[:, :2])
    assert torch.equal(plain.eval()(x), again(x))  # evaluation looks at the whole horizon


def test_a_run_in_time_dies_and_resumes_bit_for_bit(heat, tmp_path, monkeypatch):
    settings = {**FEW, "horizons": ((0.5, 1), (0.5, 3)), "history": 2, "noise": 0.05, "residual": True}
    settings |= {"checkpoint_steps": 1, "epochs": 3, "recompute_steps": True}
    hw.train(data=heat, run_dir=tmp_path / "whole", **settings)
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(Stop):
            hw.train(data=heat, run_dir=tmp_path / "dead", **settings)
    hw.train(data=heat, run_dir=tmp_path / "dead", **settings)
    assert_same_run(tmp_path / "whole", tmp_path / "dead")
    operator = load(tmp_path / "dead" / "model.safetensors")
    assert operator.model.unrolling.history == 2
    assert operator(torch.randn(2, 2, 16)).shape == (2, 3, 16)
    assert torch.equal(operator.x_normalizer.std[:1], operator.y_normalizer.std)  # one normalizer of the state


def test_two_ranks_are_one(heat, tmp_path):
    settings = {**FEW, "horizon": 2, "noise": 0.1, "unroll": "pushforward", "epochs": 1, "checkpoint_every": 9}
    one, two = (
        hw.train(data=heat, run_dir=tmp_path / str(n), devices=n, accelerator="cpu", **settings) for n in (1, 2)
    )
    assert two.l2 == pytest.approx(one.l2, rel=1e-5)


class Perfect(nn.Module):
    """One step of an equation that is diagonal in Fourier space, u_hat -> factor u_hat, exactly."""

    def __init__(self, factor):
        super().__init__()
        self.factor, self.unused = factor, nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return torch.fft.ifft(torch.fft.fft(x) * self.factor).real


@pytest.mark.parametrize("kind", ["heat", "advection"])
def test_rollouts_of_a_perfect_operator_stay_at_rounding_for_a_thousand_steps(kind):
    from halfwave.data import Advection
    from halfwave.data.generator import sample_rng

    steps = 1000
    problem = Heat(resolution=32, diffusivity=1e-5) if kind == "heat" else Advection(resolution=32, speed=0.37)
    start = problem.field.sample(sample_rng(0, "test", 0), 32)
    factor = torch.from_numpy(np.exp(0.01 * problem.symbol(np.fft.fftfreq(32, 1 / 32))))
    stepper = Unrolled(Perfect(factor), Unrolling(1)).roll(torch.from_numpy(start)[None, None])
    worst = 0.0
    for step in range(1, steps + 1):
        truth = problem.state(start, 0.01 * step)
        worst = max(worst, float(np.linalg.norm(next(stepper)[0, 0].numpy() - truth) / np.linalg.norm(truth)))
    assert worst < steps * np.finfo(np.float64).eps


def test_memory_of_unrolling_is_planned_and_flat_with_recomputation():
    from halfwave.measure import measure_step
    from halfwave.planner import plan_memory

    def peak(horizon, recompute):
        torch.manual_seed(0)
        model = hw.FNO([8, 8], 1, 1, 8, n_layers=2)
        unrolled = Unrolled(model, Unrolling(1, horizon=horizon, recompute=recompute))
        x, y = torch.randn(2, 1, 24, 24), torch.randn(2, horizon, 24, 24)
        optimizer = torch.optim.AdamW(unrolled.parameters(), fused=True)
        for _ in range(2):
            counted = measure_step(unrolled, RelativeL2(), optimizer, (x, y))
        planned = plan_memory(copy.deepcopy(unrolled), [(2, 1, 24, 24), (2, horizon, 24, 24)], device="cpu")
        assert planned.peak_bytes == pytest.approx(counted.peak_memory_bytes, rel=0.01)
        return counted.activation_bytes

    one, eight = peak(1, False), peak(8, False)
    assert eight > 3 * one
    assert peak(8, True) < 1.35 * peak(1, True)  # the states themselves, which are small
