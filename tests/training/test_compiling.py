"""Whether a run compiles: decided from counted work, kept through a resume, and no reason to fail."""

import pytest
import torch
import torch._dynamo
import torch._inductor.config

from halfwave import FNO, load, set_precision
from halfwave.training import TrainConfig, train
from halfwave.training import trainer as training
from halfwave.training.compiling import ForwardWork, compiles, count_forward, missing_compiler
from halfwave.training.operator import Operator

_CPU = torch.device("cpu")


@pytest.fixture
def auto(config):
    return config.model_copy(update={"compile": "auto", "arguments": {**config.arguments, "n_layers": 1}})


class _OneSample:
    def __getitem__(self, indices):
        return torch.randn(len(indices), 1, 16, 16, generator=torch.Generator().manual_seed(0)), None


def _decide(config, model, updates, device=_CPU):
    return compiles(config, Operator(model, None, None), _OneSample(), updates, device)


def test_long_runs_compile_and_short_ones_are_not_even_counted(auto, model, monkeypatch):
    assert _decide(auto, model, 10**7)
    assert not _decide(auto, model, 2000)
    monkeypatch.setattr("halfwave.training.compiling.count_forward", None)
    assert not _decide(auto, model, 100)
    for value in (True, False):
        assert _decide(auto.model_copy(update={"compile": value}), model, 1) is value


@pytest.mark.parametrize("changes", [{"strategy": "fsdp"}, {"mesh": "grid=2"}, {"monitor": True}])
def test_auto_leaves_alone_what_cannot_be_compiled(auto, model, changes):
    assert not _decide(auto.model_copy(update=changes), model, 10**7)
    assert not _decide(auto, model, 10**7, torch.device("meta"))


@pytest.mark.parametrize("factorization", ["cp", "tucker", "tt"])
def test_auto_leaves_weights_of_low_rank_to_their_tiles(auto, factorization):
    model = FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=4, factorization=factorization, rank=0.5)
    assert not _decide(auto, model, 10**7)


def test_the_estimate_is_a_quarter_of_three_passes():
    """A 128x128 FNO of batch 8: 37 GFLOP forward, a second a step: 1100 updates save five minutes."""
    assert ForwardWork(37e9 / 8, 500).saved_seconds(8, 1, 1100) == pytest.approx(0.25 * 3 * (0.37 + 0.005) * 1100)


def test_counting_moves_nothing(model):
    operator = Operator(model, None, None)
    before, state = torch.random.get_rng_state(), {k: v.clone() for k, v in model.state_dict().items()}
    work = count_forward(operator, _OneSample())
    assert work.flops > 2 * 16 * 16 * 8  # more than one product of its channels
    assert work.calls > 10
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert not any(module.settled for module in model.modules() if hasattr(module, "settled"))


@pytest.mark.parametrize("began", [True, False])
def test_a_resumed_run_goes_on_as_it_began(auto, tmp_path, monkeypatch, began):
    """The two halves of a run decide differently: the checkpoint has the last word."""
    seen = []

    def set_compiled(operator, compiled):
        seen.append(compiled)
        operator.compiled = compiled

    monkeypatch.setattr(Operator, "set_compiled", set_compiled)
    monkeypatch.setattr(training, "missing_compiler", lambda: None)
    for decided, epochs in ((began, 1), (not began, 2)):
        monkeypatch.setattr(training, "compiles", lambda *_, decided=decided: decided)
        train(auto.model_copy(update={"epochs": epochs}), tmp_path, quiet=True)
    assert seen[-1] is began


def test_without_a_compiler_the_run_is_eager_and_says_so(auto, tmp_path, monkeypatch, capfd):
    eager = train(auto.model_copy(update={"compile": False}), tmp_path / "eager", quiet=True)
    monkeypatch.setattr(training, "compiles", lambda *_: True)
    monkeypatch.setattr(training, "missing_compiler", lambda: "there is no C++ compiler (g++ or clang++)")
    found = train(auto, tmp_path / "auto")
    assert "there is no C++ compiler (g++ or clang++): training runs eagerly" in capfd.readouterr().err
    assert found.l2 == eager.l2
    weights = [load(tmp_path / name / "model.safetensors").state_dict() for name in ("eager", "auto")]
    assert all(torch.equal(v, weights[1][k]) for k, v in weights[0].items())


def test_a_missing_compiler_is_found_out():
    import torch._inductor.config as config

    with config.patch({"cpp.cxx": ("no-such-compiler",)}):  # monkeypatch would leave the setting deleted
        assert "no C++ compiler" in missing_compiler()


def test_a_compiler_that_fails_ends_no_run_that_did_not_ask_for_it(auto, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise torch._dynamo.exc.TorchDynamoException("no room\non the disk")

    def compile_badly(module, **_):
        module._compiled_call_impl = fail

    monkeypatch.setattr(torch.nn.Module, "compile", compile_badly)
    monkeypatch.setattr(training, "compiles", lambda *_: True)
    monkeypatch.setattr(training, "missing_compiler", lambda: None)
    with pytest.warns(UserWarning, match="training goes on eagerly: no room on the disk"):
        found = train(auto.model_copy(update={"epochs": 1}), tmp_path / "auto", quiet=True)
    assert found.status == "finished"
    with pytest.raises(torch._dynamo.exc.TorchDynamoException):
        train(auto.model_copy(update={"epochs": 1, "compile": True}), tmp_path / "asked", quiet=True)


def test_a_config_says_what_is_accepted():
    assert TrainConfig(data="x.h5", compile="auto").compile == "auto"
    assert TrainConfig(data="x.h5").compile is False
    with pytest.raises(ValueError, match="compile"):
        TrainConfig(data="x.h5", compile="sometimes")


@pytest.mark.parametrize("precision", ["mixed", "half"])
def test_a_compiled_model_rounds_what_the_eager_one_rounds(precision):
    """Inductor would take casts to half and back for nothing: its answers would be fp32's."""
    torch.manual_seed(0)
    model = FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=4, n_layers=1, precision=precision)
    operator = Operator(model, None, None)
    x = torch.randn(2, 1, 8, 8)
    with torch.no_grad():
        eager = operator(x)
        set_precision(model, "full")
        full = operator(x)
        set_precision(model, precision)
        operator.set_compiled(True)
        compiled = operator(x)
    rounding = (eager - full).norm()
    assert rounding > 0
    assert (compiled - eager).norm() < 0.7 * rounding < (compiled - full).norm()
